// Figures with their units, aligned to three or four digits that mean something; text made safe to show.

export const kNotMeasured = '\u2013';

function digits(value: number): string {
  const size = Math.abs(value);
  if (size >= 100) return value.toFixed(0);
  if (size >= 10) return value.toFixed(1);
  return value.toFixed(2);
}

/** 1234567 -> "1.23 ms". */
export function duration(ns: number | null | undefined): string {
  if (ns === null || ns === undefined || !Number.isFinite(ns)) return kNotMeasured;
  const size = Math.abs(ns);
  if (size === 0) return '0 s';
  if (size < 1e3) return `${Math.round(ns)} ns`;
  if (size < 999.5e3) return `${digits(ns / 1e3)} \u00b5s`;
  if (size < 999.5e6) return `${digits(ns / 1e6)} ms`;
  if (size < 120e9) return `${digits(ns / 1e9)} s`;
  const seconds = Math.round(size / 1e9);
  const sign = ns < 0 ? '\u2212' : '';
  const hours = Math.floor(seconds / 3600);
  const minutes = Math.floor(seconds / 60) % 60;
  if (hours > 0) return `${sign}${hours} h ${String(minutes).padStart(2, '0')} min`;
  return `${sign}${minutes} min ${String(seconds % 60).padStart(2, '0')} s`;
}

export function seconds(value: number | null | undefined): string {
  return value === null || value === undefined ? kNotMeasured : duration(value * 1e9);
}

const kBinary = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
export function bytes(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return kNotMeasured;
  let size = value;
  let unit = 0;
  while (Math.abs(size) >= 1023.5 && unit < kBinary.length - 1) {
    size /= 1024;
    ++unit;
  }
  return `${unit === 0 || Number.isInteger(size) ? Math.round(size) : digits(size)} ${kBinary[unit]}`;
}

const kDecimal = ['B/s', 'kB/s', 'MB/s', 'GB/s', 'TB/s'];
export function bytesPerSecond(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return kNotMeasured;
  let size = value;
  let unit = 0;
  while (Math.abs(size) >= 999.5 && unit < kDecimal.length - 1) {
    size /= 1000;
    ++unit;
  }
  return `${unit === 0 ? Math.round(size) : digits(size)} ${kDecimal[unit]}`;
}

/** Thousands apart by thin spaces. */
export function count(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return kNotMeasured;
  if (!Number.isInteger(value)) return digits(value);
  return String(value).replace(/\B(?=(\d{3})+(?!\d))/g, '\u202f');
}

/** Short enough for an axis: 12k, 3.4M. */
export function shortCount(value: number): string {
  const size = Math.abs(value);
  if (size >= 1e9) return `${trimZeros(value / 1e9)}G`;
  if (size >= 1e6) return `${trimZeros(value / 1e6)}M`;
  if (size >= 1e3) return `${trimZeros(value / 1e3)}k`;
  return trimZeros(value);
}
function trimZeros(value: number): string {
  return String(Number(value.toPrecision(3)));
}

export function percent(share: number | null | undefined, places = 1): string {
  if (share === null || share === undefined || !Number.isFinite(share)) return kNotMeasured;
  return `${(share * 100).toFixed(places)} %`;
}

export function signedDuration(ns: number | null | undefined): string {
  if (ns === null || ns === undefined) return kNotMeasured;
  return `${ns < 0 ? '\u2212' : '+'}${duration(Math.abs(ns))}`;
}

/** A counter's value by the unit in its name. */
export function counterValue(name: string, value: number): string {
  if (name.endsWith('bytes_per_second')) return bytesPerSecond(value);
  if (name.endsWith('_bytes') || name === 'bytes') return bytes(value);
  if (name.endsWith('_share')) return percent(value);
  if (name.endsWith('_watts')) return `${digits(value)} W`;
  if (name.endsWith('_joules')) return `${digits(value)} J`;
  return count(value);
}

// Characters that change the direction of their surroundings, or that nobody sees.
// eslint-disable-next-line no-control-regex
const kUnseen =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

/** A name of a recording: what cannot be seen is spelled out, and it ends in time. */
export function visible(text: string, length = 300): string {
  const cut = text.length > length ? `${text.slice(0, length)}\u2026` : text;
  return cut.replace(
    kUnseen,
    (c) => `\u27e8U+${c.charCodeAt(0).toString(16).toUpperCase().padStart(4, '0')}\u27e9`,
  );
}

/** Where an axis has its lines: round values between low and high, about `lines` of them. */
export function ticks(low: number, high: number, lines: number): number[] {
  const span = high - low;
  if (!(span > 0)) return [];
  const rough = span / lines;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((s) => s >= rough) ?? rough;
  const found: number[] = [];
  for (let i = Math.ceil(low / step); i * step <= high; ++i) found.push(i * step);
  return found;
}

/** An axis of time: all its labels in one unit, with as many places as the step needs. */
export function timeLabel(ns: number, stepNs: number): string {
  const [unit, scale] =
    stepNs >= 1e9
      ? ['s', 1e9]
      : stepNs >= 1e6
        ? ['ms', 1e6]
        : stepNs >= 1e3
          ? ['\u00b5s', 1e3]
          : ['ns', 1];
  const places = Math.max(0, -Math.floor(Math.log10(stepNs / scale) + 1e-9));
  return `${(ns / scale).toFixed(places).replace(/\B(?=(\d{3})+(?!\d))(?<!\.\d*)/g, '\u202f')} ${unit}`;
}
