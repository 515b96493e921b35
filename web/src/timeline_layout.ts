// Which lines the timeline has, from top to bottom: groups that fold, and the rows of tracks.

import type { Row, TimelineData, Track } from './timeline_data.ts';
import { visible } from './format.ts';

export const kGroupHeight = 22;
const kSpanHeight = 17;
const kPointHeight = 11;
const kCounterHeight = 30;
const kBlockGap = 5;
const kLabelHeight = 15;

/** A track, or a group of many of one kind ("64 cores"). */
export interface Node {
  key: string;
  label: string;
  track: Track | null;
  depth: number;
  rows: Row[];
  children: Node[];
  isOpen: boolean;
  /** First moment that anything in it happened. */
  begin: number;
}

export interface Line {
  y: number;
  height: number;
  node: Node;
  /** Nothing for the head of a group and for a label. */
  row: Row | null;
  /** The name of a track above its rows, where there is no room beside them. */
  isLabel: boolean;
  /** The first line of its track has the label. */
  isFirst: boolean;
}

const kOrder = [
  'process',
  'device',
  'stream',
  'thread',
  'block device',
  'network',
  'other',
  'core',
];
// So many tracks of one kind below one parent start folded into a group.
const kManyOf: Record<string, number> = {
  core: 3,
  'block device': 6,
  network: 6,
  thread: 60,
  stream: 24,
  other: 12,
};

// A disk may have hundreds of requests in flight: beyond a few lanes the others start folded.
const kLanesShown = 4;

/** Rows of lanes beyond those shown, as a group that starts folded, and the rows that stay. */
function foldLanes(rows: Row[], key: string, depth: number): { rows: Row[]; more: Node | null } {
  const lanes = new Set(rows.filter((row) => row.kind === 'span').map((row) => row.lane));
  if (lanes.size <= kLanesShown + 2) return { rows, more: null };
  const isFolded = (row: Row): boolean => row.kind === 'span' && row.lane >= kLanesShown;
  const folded = rows.filter(isFolded);
  return {
    rows: rows.filter((row) => !isFolded(row)),
    more: {
      key: `${key}-lanes`,
      label: `${lanes.size - kLanesShown} more at the same time`,
      track: null,
      depth,
      rows: folded,
      children: [],
      isOpen: false,
      begin: beginOf(folded),
    },
  };
}

function labelOf(track: Track): string {
  const text = visible(track.text, 200) || track.kind;
  const isNumbered = ['process', 'thread', 'device', 'core'].includes(track.kind);
  const number =
    isNumbered && track.number >= 0 && !text.endsWith(String(track.number))
      ? ` ${track.number}`
      : '';
  const rank = track.rank >= 0 && track.kind === 'process' ? `rank ${track.rank}  ` : '';
  return rank + text + number;
}

function beginOf(rows: Row[]): number {
  let begin = Infinity;
  for (const row of rows) {
    const starts = row.spans?.starts ?? row.counter?.times;
    if (starts && starts.length > 0) begin = Math.min(begin, starts[0]);
  }
  return begin;
}

/** The tree of all tracks that have anything to show. `first`: tracks that stand above their siblings. */
export function buildTree(data: TimelineData, first: Set<number>): Node[] {
  const rowsOf = new Map<number, Row[]>();
  for (const row of data.rows) {
    const rows = rowsOf.get(row.track);
    if (rows) rows.push(row);
    else rowsOf.set(row.track, [row]);
  }
  const rank = { span: 0, sample: 1, instant: 2, counter: 3 };
  for (const rows of rowsOf.values())
    rows.sort(
      (a, b) =>
        rank[a.kind] - rank[b.kind] ||
        a.lane - b.lane ||
        a.depth - b.depth ||
        a.counterName.localeCompare(b.counterName),
    );
  const childrenOf = new Map<number, Track[]>();
  for (const track of data.tracks) {
    const siblings = childrenOf.get(track.parent);
    if (siblings) siblings.push(track);
    else childrenOf.set(track.parent, [track]);
  }
  const isFirst = new Map<Node, boolean>();
  const build = (track: Track, depth: number): Node | null => {
    const key = `track-${track.id}`;
    const { rows, more } = foldLanes(rowsOf.get(track.id) ?? [], key, depth + 1);
    const children = buildChildren(track.id, depth + 1);
    if (more) children.unshift(more);
    if (rows.length === 0 && children.length === 0) return null;
    const begin = Math.min(beginOf(rows), ...children.map((child) => child.begin));
    const node: Node = {
      key,
      label: labelOf(track),
      track,
      depth,
      rows,
      children,
      isOpen: true,
      begin,
    };
    isFirst.set(node, first.has(track.id) || children.some((child) => isFirst.get(child)));
    return node;
  };
  const buildChildren = (parent: number, depth: number): Node[] => {
    const nodes: Node[] = [];
    const byKind = new Map<string, Node[]>();
    for (const track of childrenOf.get(parent) ?? []) {
      const node = build(track, depth);
      if (!node) continue;
      const same = byKind.get(track.kind);
      if (same) same.push(node);
      else byKind.set(track.kind, [node]);
    }
    const kinds = [...byKind.keys()].sort((a, b) => kOrder.indexOf(a) - kOrder.indexOf(b));
    for (const kind of kinds) {
      const same = byKind.get(kind)!;
      same.sort((a, b) => {
        const mine = Number(isFirst.get(b) ?? false) - Number(isFirst.get(a) ?? false);
        return mine || (kind === 'core' ? a.track!.number - b.track!.number : a.begin - b.begin);
      });
      if (same.length <= (kManyOf[kind] ?? Infinity)) {
        nodes.push(...same);
        continue;
      }
      const deeper = (node: Node): void => {
        ++node.depth;
        node.children.forEach(deeper);
      };
      same.forEach(deeper);
      nodes.push({
        key: `group-${parent}-${kind}`,
        label: `${same.length} ${kind}s`,
        track: null,
        depth,
        rows: [],
        children: same,
        isOpen: kind === 'thread',
        begin: Math.min(...same.map((node) => node.begin)),
      });
    }
    return nodes;
  };
  return buildChildren(-1, 0);
}

/** A node without children of its own is only its rows; others have a head that folds. */
export function hasHead(node: Node): boolean {
  return node.children.length > 0 || node.track === null;
}

/** `isNarrow`: names of tracks get lines of their own. */
export function layout(nodes: Node[], isNarrow: boolean): { lines: Line[]; height: number } {
  const lines: Line[] = [];
  let y = 0;
  const place = (node: Node): void => {
    const { rows } = node;
    if (hasHead(node)) {
      lines.push({ y, height: kGroupHeight, node, row: null, isLabel: false, isFirst: true });
      y += kGroupHeight;
      if (!node.isOpen) return;
    } else if (isNarrow && rows.length > 0) {
      lines.push({ y, height: kLabelHeight, node, row: null, isLabel: true, isFirst: true });
      y += kLabelHeight;
    }
    rows.forEach((row, index) => {
      const height =
        row.kind === 'counter' ? kCounterHeight : row.kind === 'span' ? kSpanHeight : kPointHeight;
      lines.push({ y, height, node, row, isLabel: false, isFirst: index === 0 });
      y += height + (row.kind === 'counter' ? 3 : 1);
    });
    if (rows.length > 0) y += kBlockGap;
    node.children.forEach(place);
  };
  nodes.forEach(place);
  return { lines, height: y };
}

/** The line at a height, by search. */
export function lineAt(lines: Line[], y: number): Line | null {
  let low = 0;
  let high = lines.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (lines[middle].y + lines[middle].height <= y) low = middle + 1;
    else high = middle;
  }
  const line = lines[low];
  return line && line.y <= y ? line : null;
}
