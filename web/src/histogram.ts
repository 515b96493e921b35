// Histograms over a logarithmic axis.

import { el, sizeCanvas, type Tooltip } from './dom.ts';
import { count, percent, shortCount, ticks } from './format.ts';
import { onThemeChange, palette } from './theme.ts';

/** `weight` values between low and high, both included. */
export interface Bin {
  low: number;
  high: number;
  weight: number;
}

/** The upper end of the bin in which a share of the weight is reached. */
export function quantile(bins: readonly Bin[], share: number): number {
  const sorted = [...bins].sort((a, b) => a.low - b.low);
  const total = sorted.reduce((sum, bin) => sum + bin.weight, 0);
  let seen = 0;
  for (const bin of sorted) {
    seen += bin.weight;
    if (seen >= share * total) return bin.high;
  }
  return sorted[sorted.length - 1]?.high ?? 0;
}

/**
 * Puts values into up to `wanted` bins of equal ratio. A bin is no narrower than what a value may
 * span, so that each is counted as a whole in one of them.
 */
export function logBins(values: readonly Bin[], wanted: number): Bin[] {
  const positive = values
    .filter((bin) => bin.high > 0 && bin.weight > 0)
    .map((bin) => ({ ...bin, low: Math.max(bin.low, bin.high * 0.5, 1e-3) }));
  if (positive.length === 0) return [];
  let low = Infinity;
  let high = 0;
  let widest = 1;
  for (const bin of positive) {
    low = Math.min(low, bin.low);
    high = Math.max(high, bin.high);
    widest = Math.max(widest, bin.high / bin.low);
  }
  if (high / low < 1.02) {
    low /= 1.02;
    high *= 1.02;
  }
  const most = widest > 1 ? Math.floor(Math.log(high / low) / Math.log(widest)) : wanted;
  const number = Math.max(1, Math.min(wanted, most));
  const ratio = Math.log(high / low) / number;
  const bins = Array.from({ length: number }, (_, i) => ({
    low: low * Math.exp(i * ratio),
    high: low * Math.exp((i + 1) * ratio),
    weight: 0,
  }));
  for (const bin of positive) {
    const middle = Math.log(Math.sqrt(bin.low * bin.high) / low) / ratio;
    bins[Math.max(0, Math.min(number - 1, Math.floor(middle)))].weight += bin.weight;
  }
  return bins;
}

/** The first bin that lies beyond 99 % of the weight as a whole; their number where none does. */
export function firstBeyondP99(bins: readonly Bin[]): number {
  const total = bins.reduce((sum, bin) => sum + bin.weight, 0);
  let seen = 0;
  for (let i = 0; i < bins.length; ++i) {
    seen += bins[i].weight;
    if (seen >= 0.99 * total) return i + 1;
  }
  return bins.length;
}

interface Known {
  p50: number;
  p99: number;
}

export function histogramChart(
  title: string,
  values: readonly Bin[],
  format: (value: number) => string,
  tooltip: Tooltip,
  known?: Known,
  bins: Bin[] = logBins(values, 40),
): HTMLElement {
  const kHeight = 150;
  const kLeft = 34;
  const p50 = known?.p50 ?? quantile(values, 0.5);
  const p99 = known?.p99 ?? quantile(values, 0.99);
  const total = values.reduce((sum, bin) => sum + bin.weight, 0);
  const most = Math.max(1, ...bins.map((bin) => bin.weight));
  const beyond = firstBeyondP99(bins);
  const canvas = el('canvas', {
    class: 'chart',
    attributes: {
      role: 'img',
      'aria-label': `histogram of ${title}: half are up to ${format(p50)}, 99 % up to ${format(p99)}`,
    },
  });
  const holder = el(
    'figure',
    'chart-holder histogram',
    el(
      'figcaption',
      {},
      el('strong', {}, title),
      el('span', 'muted', `n ${count(total)}   p50 ${format(p50)}   p99 ${format(p99)}`),
    ),
    canvas,
  );
  let width = 0;
  function draw(): void {
    width = holder.clientWidth;
    if (width === 0) return;
    const context = sizeCanvas(canvas, width, kHeight);
    const colors = palette();
    const height = kHeight - 22;
    const step = (width - kLeft) / bins.length;
    context.clearRect(0, 0, width, kHeight);
    context.font = '11px system-ui, sans-serif';
    context.textBaseline = 'middle';
    context.textAlign = 'right';
    for (const tick of ticks(0, most, 2)) {
      if (tick === 0 || !Number.isInteger(tick)) continue;
      const y = Math.round(6 + (height - 6) * (1 - tick / most)) + 0.5;
      context.fillStyle = colors.line;
      context.fillRect(kLeft, y, width - kLeft, 1);
      context.fillStyle = colors.muted;
      context.fillText(shortCount(tick), kLeft - 5, y);
    }
    bins.forEach((bin, i) => {
      const h = bin.weight === 0 ? 0 : Math.max(1, (bin.weight / most) * (height - 6));
      context.fillStyle = i >= beyond ? colors.part('prep_stall') : colors.accent;
      context.fillRect(kLeft + i * step, height - h, Math.max(1, step - 1), h);
    });
    context.fillStyle = colors.line;
    context.fillRect(kLeft, height, width - kLeft, 1);
    context.fillStyle = colors.muted;
    const labels = Math.max(2, Math.min(5, Math.floor((width - kLeft) / 80)));
    for (let i = 0; i < labels; ++i) {
      const edge = (i / (labels - 1)) * bins.length;
      const value = edge >= bins.length ? bins[bins.length - 1].high : bins[Math.floor(edge)].low;
      context.textAlign = i === 0 ? 'left' : i === labels - 1 ? 'right' : 'center';
      context.fillText(format(value), kLeft + edge * step, kHeight - 9);
    }
  }
  canvas.addEventListener('pointermove', (event) => {
    const x = event.clientX - canvas.getBoundingClientRect().left - kLeft;
    const bin = bins[Math.floor((x / (width - kLeft)) * bins.length)];
    if (!bin) return tooltip.hide();
    tooltip.show(event.clientX, event.clientY, `${format(bin.low)} to ${format(bin.high)}`, [
      [`about ${count(Math.round(bin.weight))}`, percent(bin.weight / total)],
    ]);
  });
  canvas.addEventListener('pointerleave', () => tooltip.hide());
  new ResizeObserver(draw).observe(holder);
  onThemeChange(draw);
  return holder;
}
