// What the timeline looks like at one moment: its rows, ruler and minimap, drawn on canvases. What is
// drawn depends on pixels, not on events.

import { el, sizeCanvas } from './dom.ts';
import type { Iteration } from './explanation.ts';
import { counterValue, duration, ticks, timeLabel, visible } from './format.ts';
import { palette, textOn } from './theme.ts';
import { pieces, Spans, type Row, type TimelineData } from './timeline_data.ts';
import { hasHead, type Line, type Node } from './timeline_layout.ts';

const kRulerHeight = 26;
const kMinimapHeight = 40;

export interface Hit {
  line: Line;
  event: number;
}

export class TimelinePainter {
  readonly canvas = el('canvas', { class: 'timeline-canvas' });
  readonly ruler = el('canvas', { class: 'timeline-ruler' });
  readonly minimap = el('canvas', {
    class: 'timeline-minimap',
    attributes: { 'aria-hidden': 'true' },
  });
  /** The stretch that is shown, and all there is. */
  begin = 0;
  end: number;
  readonly whole: number;
  lines: Line[] = [];
  labelWidth = 0;
  width = 0;
  selected: Hit | null = null;
  selection: [number, number] | null = null;
  /** By name: 1 for those that the filter lets through; null without a filter. */
  private allowed: Uint8Array | null = null;
  private filtered = new Map<Row, Spans>();
  private minimapImage: HTMLCanvasElement | null = null;
  private minimapColumns: { category: number; fill: number }[][] | null = null;
  private readonly colors = new Map<number, string>();

  constructor(
    private readonly data: TimelineData,
    private readonly iterations: Iteration[],
  ) {
    this.whole = Math.max(1, data.durationNs);
    this.end = this.whole;
  }

  get filter(): Uint8Array | null {
    return this.allowed;
  }
  set filter(allowed: Uint8Array | null) {
    this.allowed = allowed;
    this.filtered.clear();
  }

  forgetColors(): void {
    this.colors.clear();
    this.minimapImage = null;
  }

  get isNarrow(): boolean {
    return window.innerWidth < 640;
  }

  get drawWidth(): number {
    return Math.max(10, this.width - this.labelWidth);
  }

  timeAt(x: number): number {
    return this.begin + ((x - this.labelWidth) / this.drawWidth) * (this.end - this.begin);
  }

  xOf(time: number): number {
    return this.labelWidth + ((time - this.begin) / (this.end - this.begin)) * this.drawWidth;
  }

  /** The events of a row that the filter lets through. */
  filteredSpans(row: Row): Spans {
    const known = this.filtered.get(row);
    if (known) return known;
    const all = row.spans!;
    let kept = 0;
    for (let i = 0; i < all.length; ++i) kept += this.allowed![all.names[i]];
    const starts = new Float64Array(kept);
    const ends = new Float64Array(kept);
    const names = new Uint32Array(kept);
    for (let i = 0, at = 0; i < all.length; ++i) {
      if (!this.allowed![all.names[i]]) continue;
      starts[at] = all.starts[i];
      ends[at] = all.ends[i];
      names[at++] = all.names[i];
    }
    const spans = new Spans(starts, ends, names);
    this.filtered.set(row, spans);
    return spans;
  }

  drawRows(top: number, viewHeight: number): void {
    const height = viewHeight;
    const context = sizeCanvas(this.canvas, this.width, height);
    const colors = palette();
    context.fillStyle = colors.surface;
    context.fillRect(0, 0, this.width, height);
    context.textBaseline = 'middle';
    this.drawIterationBands(context, height);
    const first = this.firstLine(top);
    for (let i = first; i < this.lines.length && this.lines[i].y < top + height; ++i)
      this.drawLine(context, this.lines[i], top);
    if (this.labelWidth > 0) {
      context.fillStyle = colors.surface;
      context.fillRect(0, 0, this.labelWidth - 1, height);
      context.fillStyle = colors.line;
      context.fillRect(this.labelWidth - 1, 0, 1, height);
    }
    for (let i = first; i < this.lines.length && this.lines[i].y < top + height; ++i)
      this.drawLabel(context, this.lines[i], top);
    this.drawSelection(context, height);
  }

  private firstLine(top: number): number {
    let low = 0;
    let high = this.lines.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.lines[middle].y + this.lines[middle].height < top) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  private drawIterationBands(context: CanvasRenderingContext2D, height: number): void {
    const colors = palette();
    context.fillStyle = colors.faint;
    const scale = this.drawWidth / (this.end - this.begin);
    for (const iteration of this.iterations) {
      if (iteration.end_ns < this.begin || iteration.begin_ns > this.end) continue;
      const width = (iteration.end_ns - iteration.begin_ns) * scale;
      if (width < 3 || iteration.number % 2 === 0) continue;
      context.fillRect(this.xOf(iteration.begin_ns), 0, width, height);
    }
  }

  private drawLine(context: CanvasRenderingContext2D, line: Line, top: number): void {
    const y = line.y - top;
    const colors = palette();
    if (line.isLabel) return;
    if (!line.row) {
      context.fillStyle = colors.raised;
      context.fillRect(0, y, this.width, line.height);
      context.fillStyle = colors.surface;
      context.fillRect(0, y + line.height - 1, this.width, 1);
      if (!line.node.isOpen) this.drawFolded(context, line, y);
      return;
    }
    if (line.row.kind === 'counter') this.drawCounter(context, line, y);
    else this.drawSpans(context, line, y);
  }

  colorOf(name: number): string {
    let color = this.colors.get(name);
    if (color === undefined)
      this.colors.set(
        name,
        (color = palette().category(this.data.categories[this.data.nameCategory(name)])),
      );
    return color;
  }

  private drawSpans(context: CanvasRenderingContext2D, line: Line, y: number): void {
    const row = line.row!;
    const spans = row.spans!;
    const isPoint = row.kind !== 'span';
    const paint = (source: Spans, strength: number, withText: boolean): void => {
      // Columns beside each other that look the same are one rectangle.
      let color = '';
      let alpha = 0;
      let from = 0;
      let to = -1;
      const flush = (): void => {
        if (to <= from) return;
        context.fillStyle = color;
        context.globalAlpha = alpha;
        context.fillRect(this.labelWidth + from, y, to - from, line.height);
        to = from;
      };
      pieces(source, this.begin, this.end, this.drawWidth, (piece) => {
        const ownColor = this.colorOf(source.names[piece.event]);
        const density = isPoint ? Math.min(1, 0.45 + piece.count * 0.08) : 0.35 + 0.65 * piece.fill;
        const ownAlpha = (strength * Math.ceil(density * 8)) / 8;
        if (piece.width > 4) {
          flush();
          context.fillStyle = ownColor;
          context.globalAlpha = strength;
          context.fillRect(this.labelWidth + piece.x, y, piece.width - 1, line.height);
          context.globalAlpha = 1;
          if (withText && piece.width > 34)
            this.drawName(
              context,
              source.names[piece.event],
              this.labelWidth + piece.x,
              y,
              piece.width,
              line.height,
              ownColor,
            );
          return;
        }
        const end = piece.x + Math.max(isPoint ? 1.5 : 1, piece.width);
        if (to > from && piece.x - to < 0.3 && ownColor === color && ownAlpha === alpha) {
          to = Math.max(to, end);
          return;
        }
        flush();
        color = ownColor;
        alpha = ownAlpha;
        from = piece.x;
        to = end;
      });
      flush();
      context.globalAlpha = 1;
    };
    if (this.allowed) {
      paint(spans, 0.16, false);
      paint(this.filteredSpans(row), 1, !isPoint);
    } else {
      paint(spans, 1, !isPoint);
    }
    const selected = this.selected;
    if (selected && selected.line.row === row) {
      const x = this.xOf(spans.starts[selected.event]);
      context.strokeStyle = palette().text;
      context.lineWidth = 2;
      context.strokeRect(
        x,
        y + 1,
        Math.max(3, this.xOf(spans.ends[selected.event]) - x),
        line.height - 2,
      );
    }
  }

  private drawName(
    context: CanvasRenderingContext2D,
    name: number,
    x: number,
    y: number,
    width: number,
    height: number,
    color: string,
  ): void {
    context.font = '11px system-ui, sans-serif';
    context.textAlign = 'left';
    context.fillStyle = textOn(color);
    const left = Math.max(x, this.labelWidth);
    const room = Math.floor((x + width - left - 8) / 5.8);
    if (room < 3) return;
    const text = visible(this.data.nameText(name), 120);
    context.fillText(
      text.length > room ? `${text.slice(0, Math.max(1, room - 1))}\u2026` : text,
      left + 4,
      y + height / 2 + 0.5,
    );
  }

  private drawCounter(context: CanvasRenderingContext2D, line: Line, y: number): void {
    const counter = line.row!.counter!;
    const colors = palette();
    const top = Math.max(counter.high, 0) || 1;
    const base = Math.min(counter.low, 0);
    const height = line.height - 2;
    const place = (value: number): number =>
      y + 1 + height * (1 - (value - base) / (top - base || 1));
    const step = (this.end - this.begin) / this.drawWidth;
    context.fillStyle = colors.category('usage');
    context.globalAlpha = 0.35;
    context.beginPath();
    const floor = place(base);
    const highs: number[] = [];
    let from = -1;
    for (let x = 0; x < this.drawWidth; ++x) {
      const time = this.begin + x * step;
      const [, high] = counter.extremes(time, time + step);
      const known = Number.isFinite(high) && (counter.times[0] ?? Infinity) <= time + step;
      highs.push(known ? place(high) : NaN);
      if (known && from < 0) from = x;
    }
    if (from < 0) {
      context.globalAlpha = 1;
      return;
    }
    context.moveTo(this.labelWidth + from, floor);
    for (let x = from; x < highs.length; ++x) {
      context.lineTo(this.labelWidth + x, highs[x]);
      context.lineTo(this.labelWidth + x + 1, highs[x]);
    }
    context.lineTo(this.labelWidth + highs.length, floor);
    context.fill();
    context.globalAlpha = 1;
    context.strokeStyle = colors.category('usage');
    context.lineWidth = 1;
    context.beginPath();
    for (let x = from; x < highs.length; ++x) {
      if (x === from) context.moveTo(this.labelWidth + x, highs[x]);
      context.lineTo(this.labelWidth + x, highs[x]);
      context.lineTo(this.labelWidth + x + 1, highs[x]);
    }
    context.stroke();
    context.font = '10px system-ui, sans-serif';
    context.textAlign = 'right';
    const text = counterValue(line.row!.counterName, counter.high);
    const width = context.measureText(text).width;
    // The curve shows through, and does not run through the figures.
    context.fillStyle = colors.surface;
    context.globalAlpha = 0.8;
    context.fillRect(this.width - 7 - width, y + 1, width + 6, 12);
    context.globalAlpha = 1;
    context.fillStyle = colors.text;
    context.fillText(text, this.width - 4, y + 7);
  }

  /** What a folded group holds, as one faint strip. */
  private drawFolded(context: CanvasRenderingContext2D, line: Line, y: number): void {
    const rows: Row[] = [];
    const collect = (node: Node): void => {
      rows.push(...node.rows.filter((row) => row.kind === 'span' && row.depth === 0));
      node.children.forEach(collect);
    };
    collect(line.node);
    for (const row of rows.slice(0, 200)) {
      pieces(row.spans!, this.begin, this.end, this.drawWidth / 2, (piece) => {
        context.globalAlpha = 0.12 + 0.2 * piece.fill;
        context.fillStyle = this.colorOf(row.spans!.names[piece.event]);
        context.fillRect(
          this.labelWidth + piece.x * 2,
          y + 5,
          Math.max(2, piece.width * 2),
          line.height - 12,
        );
      });
    }
    context.globalAlpha = 1;
  }

  private drawLabel(context: CanvasRenderingContext2D, line: Line, top: number): void {
    const colors = palette();
    const y = line.y - top;
    const isHead = line.row === null && !line.isLabel;
    const indent = 8 + line.node.depth * 11;
    if (isHead) {
      context.fillStyle = colors.raised;
      if (this.labelWidth > 0) context.fillRect(0, y, this.labelWidth - 1, line.height - 1);
      context.fillStyle = colors.muted;
      context.font = '9px system-ui, sans-serif';
      context.textAlign = 'left';
      context.fillText(line.node.isOpen ? '\u25be' : '\u25b8', indent - 4, y + line.height / 2 - 1);
      context.font = '600 11px system-ui, sans-serif';
      context.fillStyle = colors.text;
      this.clipText(
        context,
        line.node.label,
        indent + 8,
        y + line.height / 2 - 0.5,
        (this.labelWidth || this.width) - indent - 14,
      );
      return;
    }
    if (line.isLabel) {
      context.font = '11px system-ui, sans-serif';
      context.textAlign = 'left';
      context.fillStyle = colors.muted;
      this.clipText(context, line.node.label, 6, y + line.height / 2 + 1, this.width - 12);
      return;
    }
    const name =
      line.row!.kind === 'counter'
        ? visible(line.row!.counterName, 60).replace(/_/g, ' ')
        : line.isFirst
          ? line.node.label
          : '';
    if (!name) return;
    context.font = '11px system-ui, sans-serif';
    context.textAlign = 'left';
    const isCounter = line.row!.kind === 'counter';
    const text = isCounter && !hasHead(line.node) ? `${line.node.label}  ${name}` : name;
    context.fillStyle = isCounter ? colors.muted : colors.text;
    if (this.labelWidth > 0) {
      this.clipText(
        context,
        text,
        indent + 8,
        y + Math.min(line.height, 17) / 2 + 0.5,
        this.labelWidth - indent - 14,
      );
    } else if (isCounter) {
      this.clipText(context, text, 4, y + 8, this.width * 0.6);
    }
  }

  private clipText(
    context: CanvasRenderingContext2D,
    text: string,
    x: number,
    y: number,
    room: number,
  ): void {
    let shown = text;
    if (context.measureText(shown).width > room) {
      let low = 0;
      let high = shown.length;
      while (low < high) {
        const middle = (low + high + 1) >>> 1;
        if (context.measureText(`${text.slice(0, middle)}\u2026`).width <= room) low = middle;
        else high = middle - 1;
      }
      shown = `${text.slice(0, low)}\u2026`;
    }
    context.fillText(shown, x, y);
  }

  private drawSelection(context: CanvasRenderingContext2D, height: number): void {
    if (!this.selection) return;
    const colors = palette();
    const left = Math.max(this.labelWidth, this.xOf(this.selection[0]));
    const right = Math.min(this.width, this.xOf(this.selection[1]));
    if (right <= left) return;
    context.fillStyle = colors.accent;
    context.globalAlpha = 0.1;
    context.fillRect(left, 0, right - left, height);
    context.globalAlpha = 0.8;
    context.fillRect(left, 0, 1, height);
    context.fillRect(right - 1, 0, 1, height);
    context.globalAlpha = 1;
  }

  drawRuler(): void {
    const context = sizeCanvas(this.ruler, this.width, kRulerHeight);
    const colors = palette();
    context.fillStyle = colors.surface;
    context.fillRect(0, 0, this.width, kRulerHeight);
    context.font = '11px system-ui, sans-serif';
    context.textBaseline = 'middle';
    const lines = ticks(this.begin, this.end, Math.max(2, this.drawWidth / 110));
    const step = lines.length > 1 ? lines[1] - lines[0] : this.end - this.begin;
    for (const time of lines) {
      const x = Math.round(this.xOf(time)) + 0.5;
      context.fillStyle = colors.line;
      context.fillRect(x, kRulerHeight - 7, 1, 7);
      context.fillStyle = colors.muted;
      context.textAlign = x > this.width - 40 ? 'right' : 'left';
      context.fillText(
        timeLabel(time, step),
        x + (x > this.width - 40 ? -3 : 4),
        kRulerHeight / 2 - 1,
      );
    }
    if (this.labelWidth > 0) {
      context.textAlign = 'left';
      context.fillStyle = colors.muted;
      context.fillText(
        `${duration(this.end - this.begin)} of ${duration(this.whole)}`,
        8,
        kRulerHeight / 2,
      );
    }
    context.fillStyle = colors.line;
    context.fillRect(0, kRulerHeight - 1, this.width, 1);
  }

  drawMinimap(): void {
    const context = sizeCanvas(this.minimap, this.width, kMinimapHeight);
    const colors = palette();
    context.fillStyle = colors.raised;
    context.fillRect(0, 0, this.width, kMinimapHeight);
    context.drawImage(this.minimapPicture(), this.labelWidth, 0, this.drawWidth, kMinimapHeight);
    const left = this.labelWidth + (this.begin / this.whole) * this.drawWidth;
    const right = this.labelWidth + (this.end / this.whole) * this.drawWidth;
    context.fillStyle = colors.surface;
    context.globalAlpha = 0.7;
    context.fillRect(this.labelWidth, 0, left - this.labelWidth, kMinimapHeight);
    context.fillRect(right, 0, this.width - right, kMinimapHeight);
    context.globalAlpha = 1;
    context.strokeStyle = colors.accent;
    context.lineWidth = 1.5;
    context.strokeRect(left + 0.75, 0.75, Math.max(3, right - left - 1.5), kMinimapHeight - 1.5);
    if (this.labelWidth > 0) {
      context.fillStyle = colors.muted;
      context.font = '11px system-ui, sans-serif';
      context.textBaseline = 'middle';
      context.textAlign = 'left';
      context.fillText('whole recording', 8, kMinimapHeight / 2);
    }
  }

  /** The bars of the minimap, drawn once for each theme. */
  private minimapPicture(): HTMLCanvasElement {
    if (this.minimapImage) return this.minimapImage;
    const colors = palette();
    const columns = (this.minimapColumns ??= this.minimapOf(600));
    const image = document.createElement('canvas');
    image.width = columns.length;
    image.height = 2 * kMinimapHeight;
    const context = image.getContext('2d')!;
    const most = Math.max(
      1e-9,
      ...columns.map((column) => column.reduce((sum, part) => sum + part.fill, 0)),
    );
    columns.forEach((column, x) => {
      let y = image.height - 2;
      for (const part of column) {
        const height = (part.fill / most) * (image.height - 8);
        context.fillStyle = colors.category(this.data.categories[part.category]);
        context.fillRect(x, y - height, 1, height);
        y -= height;
      }
    });
    this.minimapImage = image;
    return image;
  }

  /** How much of each column the outermost spans of all rows cover, by category. */
  private minimapOf(columns: number): { category: number; fill: number }[][] {
    const sums = Array.from({ length: columns }, () => new Map<number, number>());
    for (const row of this.data.rows) {
      if (row.kind !== 'span' || row.depth !== 0) continue;
      pieces(row.spans!, 0, this.whole, columns, (piece) => {
        const category = this.data.nameCategory(row.spans!.names[piece.event]);
        const first = Math.floor(piece.x);
        const last = Math.min(columns - 1, Math.ceil(piece.x + piece.width) - 1);
        for (let i = first; i <= last; ++i) {
          const inside =
            piece.count > 1 || piece.width <= 1
              ? piece.fill
              : Math.min(i + 1, piece.x + piece.width) - Math.max(i, piece.x);
          sums[i].set(category, (sums[i].get(category) ?? 0) + inside);
        }
      });
    }
    return sums.map((map) =>
      [...map].sort((a, b) => a[0] - b[0]).map(([category, fill]) => ({ category, fill })),
    );
  }
}
