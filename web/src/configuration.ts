// How the recording was made: files, collectors and what they miss, clocks, and every fact as written.

import { el, section, type Child } from './dom.ts';
import type { Explanation } from './explanation.ts';
import { bytes, count, duration, kNotMeasured, signedDuration, visible } from './format.ts';
import { facts, table } from './table.ts';

interface FileRow {
  path: string;
  is_finished: boolean;
  damage: string | null;
  bytes: number;
  events: number;
  shift_ns: number;
  shift_uncertainty_ns: number | null;
  facts: Record<string, string>;
}
export interface About {
  title: string;
  version: string;
  against_title: string;
  files?: FileRow[];
  against_files?: FileRow[];
}

function collectors(all: Record<string, string>): { name: string; how: string; missing: string }[] {
  const names = new Set<string>();
  for (const key of Object.keys(all)) {
    const match = /^(?:collector|missing)\.(.+)$/.exec(key);
    if (match) names.add(match[1]);
  }
  return [...names].sort().map((name) => ({
    name,
    how: all[`collector.${name}`] ?? '',
    missing: all[`missing.${name}`] ?? '',
  }));
}

export function configurationSection(
  about: About,
  explanation: Explanation | null,
  more: Child[],
): HTMLElement | null {
  const files = about.files ?? [];
  const all = Object.assign(
    {},
    ...[...files].reverse().map((file) => file.facts),
    explanation?.recording.facts ?? {},
  ) as Record<string, string>;
  const used = collectors(all);
  const parts: Child[] = [...more];
  if (used.length > 0)
    parts.push(
      el('h3', {}, 'Collectors'),
      table(
        used,
        [
          {
            title: 'collector',
            isText: true,
            value: (row) => row.name,
            show: (row) => visible(row.name),
          },
          {
            title: 'how',
            isText: true,
            wide: true,
            value: (row) => row.how,
            show: (row) => visible(row.how || kNotMeasured, 500),
          },
          {
            title: 'what it cannot see',
            isText: true,
            wide: true,
            value: (row) => row.missing,
            show: (row) => visible(row.missing || 'nothing known', 500),
          },
        ],
        { label: 'collectors' },
      ),
    );
  if (files.length > 0) {
    const state = (row: FileRow): string =>
      row.damage ? `damaged: ${row.damage}` : row.is_finished ? 'whole' : 'not finished';
    parts.push(
      el('h3', {}, files.length === 1 ? 'File' : `${files.length} files`),
      table(
        files,
        [
          {
            title: 'file',
            isText: true,
            wide: true,
            value: (row) => row.path,
            show: (row) => el('span', 'path', visible(row.path)),
          },
          { title: 'state', isText: true, value: state, show: (row) => visible(state(row), 300) },
          { title: 'events', value: (row) => row.events, show: (row) => count(row.events) },
          { title: 'size', value: (row) => row.bytes, show: (row) => bytes(row.bytes) },
          {
            title: 'bytes an event',
            value: (row) => (row.events > 0 ? row.bytes / row.events : null),
            show: (row) => (row.events > 0 ? (row.bytes / row.events).toFixed(1) : kNotMeasured),
          },
          {
            title: 'dropped',
            value: (row) => Number(row.facts.dropped ?? 0),
            show: (row) =>
              row.facts.dropped === undefined ? 'none can be' : count(Number(row.facts.dropped)),
          },
          {
            title: 'clock moved',
            value: (row) => row.shift_ns,
            show: (row) =>
              row.shift_uncertainty_ns === null && files.length > 1
                ? 'not known'
                : `${signedDuration(row.shift_ns)}${row.shift_uncertainty_ns === null ? '' : ` \u00b1 ${duration(row.shift_uncertainty_ns)}`}`,
          },
        ],
        { label: 'files', filter: (row) => row.path },
      ),
    );
  }
  const others = Object.entries(all).filter(([key]) => !/^(collector|missing)\./.test(key));
  if (others.length > 0)
    parts.push(
      el('h3', {}, 'Facts'),
      facts(
        others.map(([key, value]): [string, Child] => [visible(key, 100), visible(value, 2000)]),
      ),
    );
  if (parts.length === 0) return null;
  return section('configuration', 'Configuration', null, ...parts);
}
