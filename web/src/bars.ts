// Breakdown bars: one wide with its legend; and stacked bars of iterations or epochs.

import { add, el, section, sizeCanvas, type Tooltip } from './dom.ts';
import {
  kParts,
  partName,
  type Breakdown,
  type Driver,
  type Explanation,
  type Iteration,
} from './explanation.ts';
import { count, duration, percent, ticks, timeLabel, visible } from './format.ts';
import { histogramChart } from './histogram.ts';
import { table } from './table.ts';
import { onThemeChange, palette } from './theme.ts';

/** Parts with their time, as a bar and a legend. `per` divides what the legend shows ("each step"). */
export function breakdownBar(
  parts: { name: string; value: number }[],
  per: number,
  unit: string,
): HTMLElement {
  const total = parts.reduce((sum, part) => sum + Math.max(0, part.value), 0);
  const used = parts.filter((part) => part.value > 0);
  const bar = el('div', {
    class: 'breakdown-bar',
    attributes: {
      role: 'img',
      'aria-label': used.map((p) => `${partName(p.name)} ${percent(p.value / total)}`).join(', '),
    },
  });
  for (const part of used) {
    const piece = el('span', { title: `${partName(part.name)} ${percent(part.value / total)}` });
    piece.style.flexGrow = String(part.value);
    piece.style.background = `var(--part-${part.name.replace(/_/g, '-')})`;
    bar.appendChild(piece);
  }
  const legend = el('table', 'legend');
  for (const part of [...used].sort((a, b) => b.value - a.value)) {
    const swatch = el('span', 'swatch');
    swatch.style.background = `var(--part-${part.name.replace(/_/g, '-')})`;
    add(
      legend,
      el(
        'tr',
        {},
        el('td', 'text', swatch, partName(part.name)),
        el('td', 'figure', percent(part.value / total)),
        el('td', 'figure muted', `${duration(part.value / per)}${unit}`),
      ),
    );
  }
  return el('div', 'breakdown', bar, legend);
}

export function breakdownParts(breakdown: Breakdown): { name: string; value: number }[] {
  return kParts.map((name) => ({ name, value: breakdown[name] ?? 0 }));
}

export interface StackedBar {
  label: string;
  parts: { name: string; value: number }[];
  isMarked: boolean;
  note: string;
}

/** Bars in a row that say something together: a band behind them. */
export interface Stretch {
  first: number;
  last: number;
  text: string;
}

/** One bar each, or the mean of neighbours where there are more than fit. Values are nanoseconds. */
export function stackedBars(
  bars: StackedBar[],
  what: string,
  tooltip: Tooltip,
  label: string,
  onPick: ((first: number, last: number) => void) | null,
  stretches: Stretch[] = [],
): HTMLElement {
  const kHeight = 180;
  const kLeft = 58;
  const kBottom = 18;
  const canvas = el('canvas', {
    class: 'chart',
    attributes: { role: 'img', tabindex: '0', 'aria-label': label },
  });
  const note = el('p', 'note');
  const holder = el('div', 'chart-holder', canvas, note);
  holder.style.minHeight = `${kHeight}px`;
  let group = 1;
  let step = 1;
  let focus = -1;
  const totals = bars.map((bar) =>
    bar.parts.reduce((sum, part) => sum + Math.max(0, part.value), 0),
  );

  function draw(): void {
    const width = holder.clientWidth;
    if (width === 0) return;
    const context = sizeCanvas(canvas, width, kHeight);
    const colors = palette();
    const room = width - kLeft - 4;
    group = Math.max(1, Math.ceil(bars.length / (room / 2)));
    const drawn = Math.ceil(bars.length / group);
    step = Math.min(36, room / drawn);
    const sorted = [...totals].sort((a, b) => a - b);
    const p98 = sorted[Math.floor((sorted.length - 1) * 0.98)] ?? 0;
    const most = sorted[sorted.length - 1] ?? 0;
    // A few very long ones may not flatten all others: they are cut, and marked.
    const top = (most > 4 * p98 ? p98 * 2 : most) * 1.05 || 1;
    const height = kHeight - kBottom - 6;
    context.clearRect(0, 0, width, kHeight);
    context.font = '11px system-ui, sans-serif';
    context.textBaseline = 'middle';
    const lines = ticks(0, top, 4);
    for (const value of lines) {
      const y = Math.round(6 + height * (1 - value / top)) + 0.5;
      context.fillStyle = colors.line;
      context.fillRect(kLeft, y, room, 1);
      context.fillStyle = colors.muted;
      context.textAlign = 'right';
      context.fillText(timeLabel(value, lines[1] ?? top), kLeft - 6, y);
    }
    for (const stretch of stretches) {
      const x = kLeft + Math.floor(stretch.first / group) * step;
      const end = kLeft + (Math.floor(stretch.last / group) + 1) * step;
      context.globalAlpha = 0.15;
      context.fillStyle = colors.grew;
      context.fillRect(x, 6, end - x, height);
      context.globalAlpha = 1;
      context.fillRect(x, 6, 1, height);
    }
    const gap = step >= 5 ? 1 : 0;
    for (let i = 0; i < drawn; ++i) {
      const first = i * group;
      const last = Math.min(bars.length, first + group);
      const sums = new Map<string, number>();
      for (let j = first; j < last; ++j)
        for (const part of bars[j].parts)
          sums.set(
            part.name,
            (sums.get(part.name) ?? 0) + Math.max(0, part.value) / (last - first),
          );
      let y = 6 + height;
      const x = kLeft + i * step;
      for (const [name, value] of sums) {
        const h = (value / top) * height;
        const upper = Math.max(6, y - h);
        context.fillStyle = colors.part(name);
        context.fillRect(x, upper, Math.max(1, step - gap), y - upper);
        y = upper;
      }
      if (bars.slice(first, last).some((bar) => bar.isMarked) || y <= 6.01) {
        context.fillStyle = colors.grew;
        context.fillRect(x, 0, Math.max(1, step - gap), 3);
      }
      if (focus >= first && focus < last) {
        context.strokeStyle = colors.text;
        context.lineWidth = 1;
        context.strokeRect(x - 0.5, 4.5, Math.max(2, step - gap) + 1, height + 2);
      }
    }
    context.textAlign = 'left';
    context.fillStyle = colors.text;
    for (const stretch of stretches) {
      const x = kLeft + Math.floor(stretch.first / group) * step + 4;
      context.fillText(stretch.text, x, 14, Math.max(1, width - x - 4));
    }
    context.textAlign = 'center';
    context.fillStyle = colors.muted;
    const every = Math.max(1, Math.ceil(56 / step));
    for (let i = 0; i < drawn; i += every)
      context.fillText(
        bars[i * group].label,
        kLeft + i * step + step / 2,
        kHeight - kBottom / 2 + 2,
      );
    note.textContent =
      (group > 1 ? `Each bar is the mean of ${group} neighbours. ` : '') +
      'A red cap marks what is slow, or cut.' +
      (onPick ? ' Click a bar to see it in the timeline.' : '');
  }

  const at = (event: MouseEvent): number => {
    const x = event.clientX - canvas.getBoundingClientRect().left - kLeft;
    const index = Math.floor(x / step) * group;
    return x >= 0 && index < bars.length ? index : -1;
  };
  const describe = (index: number, x: number, y: number): void => {
    const bar = bars[index];
    tooltip.show(
      x,
      y,
      group > 1
        ? `${what} ${bar.label} and ${Math.min(group, bars.length - index) - 1} after it`
        : `${what} ${bar.label}`,
      [
        ['total', duration(totals[index])],
        ...bar.parts
          .filter((part) => part.value > 0)
          .map((part): [string, string] => [
            partName(part.name),
            `${duration(part.value)}  ${percent(part.value / totals[index])}`,
          ]),
        ...(bar.note ? [['', bar.note] as [string, string]] : []),
      ],
    );
  };
  canvas.addEventListener('pointermove', (event) => {
    const index = at(event);
    if (index < 0) tooltip.hide();
    else describe(index, event.clientX, event.clientY);
  });
  canvas.addEventListener('pointerleave', () => tooltip.hide());
  canvas.addEventListener('click', (event) => {
    const index = at(event);
    tooltip.hide();
    if (index >= 0) onPick?.(index, Math.min(bars.length, index + group) - 1);
  });
  canvas.addEventListener('keydown', (event) => {
    if (event.key === 'ArrowRight' || event.key === 'ArrowLeft') {
      focus = Math.max(
        0,
        Math.min(bars.length - 1, focus + (event.key === 'ArrowRight' ? group : -group)),
      );
      draw();
      const box = canvas.getBoundingClientRect();
      describe(focus, box.left + kLeft + (focus / group) * step, box.top + 40);
      event.preventDefault();
    } else if (event.key === 'Enter' && focus >= 0) {
      tooltip.hide();
      onPick?.(focus, Math.min(bars.length, focus + group) - 1);
    }
  });
  canvas.addEventListener('blur', () => tooltip.hide());
  new ResizeObserver(draw).observe(holder);
  onThemeChange(draw);
  return holder;
}

/** Slow phases, and where the pace changes: of the first driver. */
export function stretchesOf(explanation: Explanation): Stretch[] {
  const steps = explanation.drivers[0]?.iterations.length ?? 0;
  const stretches = explanation.phases.map((phase) => ({
    first: phase.first_step - 1,
    last: phase.last_step - 1,
    text: `${phase.factor.toFixed(1)} x as long`,
  }));
  const pace = explanation.pace;
  if (pace)
    stretches.push({
      first: pace.first_step - 1,
      last: steps - 1,
      text: `from here on ${duration(pace.after_ns)}, before ${duration(pace.before_ns)}`,
    });
  return stretches;
}

function phasesTable(explanation: Explanation): HTMLElement | null {
  const grows = (part: string, ns: number): string =>
    `${partName(part)} ${ns < 0 ? 'shrinks' : 'grows'} by ${duration(Math.abs(ns))} a step`;
  const rows = explanation.phases.map((phase) => ({
    what: `slow phase: steps ${count(phase.first_step)} to ${count(phase.last_step)}`,
    ns: phase.ns,
    usual: phase.ordinary_ns,
    why: grows(phase.part, phase.part_ns),
    p: phase.p,
  }));
  const pace = explanation.pace;
  if (pace)
    rows.push({
      what: `another pace: from step ${count(pace.first_step)} on`,
      ns: pace.after_ns,
      usual: pace.before_ns,
      why: grows(pace.part, pace.part_ns),
      p: pace.p,
    });
  if (rows.length === 0) return null;
  return table(
    rows,
    [
      { title: 'stretch', isText: true, value: (row) => row.what, show: (row) => row.what },
      { title: 'median', value: (row) => row.ns, show: (row) => duration(row.ns) },
      { title: 'otherwise', value: (row) => row.usual, show: (row) => duration(row.usual) },
      {
        title: 'times',
        value: (row) => row.ns / row.usual,
        show: (row) => (row.ns / row.usual).toFixed(2),
      },
      {
        title: 'why',
        isText: true,
        wide: true,
        value: (row) => row.why,
        show: (row) => visible(row.why),
      },
      { title: 'p', value: (row) => row.p, show: (row) => row.p.toPrecision(1) },
    ],
    { label: 'stretches of steps' },
  );
}

function notesOf(iteration: Iteration): string {
  return [
    iteration.is_partial && 'partial: not counted',
    iteration.is_epoch_start && 'epoch start',
    iteration.has_checkpoint && 'checkpoint',
    iteration.is_slow && 'slower than 99 % of them',
  ]
    .filter(Boolean)
    .join(', ');
}

/** Iterations of one driver at a time. */
export function iterationsSection(
  explanation: Explanation,
  tooltip: Tooltip,
  zoom: ((begin: number, end: number) => void) | null,
): HTMLElement | null {
  const found = explanation.iterations;
  const drivers = explanation.drivers.filter((driver) => driver.iterations.length > 0);
  if (!found.is_found || drivers.length === 0) {
    if (explanation.drivers.length === 0) return null;
    return section(
      'iterations',
      'Iterations',
      null,
      el('p', 'absent', `No iterations were found: ${found.reason || 'no pattern repeats'}.`),
    );
  }
  const holder = el('div');
  const show = (driver: Driver): void => {
    const bars = driver.iterations.map((iteration) => ({
      label: String(iteration.number),
      parts: breakdownParts(iteration.parts),
      isMarked: iteration.is_slow,
      note: notesOf(iteration),
    }));
    holder.replaceChildren(
      stackedBars(
        bars,
        'iteration',
        tooltip,
        `${bars.length} iterations of ${driver.name}`,
        zoom &&
          ((first, last) =>
            zoom(driver.iterations[first].begin_ns, driver.iterations[last].end_ns)),
        driver === explanation.drivers[0] ? stretchesOf(explanation) : [],
      ),
    );
  };
  show(drivers[0]);
  const pick = el('select', { attributes: { 'aria-label': 'whose iterations' } });
  drivers.forEach((driver, index) =>
    pick.appendChild(
      el('option', { attributes: { value: String(index) } }, visible(driver.name, 80)),
    ),
  );
  pick.addEventListener('change', () => show(drivers[Number(pick.value)]));
  const confidence = found.confidence === null ? '' : `, confidence ${found.confidence.toFixed(2)}`;
  const durations = drivers.flatMap((driver) =>
    driver.iterations.filter((i) => !i.is_partial).map((i) => i.end_ns - i.begin_ns),
  );
  return section(
    'iterations',
    'Iterations',
    `${count(found.count)} of ${duration(found.mean_ns)} (p50 ${duration(found.p50_ns)}, p99 ${duration(found.p99_ns)}, longest ${duration(found.max_ns)}), by ${visible(found.method)}${confidence}`,
    drivers.length > 1 ? el('div', 'controls', pick) : null,
    holder,
    phasesTable(explanation),
    explanation.slow.length > 0
      ? table(
          explanation.slow,
          [
            {
              title: 'slow ones',
              isText: true,
              value: (row) => row.kind,
              show: (row) =>
                row.every ? `${visible(row.kind)}, every ${row.every}` : visible(row.kind),
            },
            { title: 'how many', value: (row) => row.count, show: (row) => count(row.count) },
            { title: 'mean', value: (row) => row.mean_ns, show: (row) => duration(row.mean_ns) },
            {
              title: 'ordinary',
              value: (row) => row.ordinary_ns,
              show: (row) => duration(row.ordinary_ns),
            },
            {
              title: 'cost in all',
              value: (row) => row.excess_ns,
              show: (row) => duration(row.excess_ns),
            },
            {
              title: 'why',
              isText: true,
              wide: true,
              value: (row) => row.explanation,
              show: (row) => visible(row.explanation),
            },
          ],
          { label: 'slow iterations' },
        )
      : null,
    durations.length > 1
      ? el(
          'div',
          'charts',
          histogramChart(
            'iteration times',
            durations.map((ns) => ({ low: ns, high: ns, weight: 1 })),
            duration,
            tooltip,
          ),
        )
      : null,
  );
}
