import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FlameData, flameTree, growth, matchedNs } from '../src/flame_data.ts';
import { blob, varint } from './support.mjs';

/** Stacks as [caller or -1, frame]; entries as [track, stack, ns, count]. */
function flameOf(frames, stacks, entries) {
  const columns = [];
  const lengths = [];
  let from = 0;
  const column = (values) => {
    for (const value of values) varint(value, columns);
    lengths.push(columns.length - from);
    from = columns.length;
  };
  column(stacks.map(([caller], i) => (caller < 0 ? 0 : i - caller)));
  column(stacks.map(([, frame]) => frame));
  for (let i = 0; i < 4; ++i) column(entries.map((entry) => entry[i]));
  const texts = ['m', ...frames];
  return new FlameData(
    blob(
      {
        version: 1,
        kind: 'samples',
        stacks: stacks.length,
        entries: entries.length,
        left_out_ns: 0,
        frames: frames.map((_, i) => [i + 1, 0, 'python', i]),
        tracks: [0, 0],
        lengths,
        texts,
      },
      columns,
    ),
  );
}

const stacks = [
  [-1, 0],
  [0, 1],
  [0, 2],
  [1, 2],
];
const before = () =>
  flameOf(['main', 'load', 'decode'], stacks, [
    [0, 1, 10, 1],
    [0, 2, 20, 2],
    [1, 3, 70, 7],
  ]);

test('the tree adds up', () => {
  const root = flameTree(before(), null, -1);
  assert.equal(root.ns, 100);
  assert.equal(root.count, 10);
  const [main] = root.children;
  assert.equal(main.frame.symbol, 'main');
  assert.deepEqual(
    main.children.map((node) => [node.frame.symbol, node.ns, node.selfNs, node.x]),
    [
      ['load', 80, 10, 0],
      ['decode', 20, 20, 80],
    ],
  );
  assert.equal(flameTree(before(), null, 1).ns, 70);
});

test('functions that are the same by name are one, whatever their number', () => {
  const root = flameTree(
    flameOf(
      ['main', 'f', 'f'],
      [
        [-1, 0],
        [0, 1],
        [0, 2],
      ],
      [
        [0, 1, 5, 1],
        [0, 2, 6, 1],
      ],
    ),
    null,
    -1,
  );
  assert.deepEqual(
    root.children[0].children.map((node) => [node.frame.symbol, node.ns]),
    [['f', 11]],
  );
});

test('growth is signed, and relative to all of each recording', () => {
  const now = flameOf(['main', 'load', 'decode'], stacks, [
    [0, 1, 10, 1],
    [0, 2, 180, 2],
    [1, 3, 10, 7],
  ]);
  const root = flameTree(now, before(), -1);
  const [first, second] = root.children[0].children;
  assert.equal(first.frame.symbol, 'decode');
  assert.ok(Math.abs(growth(first, root) - (0.9 - 0.2)) < 1e-12);
  assert.ok(Math.abs(growth(second, root) - (0.1 - 0.8)) < 1e-12);
  assert.equal(growth(root, root), 0);
});

test('a search counts a stack once', () => {
  const root = flameTree(before(), null, -1);
  assert.equal(
    matchedNs(root, (frame) => frame.symbol === 'decode'),
    90,
  );
  assert.equal(
    matchedNs(root, (frame) => frame.symbol === 'load' || frame.symbol === 'decode'),
    100,
  );
});
