import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decodeBase64, inflate, splitBlob, unzigzag, VarintReader } from '../src/bytes.ts';
import { Counter, kGroup, pieces, Spans, TimelineData } from '../src/timeline_data.ts';
import { buildTree, layout } from '../src/timeline_layout.ts';
import { allowedNames, totals } from '../src/timeline_statistics.ts';
import { pack, timelineOf, varint } from './support.mjs';

// A small generator with a fixed seed: the same numbers in every run.
function numbers(seed) {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

function randomSpans(count, seed) {
  const random = numbers(seed);
  const starts = new Float64Array(count);
  const ends = new Float64Array(count);
  const names = new Uint32Array(count);
  let at = 0;
  for (let i = 0; i < count; ++i) {
    at += Math.floor(random() * 50);
    starts[i] = at;
    at += Math.floor(random() < 0.02 ? random() * 5000 : random() * 60);
    ends[i] = at;
    names[i] = Math.floor(random() * 4);
  }
  return new Spans(starts, ends, names);
}

test('varints come back up to 2^53', () => {
  const values = [0, 1, 127, 128, 300, 2 ** 31, 2 ** 32 + 5, 2 ** 53 - 1];
  const bytes = [];
  for (const value of values) varint(value, bytes);
  const reader = new VarintReader(Uint8Array.from(bytes));
  for (const value of values) assert.equal(reader.next(), value);
  assert.deepEqual([0, 1, 2, 3, 4].map(unzigzag), [0, -1, 1, -2, 2]);
});

test('base64 of raw deflate is undone', async () => {
  const bytes = Uint8Array.from({ length: 5000 }, (_, i) => (i * i) % 251);
  assert.deepEqual(await inflate(decodeBase64(pack(bytes))), bytes);
  await assert.rejects(inflate(decodeBase64(pack(bytes).slice(0, 40))));
});

test('cut data are named so', () => {
  assert.throws(() => splitBlob(Uint8Array.from([255, 0, 0, 0, 1])), /cut/);
  const whole = timelineOf([[1, 2, 0, 3]], ['a']);
  assert.throws(() => new TimelineData(whole.subarray(0, whole.length - 2)), /cut/);
});

test('spans, names and arguments are read', () => {
  const data = new TimelineData(
    timelineOf(
      [
        [5, 10, 0, 4096],
        [15, 1, 1],
        [1000, 0, 0, 0],
      ],
      ['read', '__proto__'],
    ),
  );
  const [row] = data.rows;
  assert.deepEqual([...row.spans.starts], [5, 15, 1000]);
  assert.deepEqual([...row.spans.ends], [15, 16, 1000]);
  assert.equal(data.nameText(1), '__proto__');
  assert.deepEqual(data.argumentsOf(row, 0), [['bytes', 'integer', 4096]]);
  assert.deepEqual(data.argumentsOf(row, 1), []);
  assert.deepEqual(data.argumentsOf(row, 2), [['bytes', 'integer', 0]]);
});

test('a range has what touches it', () => {
  const spans = randomSpans(1000, 11);
  const random = numbers(5);
  const whole = spans.ends[999];
  for (let round = 0; round < 300; ++round) {
    const begin = Math.floor(random() * whole);
    const end = begin + 1 + Math.floor(random() * whole * 0.2);
    const [first, last] = spans.range(begin, end);
    for (let i = 0; i < 1000; ++i) {
      const overlaps = spans.starts[i] < end && spans.ends[i] > begin;
      if (overlaps) assert.ok(i >= first && i < last, `${i} touches [${begin}, ${end})`);
      else if (i >= first && i < last)
        assert.ok(
          spans.starts[i] === spans.ends[i] || spans.starts[i] === begin,
          `${i} is outside`,
        );
    }
  }
});

test('totals and the longest agree with a plain sum', () => {
  const spans = randomSpans(5 * kGroup + 13, 3);
  for (const [first, last] of [
    [0, spans.length],
    [1, 2],
    [5, 200],
    [kGroup, 2 * kGroup],
    [63, 257],
  ]) {
    let sum = 0;
    let most = -1;
    for (let i = first; i < last; ++i) {
      sum += spans.ends[i] - spans.starts[i];
      most = Math.max(most, spans.ends[i] - spans.starts[i]);
    }
    assert.equal(spans.total(first, last), sum);
    const longest = spans.longest(first, last);
    assert.ok(longest >= first && longest < last);
    assert.equal(spans.ends[longest] - spans.starts[longest], most);
  }
});

test('pieces count every event once, and are no more than two a pixel', () => {
  for (const [count, pixels] of [
    [10, 800],
    [5000, 800],
    [200_000, 800],
  ]) {
    const spans = randomSpans(count, 9);
    const end = spans.ends[count - 1] + 1;
    let events = 0;
    let drawn = 0;
    let covered = 0;
    pieces(spans, 0, end, pixels, (piece) => {
      events += piece.count;
      ++drawn;
      assert.ok(piece.x >= 0 && piece.x + piece.width <= pixels + 1e-6);
      assert.ok(piece.fill >= 0 && piece.fill <= 1);
      covered += piece.count === 1 && piece.fill === 1 ? piece.width : piece.fill;
    });
    assert.equal(events, count);
    assert.ok(drawn <= 2 * pixels + 2, `${drawn} pieces for ${pixels} pixels`);
    const busy = spans.total(0, count) / end;
    assert.ok(
      Math.abs(covered / pixels - busy) < 0.02,
      `covered ${covered / pixels}, busy ${busy}`,
    );
  }
});

test('the longest event of a pixel is the one that is shown', () => {
  const starts = Float64Array.from({ length: 100 }, (_, i) => i * 10);
  const ends = starts.map((start, i) => start + (i === 42 ? 9 : 1));
  const spans = new Spans(starts, ends, new Uint32Array(100));
  const shown = [];
  pieces(spans, 0, 100_000, 100, (piece) => shown.push(piece.event));
  assert.deepEqual(shown, [42]);
});

test('a counter knows its extremes between any two moments', () => {
  const random = numbers(4);
  const times = Float64Array.from({ length: 700 }, (_, i) => i * 3 + 1);
  const values = Float64Array.from({ length: 700 }, () => random() * 100 - 50);
  const counter = new Counter(times, values);
  assert.equal(counter.low, Math.min(...values));
  assert.equal(counter.high, Math.max(...values));
  assert.ok(Number.isNaN(counter.at(0)));
  assert.equal(counter.at(4), values[1]);
  assert.equal(counter.at(6.9), values[1]);
  for (const [begin, end] of [
    [0, 2200],
    [100, 101],
    [500, 1500],
    [1999, 2099],
  ]) {
    let low = Infinity;
    let high = -Infinity;
    for (let i = 0; i < 700; ++i) {
      const until = i + 1 < 700 ? times[i + 1] : Infinity;
      if (times[i] > end || until <= begin) continue;
      low = Math.min(low, values[i]);
      high = Math.max(high, values[i]);
    }
    assert.deepEqual(counter.extremes(begin, end), [low, high]);
  }
});

test('statistics count what lies inside, and what the filter lets through', () => {
  const data = new TimelineData(
    timelineOf(
      [
        [0, 10, 0],
        [10, 10, 1],
        [30, 20, 0],
      ],
      ['read', 'decode'],
    ),
  );
  assert.deepEqual(totals(data, data.rows, 5, 40, null), [
    { name: 0, count: 2, ns: 15, longest: 10 },
    { name: 1, count: 1, ns: 10, longest: 10 },
  ]);
  const filter = (text, categories = []) => [
    ...(allowedNames(data, text, new Set(categories)) ?? [9]),
  ];
  assert.deepEqual(filter(''), [9]);
  assert.deepEqual(filter('DEC'), [0, 1]);
  assert.deepEqual(filter('/^r/'), [1, 0]);
  assert.deepEqual(filter('/(/'), [0, 0]);
  assert.deepEqual(filter('', [1]), [0, 1]);
  assert.equal(totals(data, data.rows, 0, 50, allowedNames(data, 'read', new Set())).length, 1);
});

// A disk with hundreds of requests in flight took a page of almost empty lines.
test('beyond a few lanes the others of a track start folded', () => {
  const track = { id: 0, kind: 'block device', parent: -1, text: 'vda', number: -1, rank: -1 };
  const data = (lanes) => ({
    tracks: [track],
    rows: Array.from({ length: lanes }, (_, lane) => ({
      track: 0,
      kind: 'span',
      lane,
      depth: 0,
      counterName: '',
      spans: randomSpans(3, lane + 1),
      counter: null,
    })),
  });
  const few = layout(buildTree(data(6), new Set()), false);
  assert.equal(few.lines.filter((line) => line.row).length, 6);
  const tree = buildTree(data(300), new Set());
  const folded = layout(tree, false);
  assert.equal(folded.lines.filter((line) => line.row).length, 4);
  const more = tree[0].children[0];
  assert.equal(more.label, '296 more at the same time');
  more.isOpen = true;
  assert.equal(layout(tree, false).lines.filter((line) => line.row).length, 300);
});
