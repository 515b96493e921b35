// What is said of one event.

import { bytes, count, duration, visible } from './format.ts';
import type { TimelineData } from './timeline_data.ts';
import type { Hit } from './timeline_painter.ts';

export function trackPath(data: TimelineData, id: number): string {
  const parts: string[] = [];
  for (let at = id; at >= 0; at = data.tracks[at].parent) {
    const track = data.tracks[at];
    parts.unshift(
      visible(track.text, 60) +
        (track.kind === 'thread' || track.kind === 'process' ? ` ${track.number}` : ''),
    );
  }
  return parts.join(' / ');
}

/** Title and rows for a tooltip, or `full` for the panel. */
export function describeEvent(
  data: TimelineData,
  hit: Hit,
  full: boolean,
): [string, [string, string][]] {
  const row = hit.line.row!;
  const spans = row.spans!;
  const name = spans.names[hit.event];
  const length = spans.ends[hit.event] - spans.starts[hit.event];
  const rows: [string, string][] = [];
  if (row.kind === 'span')
    rows.push([
      'duration',
      duration(length) + (row.unfinished.has(hit.event) ? ' (its end was not seen)' : ''),
    ]);
  rows.push(
    ['begins at', duration(spans.starts[hit.event])],
    ['category', data.categories[data.nameCategory(name)]],
  );
  for (const [key, type, value] of data.argumentsOf(row, hit.event)) {
    const text =
      typeof value === 'string'
        ? visible(value, full ? 4000 : 160)
        : type === 'real'
          ? String(Number(value.toPrecision(6)))
          : key.endsWith('_ns')
            ? duration(value)
            : key.includes('bytes')
              ? `${bytes(value)} (${count(value)})`
              : count(value);
    rows.push([key.replace(/_/g, ' '), text]);
  }
  const bytesMoved = rows.find(([key]) => key === 'bytes');
  if (full && bytesMoved && length > 0) {
    const value = data.argumentsOf(row, hit.event).find(([key]) => key === 'bytes')![2] as number;
    rows.push(['speed', `${bytes((value / length) * 1e9)}/s`]);
  }
  rows.push(['track', trackPath(data, row.track)]);
  return [visible(data.nameText(name), full ? 2000 : 200), rows];
}
