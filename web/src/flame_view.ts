// The flame graph: the outermost function at the top, what it calls below it, width for time.

import { add, el, sizeCanvas, type Tooltip } from './dom.ts';
import { count, duration, percent, visible } from './format.ts';
import {
  flameTree,
  growth,
  matchedNs,
  type FlameData,
  type FlameNode,
  type Frame,
} from './flame_data.ts';
import { onThemeChange, palette, textOn } from './theme.ts';

const kRow = 18;

function hashOf(text: string): number {
  let hash = 2166136261;
  for (let i = 0; i < text.length; ++i) hash = Math.imul(hash ^ text.charCodeAt(i), 16777619);
  return hash >>> 0;
}

export class FlameView {
  readonly element: HTMLElement;
  private root: FlameNode;
  private zoomed: FlameNode;
  private focus: FlameNode | null = null;
  private boxes: { node: FlameNode; x: number; y: number; width: number }[] = [];
  private needle = '';
  private readonly canvas = el('canvas', {
    class: 'chart',
    attributes: {
      tabindex: '0',
      role: 'application',
      'aria-label': 'flame graph: arrows move, Enter zooms, Escape zooms out',
    },
  });
  private readonly scroller = el('div', 'flame-scroll', this.canvas);
  private readonly matchNote = el('span', {
    class: 'muted matches',
    attributes: { role: 'status' },
  });
  private readonly path = el('p', { class: 'note flame-path' });

  constructor(
    private readonly data: FlameData,
    private readonly against: FlameData | null,
    private readonly tooltip: Tooltip,
    extra: Node | null,
  ) {
    this.root = this.zoomed = flameTree(data, against, -1);
    const search = el('input', {
      class: 'filter',
      attributes: {
        type: 'search',
        placeholder: 'search functions',
        'aria-label': 'search functions',
      },
    });
    search.addEventListener('input', () => {
      this.needle = search.value.trim().toLowerCase();
      this.draw();
    });
    this.element = el(
      'div',
      'flame',
      el('div', 'controls', extra, search, this.trackChoice(), this.matchNote),
      against ? this.scale() : null,
      this.path,
      this.scroller,
    );
    this.canvas.addEventListener('pointermove', (event) => this.hover(event));
    this.canvas.addEventListener('pointerleave', () => tooltip.hide());
    this.canvas.addEventListener('click', (event) => {
      const node = this.nodeAt(event);
      if (node) this.zoom(node);
    });
    this.canvas.addEventListener('keydown', (event) => this.key(event));
    new ResizeObserver(() => this.draw()).observe(this.scroller);
    onThemeChange(() => this.draw());
    this.zoom(this.root);
  }

  private trackChoice(): HTMLElement | null {
    if (this.data.tracks.length < 2) return null;
    const choice = el(
      'select',
      { attributes: { 'aria-label': 'whose stacks' } },
      el('option', { attributes: { value: '-1' } }, `all ${this.data.tracks.length} tracks`),
    );
    const weights = new Map<number, number>();
    for (const entry of this.data.entries)
      weights.set(entry.track, (weights.get(entry.track) ?? 0) + entry.ns);
    const order = [...weights.keys()].sort((a, b) => weights.get(b)! - weights.get(a)!);
    for (const track of order.slice(0, 300))
      add(
        choice,
        el(
          'option',
          { attributes: { value: String(track) } },
          `${visible(this.data.tracks[track], 90)}  ${duration(weights.get(track))}`,
        ),
      );
    choice.addEventListener('change', () => {
      this.root = flameTree(this.data, this.against, Number(choice.value));
      this.zoom(this.root);
    });
    return choice;
  }

  private scale(): HTMLElement {
    return el(
      'p',
      'note flame-scale',
      el('span', 'swatch shrank'),
      'smaller share than before',
      el('span', 'swatch same'),
      'unchanged',
      el('span', 'swatch grew'),
      'larger share',
    );
  }

  private zoom(node: FlameNode): void {
    this.zoomed = node;
    const names: string[] = [];
    for (let at: FlameNode | null = node; at && at.parent; at = at.parent)
      names.unshift(visible(at.frame.symbol, 60));
    const shown = names.length > 4 ? ['\u2026', ...names.slice(-4)] : names;
    this.path.replaceChildren(
      `${duration(node.ns)}${this.data.kind === 'samples' ? ' of CPU time' : ' of spans, over all tracks'}${names.length > 0 ? `  \u00b7  ${shown.join(' \u203a ')}` : ''}${this.data.leftOutNs > 0 ? `  \u00b7  ${duration(this.data.leftOutNs)} of rare stacks left out` : ''}  `,
    );
    if (node !== this.root)
      add(
        this.path,
        el(
          'button',
          {
            class: 'more',
            attributes: { type: 'button' },
            on: { click: () => this.zoom(this.root) },
          },
          'whole graph',
        ),
      );
    this.draw();
  }

  private matches = (frame: Frame): boolean =>
    frame.symbol.toLowerCase().includes(this.needle) ||
    frame.module.toLowerCase().includes(this.needle);

  private color(node: FlameNode): string {
    const colors = palette();
    if (node.frame.kind === 'root') return colors.raised;
    if (this.against) {
      const change = growth(node, this.root);
      const base = Math.max(
        node.ns / (this.root.ns || 1),
        node.againstNs / (this.root.againstNs || 1),
        1e-12,
      );
      return mix(
        colors.raised,
        change >= 0 ? colors.grew : colors.shrank,
        Math.min(1, Math.abs(change) / base) * Math.min(1, Math.abs(change) * 60),
      );
    }
    if (node.frame.kind === 'span')
      return mix(
        palette().category(node.frame.module),
        colors.surface,
        0.1 + (hashOf(node.frame.symbol) % 32) / 100,
      );
    const base = colors.category(`frame-${node.frame.kind}`);
    return mix(base, colors.surface, (hashOf(node.frame.module + node.frame.symbol) % 40) / 100);
  }

  private draw(): void {
    const width = this.scroller.clientWidth;
    if (width === 0) return;
    const colors = palette();
    this.boxes = [];
    const ancestors: FlameNode[] = [];
    for (let at = this.zoomed.parent; at; at = at.parent) ancestors.unshift(at);
    ancestors.forEach((node, i) => this.boxes.push({ node, x: 0, y: i * kRow, width }));
    const scale = width / (this.zoomed.ns || 1);
    const stack = [this.zoomed];
    let deepest = ancestors.length;
    while (stack.length > 0) {
      const node = stack.pop()!;
      const w = node.ns * scale;
      if (w < 0.4) continue;
      const depth = node.depth - this.zoomed.depth + ancestors.length;
      deepest = Math.max(deepest, depth);
      this.boxes.push({ node, x: (node.x - this.zoomed.x) * scale, y: depth * kRow, width: w });
      for (const one of node.children) if (one.ns * scale >= 0.4) stack.push(one);
    }
    const context = sizeCanvas(this.canvas, width, (deepest + 1) * kRow);
    context.clearRect(0, 0, width, (deepest + 1) * kRow);
    context.font = '11px system-ui, sans-serif';
    context.textBaseline = 'middle';
    for (const box of this.boxes) {
      const isDimmed =
        (this.needle && !this.matches(box.node.frame)) ||
        (box.width === width && box.node.depth < this.zoomed.depth);
      const color = this.color(box.node);
      context.globalAlpha = isDimmed ? 0.35 : 1;
      context.fillStyle = color;
      context.fillRect(box.x, box.y, Math.max(0.6, box.width - 0.6), kRow - 1);
      if (box.width > 30) {
        context.fillStyle = textOn(color);
        const text = box.node.parent
          ? visible(box.node.frame.symbol, 160)
          : `all  ${duration(box.node.ns)}`;
        const room = Math.floor((box.width - 8) / 5.9);
        if (room >= 3)
          context.fillText(
            text.length > room ? `${text.slice(0, room - 1)}\u2026` : text,
            box.x + 4,
            box.y + kRow / 2,
          );
      }
      context.globalAlpha = 1;
      if (box.node === this.focus) {
        context.strokeStyle = colors.text;
        context.lineWidth = 1.5;
        context.strokeRect(box.x + 1, box.y + 1, Math.max(2, box.width - 3), kRow - 3);
      }
    }
    const matched = this.needle ? matchedNs(this.root, this.matches) : 0;
    this.matchNote.textContent = this.needle
      ? `on ${percent(matched / (this.root.ns || 1))} of the stacks`
      : '';
    this.element.dataset.matched = String(matched);
    this.element.dataset.total = String(this.root.ns);
  }

  private nodeAt(event: MouseEvent): FlameNode | null {
    const bounds = this.canvas.getBoundingClientRect();
    const x = event.clientX - bounds.left;
    const y = event.clientY - bounds.top;
    return (
      this.boxes.find(
        (box) => y >= box.y && y < box.y + kRow && x >= box.x && x < box.x + box.width,
      )?.node ?? null
    );
  }

  private describe(node: FlameNode, x: number, y: number): void {
    const rows: [string, string][] = [];
    if (node.frame.module)
      rows.push([
        node.frame.kind === 'span' ? 'category' : 'module',
        visible(node.frame.module, 160) + (node.frame.line > 0 ? `:${node.frame.line}` : ''),
      ]);
    rows.push(
      ['time', `${duration(node.ns)}  ${percent(node.ns / (this.root.ns || 1))}`],
      ['self', `${duration(node.selfNs)}  ${percent(node.selfNs / (this.root.ns || 1))}`],
      [this.data.kind === 'samples' ? 'samples' : 'spans below', count(node.count)],
    );
    if (this.against) {
      const change = growth(node, this.root);
      rows.push(
        [
          'before',
          `${duration(node.againstNs)}  ${percent(node.againstNs / (this.root.againstNs || 1))}`,
        ],
        ['share', `${change >= 0 ? '+' : '\u2212'}${(Math.abs(change) * 100).toFixed(1)} points`],
      );
    }
    this.tooltip.show(x, y, visible(node.frame.symbol, 400), rows);
  }

  private hover(event: PointerEvent): void {
    const node = this.nodeAt(event);
    if (node) this.describe(node, event.clientX, event.clientY);
    else this.tooltip.hide();
    this.canvas.style.cursor = node ? 'pointer' : 'default';
  }

  private key(event: KeyboardEvent): void {
    const at = this.focus ?? this.zoomed;
    const siblings = at.parent?.children ?? [at];
    const index = siblings.indexOf(at);
    const next: Record<string, FlameNode | null | undefined> = {
      ArrowDown: at.children[0],
      ArrowUp: at.parent,
      ArrowLeft: siblings[index - 1],
      ArrowRight: siblings[index + 1],
    };
    if (event.key in next) {
      const node = next[event.key];
      event.preventDefault();
      if (!node || node.ns <= 0) return;
      this.focus = node;
      this.draw();
      const box = this.boxes.find((candidate) => candidate.node === node);
      const bounds = this.canvas.getBoundingClientRect();
      if (box) this.describe(node, bounds.left + box.x + 10, bounds.top + box.y + kRow);
    } else if (event.key === 'Enter' && this.focus) {
      this.zoom(this.focus);
    } else if (event.key === 'Escape') {
      this.focus = null;
      this.tooltip.hide();
      this.zoom(this.root);
    }
  }
}

/** Between two colours "#rrggbb". */
export function mix(a: string, b: string, share: number): string {
  const x = parseInt(a.slice(1), 16);
  const y = parseInt(b.slice(1), 16);
  let result = 0;
  for (const shift of [16, 8, 0]) {
    const from = (x >> shift) & 255;
    const to = (y >> shift) & 255;
    result |= Math.round(from + (to - from) * share) << shift;
  }
  return `#${result.toString(16).padStart(6, '0')}`;
}
