// Call stacks with their weights, as one tree from the outermost function down; of two recordings, both
// in one tree, so that each function can be compared with itself.

import { ColumnReader, splitBlob, VarintReader } from './bytes.ts';

interface Header {
  version: number;
  kind: 'samples' | 'spans';
  stacks: number;
  entries: number;
  left_out_ns: number;
  frames: [number, number, string, number][];
  tracks: number[];
  lengths: number[];
  texts: string[];
}

export interface Frame {
  symbol: string;
  module: string;
  kind: string;
  line: number;
}

export class FlameData {
  readonly kind: 'samples' | 'spans';
  readonly leftOutNs: number;
  readonly frames: Frame[];
  readonly tracks: string[];
  /** By stack: caller's id or -1, frame. */
  readonly callers: Int32Array;
  readonly frameOf: Uint32Array;
  readonly entries: { track: number; stack: number; ns: number; count: number }[] = [];

  constructor(bytes: Uint8Array) {
    const { header, columns } = splitBlob<Header>(bytes);
    if (header.version !== 1) throw new Error(`flame graph of version ${header.version}`);
    this.kind = header.kind;
    this.leftOutNs = header.left_out_ns;
    this.frames = header.frames.map(([symbol, module, kind, line]) => ({
      symbol: header.texts[symbol],
      module: header.texts[module],
      kind,
      line,
    }));
    this.tracks = header.tracks.map((text) => header.texts[text]);
    const reader = new ColumnReader(columns);
    const [callers, frames, track, stack, ns, counts] = header.lengths.map(
      (length) => new VarintReader(reader.take(length)),
    );
    this.callers = new Int32Array(header.stacks);
    this.frameOf = new Uint32Array(header.stacks);
    for (let i = 0; i < header.stacks; ++i) {
      const back = callers.next();
      this.callers[i] = back === 0 ? -1 : i - back;
      this.frameOf[i] = frames.next();
    }
    for (let i = 0; i < header.entries; ++i)
      this.entries.push({
        track: track.next(),
        stack: stack.next(),
        ns: ns.next(),
        count: counts.next(),
      });
  }
}

export interface FlameNode {
  frame: Frame;
  parent: FlameNode | null;
  children: FlameNode[];
  depth: number;
  /** With its children: of the recording, and of the one it is compared with. */
  ns: number;
  againstNs: number;
  selfNs: number;
  count: number;
  /** Where it stands in the drawing, as nanoseconds from the left. */
  x: number;
}

function makeNode(frame: Frame, parent: FlameNode | null): FlameNode {
  return {
    frame,
    parent,
    children: [],
    depth: parent ? parent.depth + 1 : 0,
    ns: 0,
    againstNs: 0,
    selfNs: 0,
    count: 0,
    x: 0,
  };
}

/**
 * One tree of both. `track`: only that one of the recording (-1: all; the comparison is always whole).
 * Functions that differ only in the line are one.
 */
export function flameTree(data: FlameData, against: FlameData | null, track: number): FlameNode {
  const root = makeNode({ symbol: 'all', module: '', kind: 'root', line: 0 }, null);
  const byKey = new Map<FlameNode, Map<string, FlameNode>>();
  const child = (parent: FlameNode, frame: Frame): FlameNode => {
    let known = byKey.get(parent);
    if (!known) byKey.set(parent, (known = new Map()));
    const key = `${frame.symbol}\u0000${frame.module}`;
    let node = known.get(key);
    if (!node) {
      known.set(key, (node = makeNode(frame, parent)));
      parent.children.push(node);
    }
    return node;
  };
  const addAll = (
    source: FlameData,
    only: number,
    take: (node: FlameNode, ns: number, count: number, isLeaf: boolean) => void,
  ): void => {
    const nodes: (FlameNode | undefined)[] = new Array(source.callers.length);
    const nodeOf = (stack: number): FlameNode => {
      // Callers stand before what they call, but deep ones may not be walked by recursion.
      const missing: number[] = [];
      let at = stack;
      for (; at >= 0 && !nodes[at]; at = source.callers[at]) missing.push(at);
      let node = at < 0 ? root : nodes[at]!;
      for (let i = missing.length - 1; i >= 0; --i)
        nodes[missing[i]] = node = child(node, source.frames[source.frameOf[missing[i]]]);
      return node;
    };
    for (const entry of source.entries) {
      if (only >= 0 && entry.track !== only) continue;
      let node: FlameNode | null = nodeOf(entry.stack);
      take(node, entry.ns, entry.count, true);
      for (node = node.parent; node; node = node.parent) take(node, entry.ns, entry.count, false);
    }
  };
  addAll(data, track, (node, ns, n, isLeaf) => {
    node.ns += ns;
    node.count += n;
    if (isLeaf) node.selfNs += ns;
  });
  if (against) addAll(against, -1, (node, ns) => (node.againstNs += ns));
  place(root, against !== null);
  return root;
}

/** Children by weight, the heaviest at the left; those of the comparison alone have no width. */
function place(root: FlameNode, isCompared: boolean): void {
  const stack = [root];
  while (stack.length > 0) {
    const node = stack.pop()!;
    node.children.sort((a, b) => b.ns - a.ns || a.frame.symbol.localeCompare(b.frame.symbol));
    let x = node.x;
    for (const one of node.children) {
      one.x = x;
      x += one.ns;
      stack.push(one);
    }
    if (!isCompared) node.againstNs = 0;
  }
}

/** How much its share of all time grew: positive when it has more than in the comparison. */
export function growth(node: FlameNode, root: FlameNode): number {
  return (
    (root.ns > 0 ? node.ns / root.ns : 0) -
    (root.againstNs > 0 ? node.againstNs / root.againstNs : 0)
  );
}

/** Share of the time in which a matching function is anywhere on the stack. */
export function matchedNs(root: FlameNode, matches: (frame: Frame) => boolean): number {
  let sum = 0;
  const stack = [...root.children];
  while (stack.length > 0) {
    const node = stack.pop()!;
    if (matches(node.frame)) sum += node.ns;
    else stack.push(...node.children);
  }
  return sum;
}
