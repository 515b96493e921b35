// The timeline: its controls, pointer, keys, and the panel of what is selected.

import { add, el, type Tooltip } from './dom.ts';
import type { Iteration } from './explanation.ts';
import { count, counterValue, duration, visible } from './format.ts';
import { table } from './table.ts';
import { onThemeChange, palette } from './theme.ts';
import type { Row, TimelineData } from './timeline_data.ts';
import { describeEvent, trackPath } from './timeline_events.ts';
import { buildTree, hasHead, layout, lineAt, type Node } from './timeline_layout.ts';
import { TimelinePainter, type Hit } from './timeline_painter.ts';
import { allowedNames, totals } from './timeline_statistics.ts';

const kShortestNs = 20;

export class TimelineView {
  readonly element: HTMLElement;
  private readonly painter: TimelinePainter;
  private readonly tree: Node[];
  private readonly spacer = el('div', 'timeline-spacer');
  private readonly scroller = el('div', {
    class: 'timeline-scroll',
    attributes: {
      tabindex: '0',
      role: 'application',
      'aria-label': 'timeline: W and S zoom, A and D move, arrows too, question mark for all keys',
    },
  });
  private readonly filterInput = el('input', {
    class: 'filter',
    attributes: {
      type: 'search',
      placeholder: 'filter by name, or /expression/',
      'aria-label': 'filter events by name',
      id: 'timeline-filter',
    },
  });
  private readonly matchNote = el('span', {
    class: 'muted matches',
    attributes: { role: 'status' },
  });
  private readonly details = el('div', { class: 'timeline-details' });
  private readonly categoriesChosen = new Set<number>();
  private drag: {
    mode: 'select' | 'pan' | 'minimap';
    x: number;
    begin: number;
    end: number;
    moved: boolean;
  } | null = null;
  private pointers = new Map<number, number>();
  private pinch: { distance: number; begin: number; end: number; center: number } | null = null;
  private frame = 0;

  constructor(
    private readonly data: TimelineData,
    private readonly iterations: Iteration[],
    drivers: Set<number>,
    private readonly tooltip: Tooltip,
  ) {
    this.painter = new TimelinePainter(data, iterations);
    this.tree = buildTree(data, drivers);
    add(this.scroller, this.painter.canvas, this.spacer);
    this.element = el(
      'div',
      'timeline',
      el('div', 'controls', this.filterInput, this.matchNote, this.buttons()),
      this.legend(),
      el('div', 'timeline-frame', this.painter.minimap, this.painter.ruler, this.scroller),
      this.details,
    );
    this.relayout();
    this.listen();
    this.showSelection();
  }

  /** For tests and measurements. */
  get view(): { begin: number; end: number } {
    return { begin: this.painter.begin, end: this.painter.end };
  }

  zoomTo(begin: number, end: number): void {
    let length = Math.min(this.painter.whole, Math.max(kShortestNs, end - begin));
    let from = (begin + end) / 2 - length / 2;
    from = Math.max(0, Math.min(this.painter.whole - length, from));
    length = Math.min(length, this.painter.whole - from);
    this.painter.begin = from;
    this.painter.end = from + length;
    this.invalidate();
  }

  /** With a little room on both sides, and the page scrolled to it. */
  reveal(begin: number, end: number): void {
    this.painter.selection = [begin, end];
    this.showSelection();
    const room = (end - begin) * 0.05;
    this.zoomTo(begin - room, end + room);
    this.element.scrollIntoView({ block: 'start' });
  }

  focusFilter(): void {
    this.filterInput.focus();
    this.filterInput.select();
  }

  private zoomBy(factor: number, around: number): void {
    const length = Math.min(
      this.painter.whole,
      Math.max(kShortestNs, (this.painter.end - this.painter.begin) * factor),
    );
    const share = (around - this.painter.begin) / (this.painter.end - this.painter.begin);
    const begin = Math.max(0, Math.min(this.painter.whole - length, around - share * length));
    this.zoomTo(begin, begin + length);
  }
  private moveBy(share: number): void {
    const by = (this.painter.end - this.painter.begin) * share;
    const begin = Math.max(
      0,
      Math.min(
        this.painter.whole - (this.painter.end - this.painter.begin),
        this.painter.begin + by,
      ),
    );
    this.zoomTo(begin, begin + (this.painter.end - this.painter.begin));
  }

  private buttons(): HTMLElement {
    const button = (label: string, title: string, action: () => void): HTMLElement =>
      el(
        'button',
        { title, attributes: { type: 'button', 'aria-label': title }, on: { click: action } },
        label,
      );
    return el(
      'span',
      'button-row',
      button('\u2212', 'zoom out (S)', () =>
        this.zoomBy(2, (this.painter.begin + this.painter.end) / 2),
      ),
      button('+', 'zoom in (W)', () =>
        this.zoomBy(0.5, (this.painter.begin + this.painter.end) / 2),
      ),
      button('whole', 'the whole recording (0)', () => this.zoomTo(0, this.painter.whole)),
      button('fold', 'fold or unfold all groups', () => this.foldAll()),
    );
  }

  private legend(): HTMLElement {
    const used = new Map<number, number>();
    for (const row of this.data.rows) {
      if (!row.spans) continue;
      for (let i = 0; i < row.spans.length; ++i) {
        const category = this.data.nameCategory(row.spans.names[i]);
        used.set(category, (used.get(category) ?? 0) + 1);
      }
    }
    const chips = [...used.keys()].sort((a, b) => a - b);
    const holder = el('div', {
      class: 'chips',
      attributes: { role: 'group', 'aria-label': 'categories' },
    });
    for (const category of chips) {
      const name = this.data.categories[category];
      const swatch = el('span', 'swatch');
      const paint = (): void => {
        swatch.style.background = palette().category(name);
      };
      paint();
      onThemeChange(paint);
      const chip = el(
        'button',
        {
          class: 'chip',
          title: `${count(used.get(category)!)} events; click to show only these`,
          attributes: { type: 'button', 'aria-pressed': 'false' },
        },
        swatch,
        name,
      );
      chip.addEventListener('click', () => {
        if (!this.categoriesChosen.delete(category)) this.categoriesChosen.add(category);
        chip.setAttribute('aria-pressed', String(this.categoriesChosen.has(category)));
        this.applyFilter();
      });
      holder.appendChild(chip);
    }
    return holder;
  }

  private foldAll(): void {
    const nodes: Node[] = [];
    const collect = (node: Node): void => {
      if (hasHead(node) && node.depth > 0) nodes.push(node);
      node.children.forEach(collect);
    };
    this.tree.forEach(collect);
    const open = nodes.some((node) => node.isOpen);
    for (const node of nodes) node.isOpen = !open;
    this.relayout();
  }

  private applyFilter(): void {
    this.painter.filter = allowedNames(this.data, this.filterInput.value, this.categoriesChosen);
    let matches = 0;
    if (this.painter.filter) {
      const found = totals(this.data, this.data.rows, 0, this.painter.whole, this.painter.filter);
      matches = found.reduce((sum, total) => sum + total.count, 0);
      this.matchNote.textContent = `${count(matches)} of ${count(this.data.kept)} events`;
    } else {
      this.matchNote.textContent = '';
    }
    this.element.dataset.matches = String(matches);
    this.relayout();
    this.showSelection();
  }

  private relayout(): void {
    const placed = layout(this.tree, this.painter.isNarrow);
    this.painter.lines = placed.lines;
    this.spacer.style.height = `${placed.height}px`;
    const shown = Math.min(placed.height + 4, Math.max(240, Math.round(window.innerHeight * 0.62)));
    this.scroller.style.height = `${shown}px`;
    this.painter.canvas.style.marginBottom = `${-shown}px`;
    this.invalidate();
  }

  invalidate(): void {
    if (this.frame !== 0) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.draw();
    });
  }

  private draw(): void {
    const started = performance.now();
    this.painter.width = this.scroller.clientWidth;
    if (this.painter.width === 0) return;
    this.painter.labelWidth = this.painter.isNarrow ? 0 : 220;
    this.painter.drawRows(this.scroller.scrollTop, this.scroller.clientHeight);
    this.painter.drawRuler();
    this.painter.drawMinimap();
    this.element.dataset.redrawMs = (performance.now() - started).toFixed(2);
    this.element.dataset.begin = String(this.painter.begin);
    this.element.dataset.end = String(this.painter.end);
  }

  // --- pointer and keys ---

  private hitAt(x: number, y: number): Hit | null {
    const line = lineAt(this.painter.lines, y + this.scroller.scrollTop);
    if (!line?.row?.spans || x < this.painter.labelWidth) return null;
    const spans = this.painter.filter ? this.painter.filteredSpans(line.row) : line.row.spans;
    const time = this.painter.timeAt(x);
    const near =
      ((this.painter.end - this.painter.begin) / this.painter.drawWidth) *
      (line.row.kind === 'span' ? 1 : 3);
    const [first, last] = spans.range(time - near, time + near);
    if (first >= last) return null;
    let event = spans.longest(first, last);
    for (let i = first; i < Math.min(last, first + 4); ++i)
      if (spans.starts[i] <= time && spans.ends[i] > time) event = i;
    if (this.painter.filter) {
      const [from] = line.row.spans.range(spans.starts[event], spans.ends[event] + 1);
      for (
        let i = from;
        i < line.row.spans.length && line.row.spans.starts[i] <= spans.starts[event];
        ++i
      )
        if (
          line.row.spans.starts[i] === spans.starts[event] &&
          line.row.spans.names[i] === spans.names[event]
        )
          return { line, event: i };
    }
    return { line, event };
  }

  private hover(event: PointerEvent): void {
    const box = this.painter.canvas.getBoundingClientRect();
    const x = event.clientX - box.left;
    const y = event.clientY - box.top;
    const line = lineAt(this.painter.lines, y + this.scroller.scrollTop);
    if (line?.row?.counter && x >= this.painter.labelWidth) {
      const time = this.painter.timeAt(x);
      const value = line.row.counter.at(time);
      this.tooltip.show(
        event.clientX,
        event.clientY,
        `${visible(line.row.counterName, 100)}: ${Number.isNaN(value) ? 'not yet known' : counterValue(line.row.counterName, value)}`,
        [
          ['at', duration(time)],
          ['highest', counterValue(line.row.counterName, line.row.counter.high)],
          ['track', trackPath(this.data, line.row.track)],
        ],
      );
      return;
    }
    const hit = this.hitAt(x, y);
    if (hit)
      this.tooltip.show(event.clientX, event.clientY, ...describeEvent(this.data, hit, false));
    else this.tooltip.hide();
    this.scroller.style.cursor =
      line && !line.row && !line.isLabel ? 'pointer' : hit ? 'default' : 'crosshair';
  }

  private listen(): void {
    const scroller = this.scroller;
    scroller.addEventListener('scroll', () => this.invalidate());
    scroller.addEventListener('wheel', (event) => this.wheel(event), { passive: false });
    scroller.addEventListener('keydown', (event) => this.key(event));
    scroller.addEventListener('pointerdown', (event) => this.down(event));
    scroller.addEventListener('pointermove', (event) => this.move(event));
    for (const name of ['pointerup', 'pointercancel'] as const)
      scroller.addEventListener(name, (event) => this.up(event));
    scroller.addEventListener('pointerleave', () => this.tooltip.hide());
    scroller.addEventListener('dblclick', (event) => {
      const box = this.painter.canvas.getBoundingClientRect();
      const hit = this.hitAt(event.clientX - box.left, event.clientY - box.top);
      if (hit) this.zoomToEvent(hit);
    });
    const jump = (event: PointerEvent): void => {
      const x =
        event.clientX - this.painter.minimap.getBoundingClientRect().left - this.painter.labelWidth;
      const center = (x / this.painter.drawWidth) * this.painter.whole;
      const half = (this.painter.end - this.painter.begin) / 2;
      this.zoomTo(
        Math.max(0, Math.min(this.painter.whole - 2 * half, center - half)),
        Math.max(0, Math.min(this.painter.whole - 2 * half, center - half)) + 2 * half,
      );
    };
    this.painter.minimap.addEventListener('pointerdown', (event) => {
      this.painter.minimap.setPointerCapture(event.pointerId);
      jump(event);
    });
    this.painter.minimap.addEventListener('pointermove', (event) => {
      if (event.buttons & 1) jump(event);
    });
    let waiting = 0;
    this.filterInput.addEventListener('input', () => {
      clearTimeout(waiting);
      waiting = window.setTimeout(() => this.applyFilter(), 60);
    });
    this.filterInput.addEventListener('keydown', (event) => {
      if (event.key === 'Escape') {
        this.filterInput.value = '';
        this.applyFilter();
        scroller.focus();
      }
    });
    new ResizeObserver(() => this.invalidate()).observe(scroller);
    window.addEventListener('resize', () => this.relayout());
    onThemeChange(() => {
      this.painter.forgetColors();
      this.invalidate();
    });
  }

  private wheel(event: WheelEvent): void {
    const x = event.clientX - this.painter.canvas.getBoundingClientRect().left;
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      this.zoomBy(
        Math.exp(Math.max(-100, Math.min(100, event.deltaY)) * 0.006),
        this.painter.timeAt(Math.max(x, this.painter.labelWidth)),
      );
    } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      event.preventDefault();
      this.moveBy(
        (event.shiftKey && !event.deltaX ? event.deltaY : event.deltaX) / this.painter.drawWidth,
      );
    }
  }

  private key(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const center = (this.painter.begin + this.painter.end) / 2;
    const actions: Record<string, () => void> = {
      w: () => this.zoomBy(0.6, center),
      '+': () => this.zoomBy(0.6, center),
      '=': () => this.zoomBy(0.6, center),
      s: () => this.zoomBy(1 / 0.6, center),
      '-': () => this.zoomBy(1 / 0.6, center),
      a: () => this.moveBy(-0.2),
      ArrowLeft: () => this.moveBy(-0.2),
      d: () => this.moveBy(0.2),
      ArrowRight: () => this.moveBy(0.2),
      '0': () => this.zoomTo(0, this.painter.whole),
      Home: () => this.zoomTo(0, this.painter.whole),
      f: () =>
        this.painter.selection
          ? this.zoomTo(...this.painter.selection)
          : this.painter.selected && this.zoomToEvent(this.painter.selected),
      n: () => this.stepMatch(1),
      p: () => this.stepMatch(-1),
      ']': () => this.stepIteration(1),
      '[': () => this.stepIteration(-1),
      Escape: () => {
        this.painter.selected = null;
        this.painter.selection = null;
        this.showSelection();
        this.invalidate();
      },
    };
    const action = actions[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!action) return;
    event.preventDefault();
    action();
  }

  private zoomToEvent(hit: Hit): void {
    const spans = hit.line.row!.spans!;
    const length = Math.max(kShortestNs, spans.ends[hit.event] - spans.starts[hit.event]);
    this.zoomTo(spans.starts[hit.event] - length * 0.2, spans.ends[hit.event] + length * 0.2);
  }

  private stepIteration(by: number): void {
    if (this.iterations.length === 0) return;
    const center = (this.painter.begin + this.painter.end) / 2;
    let index = this.iterations.findIndex((iteration) => iteration.end_ns > center);
    if (index < 0) index = this.iterations.length - 1;
    const isInView =
      Math.abs(
        this.iterations[index].end_ns -
          this.iterations[index].begin_ns -
          (this.painter.end - this.painter.begin) / 1.1,
      ) <
      (this.painter.end - this.painter.begin) * 0.05;
    const next =
      this.iterations[
        Math.max(0, Math.min(this.iterations.length - 1, isInView ? index + by : index))
      ];
    const room = (next.end_ns - next.begin_ns) * 0.05;
    this.zoomTo(next.begin_ns - room, next.end_ns + room);
  }

  /** The next event that the filter lets through, in the selected row or the first that has one. */
  private stepMatch(by: number): void {
    if (!this.painter.filter) return;
    const rows = this.painter.lines.filter(
      (line) => line.row?.spans && this.painter.filteredSpans(line.row).length > 0,
    );
    if (rows.length === 0) return;
    let line = rows.find((candidate) => candidate.row === this.painter.selected?.line.row);
    let next = line ? this.nextMatch(line.row!, this.painter.selected!.event, by) : -1;
    if (next < 0) {
      const at = line ? rows.indexOf(line) + by : 0;
      line = rows[(at + rows.length) % rows.length];
      next = this.nextMatch(line.row!, by > 0 ? -1 : line.row!.spans!.length, by);
    }
    this.select({ line: line!, event: next });
    const spans = line!.row!.spans!;
    const half = (this.painter.end - this.painter.begin) / 2;
    const center = (spans.starts[next] + spans.ends[next]) / 2;
    if (center < this.painter.begin || center > this.painter.end)
      this.zoomTo(center - half, center + half);
    if (
      line!.y < this.scroller.scrollTop ||
      line!.y + line!.height > this.scroller.scrollTop + this.scroller.clientHeight
    )
      this.scroller.scrollTop = line!.y - 60;
  }

  private nextMatch(row: Row, from: number, by: number): number {
    for (let i = from + by; i >= 0 && i < row.spans!.length; i += by)
      if (this.painter.filter![row.spans!.names[i]]) return i;
    return -1;
  }

  private down(event: PointerEvent): void {
    const x = event.clientX - this.painter.canvas.getBoundingClientRect().left;
    if (event.pointerType === 'touch') {
      this.pointers.set(event.pointerId, event.clientX);
      if (this.pointers.size === 2) {
        const [a, b] = [...this.pointers.values()];
        const left = this.painter.canvas.getBoundingClientRect().left;
        this.pinch = {
          distance: Math.max(10, Math.abs(a - b)),
          begin: this.painter.begin,
          end: this.painter.end,
          center: this.painter.timeAt((a + b) / 2 - left),
        };
        this.drag = null;
        return;
      }
    }
    if (event.button !== 0) return;
    const mode = event.pointerType === 'touch' || event.shiftKey ? 'pan' : 'select';
    this.drag = { mode, x, begin: this.painter.begin, end: this.painter.end, moved: false };
  }

  private move(event: PointerEvent): void {
    if (this.pointers.has(event.pointerId)) this.pointers.set(event.pointerId, event.clientX);
    if (this.pinch && this.pointers.size === 2) {
      const [a, b] = [...this.pointers.values()];
      const factor = this.pinch.distance / Math.max(10, Math.abs(a - b));
      const length = (this.pinch.end - this.pinch.begin) * factor;
      const share = (this.pinch.center - this.pinch.begin) / (this.pinch.end - this.pinch.begin);
      this.zoomTo(this.pinch.center - share * length, this.pinch.center + (1 - share) * length);
      return;
    }
    if (!this.drag) return this.hover(event);
    const x = event.clientX - this.painter.canvas.getBoundingClientRect().left;
    if (!this.drag.moved && Math.abs(x - this.drag.x) < 4) return;
    if (!this.drag.moved) {
      this.scroller.setPointerCapture(event.pointerId);
      this.tooltip.hide();
    }
    this.drag.moved = true;
    if (this.drag.mode === 'pan') {
      const by = ((this.drag.x - x) / this.painter.drawWidth) * (this.drag.end - this.drag.begin);
      const length = this.drag.end - this.drag.begin;
      const begin = Math.max(0, Math.min(this.painter.whole - length, this.drag.begin + by));
      this.zoomTo(begin, begin + length);
    } else {
      const times = [
        this.painter.timeAt(Math.max(this.painter.labelWidth, this.drag.x)),
        this.painter.timeAt(Math.max(this.painter.labelWidth, x)),
      ].map((time) => Math.max(0, Math.min(this.painter.whole, time)));
      this.painter.selection = [Math.min(...times), Math.max(...times)];
      this.invalidate();
    }
  }

  private up(event: PointerEvent): void {
    this.pointers.delete(event.pointerId);
    if (this.pointers.size < 2) this.pinch = null;
    const drag = this.drag;
    this.drag = null;
    if (!drag || event.type === 'pointercancel') return;
    if (drag.moved) {
      if (drag.mode === 'select') this.showSelection();
      return;
    }
    const box = this.painter.canvas.getBoundingClientRect();
    const y = event.clientY - box.top;
    const line = lineAt(this.painter.lines, y + this.scroller.scrollTop);
    if (line && !line.row && !line.isLabel) {
      line.node.isOpen = !line.node.isOpen;
      this.relayout();
      return;
    }
    this.painter.selection = null;
    this.select(this.hitAt(event.clientX - box.left, y));
  }

  private select(hit: Hit | null): void {
    this.painter.selected = hit;
    this.showSelection();
    this.invalidate();
  }

  /** The panel below: one event, or totals of the selected stretch, or of the whole. */
  private showSelection(): void {
    if (this.painter.selected) {
      const [title, rows] = describeEvent(this.data, this.painter.selected, true);
      this.details.replaceChildren(
        el('h3', {}, title),
        el(
          'dl',
          'facts',
          ...rows.flatMap(([name, value]) => [el('dt', {}, name), el('dd', {}, value)]),
        ),
      );
      return;
    }
    const [begin, end] = this.painter.selection ?? [0, this.painter.whole];
    const found = totals(this.data, this.data.rows, begin, end, this.painter.filter);
    const thinned =
      this.data.kept < this.data.events ? ' Counted over the events that are kept.' : '';
    this.details.replaceChildren(
      el(
        'h3',
        {},
        this.painter.selection
          ? `${duration(end - begin)} selected, from ${duration(begin)}`
          : 'Names over the whole recording',
      ),
      el(
        'p',
        'note',
        `Drag to select a stretch of time; click an event for its details.${thinned}`,
      ),
      table(
        found,
        [
          {
            title: 'name',
            isText: true,
            wide: true,
            value: (row) => this.data.nameText(row.name),
            show: (row) => this.nameCell(row.name),
          },
          {
            title: 'category',
            isText: true,
            value: (row) => this.data.categories[this.data.nameCategory(row.name)],
          },
          { title: 'count', value: (row) => row.count, show: (row) => count(row.count) },
          {
            title: 'total',
            hint: 'over all tracks: may be more than the time that passed',
            value: (row) => row.ns,
            show: (row) => duration(row.ns),
            bar: (row) => row.ns / (found[0]?.ns || 1),
          },
          {
            title: 'at a time',
            hint: 'how many of them run at the same time, on average; 1 is all of the time of one',
            value: (row) => row.ns,
            show: (row) => (row.ns / (end - begin)).toFixed(2),
          },
          {
            title: 'mean',
            value: (row) => row.ns / row.count,
            show: (row) => duration(row.ns / row.count),
          },
          { title: 'longest', value: (row) => row.longest, show: (row) => duration(row.longest) },
        ],
        { label: 'names', rowsShown: 10, filter: (row) => this.data.nameText(row.name) },
      ),
    );
  }

  private nameCell(name: number): HTMLElement {
    const swatch = el('span', 'swatch');
    swatch.style.background = this.painter.colorOf(name);
    return el(
      'span',
      { class: 'name', title: visible(this.data.nameText(name), 1000) },
      swatch,
      visible(this.data.nameText(name), 160),
    );
  }
}
