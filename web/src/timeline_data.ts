// The events of the page: docs/formats/page.md. Rows of spans that do not overlap, of points, and of
// counters, each sorted by start, with an index that makes any zoom cheap.

import { ColumnReader, readReals, splitBlob, unzigzag, VarintReader } from './bytes.ts';

/** Events are looked over in groups of this many. */
export const kGroup = 64;

export interface Track {
  id: number;
  kind: string;
  parent: number;
  text: string;
  number: number;
  rank: number;
}

interface RowHeader {
  track: number;
  kind: 'span' | 'instant' | 'counter' | 'sample';
  lane: number;
  depth: number;
  count: number;
  all: number;
  name?: number;
  lengths: number[];
  arguments?: [number, number][];
  unfinished?: number[];
}
interface Header {
  version: number;
  duration_ns: number;
  events: number;
  kept: number;
  categories: string[];
  tracks: [string, number, number, number, number][];
  names: [number, number][];
  keys: [number, string][];
  rows: RowHeader[];
  histograms: CategoryHistogram[];
  texts: string[];
}
export interface CategoryHistogram {
  category: number;
  count: number;
  sum: number;
  min: number;
  max: number;
  p50: number;
  p90: number;
  p99: number;
  buckets: [number, number, number][];
}

/** The first index at which `values` is greater than `bound`. */
export function upperBound(
  values: Float64Array,
  bound: number,
  low = 0,
  high = values.length,
): number {
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (values[middle] <= bound) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Events in order of start that do not overlap, of one row. */
export class Spans {
  readonly starts: Float64Array;
  readonly ends: Float64Array;
  readonly names: Uint32Array;
  /** Time covered by the events before each group. */
  private readonly covered: Float64Array;
  /** The longest event of each group. */
  private readonly longestOf: Uint32Array;

  constructor(starts: Float64Array, ends: Float64Array, names: Uint32Array) {
    this.starts = starts;
    this.ends = ends;
    this.names = names;
    const groups = Math.ceil(starts.length / kGroup);
    this.covered = new Float64Array(groups + 1);
    this.longestOf = new Uint32Array(groups);
    for (let group = 0; group < groups; ++group) {
      const last = Math.min(starts.length, (group + 1) * kGroup);
      let sum = 0;
      let longest = group * kGroup;
      for (let i = group * kGroup; i < last; ++i) {
        const length = ends[i] - starts[i];
        sum += length;
        if (length > ends[longest] - starts[longest]) longest = i;
      }
      this.covered[group + 1] = this.covered[group] + sum;
      this.longestOf[group] = longest;
    }
  }

  get length(): number {
    return this.starts.length;
  }

  /** Indexes first..last-1 of the events that touch [begin, end). */
  range(begin: number, end: number): [number, number] {
    let first = upperBound(this.ends, begin);
    // A point at the very begin is in it; a span that ends there is not.
    while (first > 0 && this.starts[first - 1] === begin) --first;
    let last = upperBound(this.starts, end, first);
    // An event that only begins where the view ends is not in it.
    while (last > first && this.starts[last - 1] >= end && this.ends[last - 1] > end) --last;
    return [first, last];
  }

  /** Sum of durations of events first..last-1. */
  total(first: number, last: number): number {
    let sum = 0;
    let i = first;
    while (i < last && i % kGroup !== 0) sum += this.ends[i] - this.starts[i++];
    const groups = Math.floor((last - i) / kGroup);
    if (groups > 0) {
      const group = i / kGroup;
      sum += this.covered[group + groups] - this.covered[group];
      i += groups * kGroup;
    }
    for (; i < last; ++i) sum += this.ends[i] - this.starts[i];
    return sum;
  }

  /** The longest of events first..last-1. */
  longest(first: number, last: number): number {
    let best = first;
    let most = -1;
    for (let i = first; i < last;) {
      const isGroup = i % kGroup === 0 && i + kGroup <= last;
      const candidate = isGroup ? this.longestOf[i / kGroup] : i;
      const length = this.ends[candidate] - this.starts[candidate];
      if (length > most) {
        most = length;
        best = candidate;
      }
      i += isGroup ? kGroup : 1;
    }
    return best;
  }
}

/** What is drawn for [x, x + width): one event, or many that share a pixel. */
export interface Piece {
  x: number;
  width: number;
  event: number;
  count: number;
  /** Of the width that events cover. */
  fill: number;
}

/**
 * Pieces of `spans` between two moments for a drawing of `pixels` columns: at most about two for each
 * column, whatever the number of events.
 */
export function pieces(
  spans: Spans,
  begin: number,
  end: number,
  pixels: number,
  take: (piece: Piece) => void,
): void {
  const scale = pixels / (end - begin);
  const nsOfPixel = (end - begin) / pixels;
  const [first, last] = spans.range(begin, end);
  const piece: Piece = { x: 0, width: 0, event: 0, count: 0, fill: 0 };
  for (let i = first; i < last;) {
    const from = spans.starts[i];
    const to = spans.ends[i];
    const x = Math.max(0, (from - begin) * scale);
    if (to - from >= nsOfPixel) {
      piece.x = x;
      piece.width = Math.min(pixels, (to - begin) * scale) - x;
      piece.event = i;
      piece.count = 1;
      piece.fill = 1;
      take(piece);
      ++i;
      continue;
    }
    // All small ones that start in this column, up to the next wide one.
    const column = Math.floor(x);
    const edge = begin + (column + 1) * nsOfPixel;
    let next = i + 1;
    if (next < last && spans.starts[next] < edge) {
      next = upperBound(spans.starts, edge, next, last);
      // A wide one can only be the last of them: nothing starts inside it.
      if (next - 1 > i && spans.ends[next - 1] - spans.starts[next - 1] >= nsOfPixel) --next;
    }
    piece.x = column;
    piece.width = 1;
    piece.count = next - i;
    piece.event = next - i === 1 ? i : spans.longest(i, next);
    piece.fill = Math.min(1, (next - i === 1 ? to - from : spans.total(i, next)) * scale);
    take(piece);
    i = next;
  }
}

/** Values over time that hold until the next one. */
export class Counter {
  readonly low: number;
  readonly high: number;
  private readonly lows: Float64Array;
  private readonly highs: Float64Array;
  constructor(
    readonly times: Float64Array,
    readonly values: Float64Array,
  ) {
    const groups = Math.ceil(times.length / kGroup);
    this.lows = new Float64Array(groups);
    this.highs = new Float64Array(groups);
    let low = Infinity;
    let high = -Infinity;
    for (let group = 0; group < groups; ++group) {
      let a = Infinity;
      let b = -Infinity;
      for (let i = group * kGroup; i < Math.min(times.length, (group + 1) * kGroup); ++i) {
        a = Math.min(a, values[i]);
        b = Math.max(b, values[i]);
      }
      this.lows[group] = a;
      this.highs[group] = b;
      low = Math.min(low, a);
      high = Math.max(high, b);
    }
    this.low = times.length > 0 ? low : 0;
    this.high = times.length > 0 ? high : 0;
  }

  /** The value that holds at a moment; NaN before the first. */
  at(time: number): number {
    const index = upperBound(this.times, time) - 1;
    return index < 0 ? NaN : this.values[index];
  }

  /** Lowest and highest value in [begin, end), the one that holds at the begin included. */
  extremes(begin: number, end: number): [number, number] {
    let i = Math.max(0, upperBound(this.times, begin) - 1);
    const last = upperBound(this.times, end);
    let low = Infinity;
    let high = -Infinity;
    while (i < last) {
      if (i % kGroup === 0 && i + kGroup <= last) {
        low = Math.min(low, this.lows[i / kGroup]);
        high = Math.max(high, this.highs[i / kGroup]);
        i += kGroup;
      } else {
        low = Math.min(low, this.values[i]);
        high = Math.max(high, this.values[i]);
        ++i;
      }
    }
    return [low, high];
  }
}

export interface Row {
  track: number;
  kind: 'span' | 'instant' | 'counter' | 'sample';
  lane: number;
  depth: number;
  /** Before thinning. */
  all: number;
  spans: Spans | null;
  counter: Counter | null;
  counterName: string;
  unfinished: Set<number>;
  columns: { key: number; bytes: Uint8Array; values: Float64Array | null }[];
}

export class TimelineData {
  readonly durationNs: number;
  readonly events: number;
  readonly kept: number;
  readonly categories: string[];
  readonly tracks: Track[];
  readonly rows: Row[] = [];
  readonly histograms: CategoryHistogram[];
  private readonly header: Header;

  constructor(bytes: Uint8Array) {
    const { header, columns } = splitBlob<Header>(bytes);
    if (header.version !== 1) throw new Error(`timeline of version ${header.version}`);
    this.header = header;
    this.durationNs = header.duration_ns;
    this.events = header.events;
    this.kept = header.kept;
    this.categories = header.categories;
    this.histograms = header.histograms;
    this.tracks = header.tracks.map(([kind, parent, text, number, rank], id) => ({
      id,
      kind,
      parent,
      text: header.texts[text],
      number,
      rank,
    }));
    const reader = new ColumnReader(columns);
    for (const row of header.rows) this.rows.push(this.readRow(row, reader));
  }

  nameText(name: number): string {
    return this.header.texts[this.header.names[name][0]];
  }
  nameCategory(name: number): number {
    return this.header.names[name][1];
  }
  get nameCount(): number {
    return this.header.names.length;
  }

  /** Arguments of one event, as they are read: name, type, value. */
  argumentsOf(row: Row, event: number): [string, string, number | string][] {
    const found: [string, string, number | string][] = [];
    for (const column of row.columns) {
      const [text, type] = this.header.keys[column.key];
      column.values ??= readArguments(column.bytes, type, row.spans!.length);
      const value = column.values[event];
      if (Number.isNaN(value)) continue;
      found.push([
        this.header.texts[text],
        type,
        type === 'text' ? this.header.texts[value] : value,
      ]);
    }
    return found;
  }

  private readRow(header: RowHeader, reader: ColumnReader): Row {
    const row: Row = {
      track: header.track,
      kind: header.kind,
      lane: header.lane,
      depth: header.depth,
      all: header.all,
      spans: null,
      counter: null,
      counterName: '',
      unfinished: new Set(header.unfinished ?? []),
      columns: [],
    };
    const starts = new Float64Array(header.count);
    const deltas = new VarintReader(reader.take(header.lengths[0]));
    if (header.kind === 'counter') {
      for (let i = 0, at = 0; i < header.count; ++i) starts[i] = at += deltas.next();
      row.counterName = this.nameText(header.name!);
      row.counter = new Counter(starts, readReals(reader.take(header.lengths[1]), header.count));
      return row;
    }
    const ends = new Float64Array(header.count);
    const durations = new VarintReader(reader.take(header.lengths[1]));
    if (header.kind === 'span') {
      for (let i = 0, at = 0; i < header.count; ++i) {
        starts[i] = at + deltas.next();
        ends[i] = at = starts[i] + durations.next();
      }
    } else {
      // Points: what a sample stands for is not what it lasted.
      for (let i = 0, at = 0; i < header.count; ++i) starts[i] = ends[i] = at += deltas.next();
    }
    const names = new Uint32Array(header.count);
    const ids = new VarintReader(reader.take(header.lengths[2]));
    for (let i = 0; i < header.count; ++i) names[i] = ids.next();
    row.spans = new Spans(starts, ends, names);
    for (const [key, length] of header.arguments ?? [])
      row.columns.push({ key, bytes: reader.take(length), values: null });
    return row;
  }
}

function readArguments(bytes: Uint8Array, type: string, count: number): Float64Array {
  if (type === 'real') return readReals(bytes, count);
  const reader = new VarintReader(bytes);
  const values = new Float64Array(count);
  for (let i = 0; i < count; ++i) {
    const value = reader.next();
    values[i] = value === 0 ? NaN : type === 'text' ? value - 1 : unzigzag(value - 1);
  }
  return values;
}
