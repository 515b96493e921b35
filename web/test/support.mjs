// What the tests need to make: the page's binary form, written a second time and independently.
import { deflateRawSync } from 'node:zlib';

export function varint(value, out) {
  let rest = BigInt(value);
  while (rest >= 128n) {
    out.push(Number(rest & 127n) | 128);
    rest >>= 7n;
  }
  out.push(Number(rest));
}

export function blob(header, columns) {
  const text = new TextEncoder().encode(JSON.stringify(header));
  const bytes = new Uint8Array(4 + text.length + columns.length);
  new DataView(bytes.buffer).setUint32(0, text.length, true);
  bytes.set(text, 4);
  bytes.set(columns, 4 + text.length);
  return bytes;
}

export const pack = (bytes) => deflateRawSync(bytes).toString('base64');

/** A timeline with one row of spans [start, duration, name], each with an argument "bytes" or null. */
export function timelineOf(spans, names, more = {}) {
  const columns = [];
  const lengths = [];
  let from = 0;
  const end = () => {
    lengths.push(columns.length - from);
    from = columns.length;
  };
  let before = 0;
  for (const [start, duration] of spans) {
    varint(start - before, columns);
    before = start + duration;
  }
  end();
  for (const [, duration] of spans) varint(duration, columns);
  end();
  for (const [, , name] of spans) varint(name, columns);
  end();
  for (const [, , , bytes] of spans) varint(bytes === undefined ? 0 : bytes * 2 + 1, columns);
  const row = {
    track: 0,
    kind: 'span',
    lane: 0,
    depth: 0,
    count: spans.length,
    all: spans.length,
    lengths,
    arguments: [[0, columns.length - from]],
  };
  const header = {
    version: 1,
    duration_ns: before,
    events: spans.length,
    kept: spans.length,
    categories: ['other', 'read'],
    tracks: [['thread', -1, 0, 7, -1]],
    names: names.map((_, i) => [i + 2, i % 2]),
    keys: [[1, 'integer']],
    rows: [row],
    histograms: [],
    texts: ['main', 'bytes', ...names],
    ...more,
  };
  return blob(header, columns);
}
