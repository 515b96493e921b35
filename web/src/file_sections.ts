// How files are used; histograms.

import { el, section, type Tooltip } from './dom.ts';
import type { Explanation, IoUse } from './explanation.ts';
import { bytes, count, duration, kNotMeasured, percent, visible } from './format.ts';
import { histogramChart, type Bin } from './histogram.ts';
import { table, type Column } from './table.ts';
import type { CategoryHistogram } from './timeline_data.ts';

const useColumns: Column<IoUse>[] = [
  {
    title: 'name',
    isText: true,
    wide: true,
    value: (row) => row.name,
    show: (row) =>
      el('span', { class: 'path', title: visible(row.name, 1000) }, visible(row.name, 300)),
  },
  { title: 'time', value: (row) => row.total_ns, show: (row) => duration(row.total_ns) },
  { title: 'read', value: (row) => row.read_bytes, show: (row) => bytes(row.read_bytes) },
  { title: 'reads', value: (row) => row.reads, show: (row) => count(row.reads) },
  {
    title: 'p50 size',
    hint: 'half of the reads are up to this size',
    value: (row) => row.read_bytes_p50,
    show: (row) => bytes(row.read_bytes_p50),
  },
  {
    title: 'p50',
    hint: 'half of the reads take up to this long',
    value: (row) => row.read_p50_ns,
    show: (row) => duration(row.read_p50_ns),
  },
  { title: 'p99', value: (row) => row.read_p99_ns, show: (row) => duration(row.read_p99_ns) },
  {
    title: 'cached',
    hint: 'of the bytes read, from the page cache',
    value: (row) =>
      row.cache_bytes === null || row.cache_known_bytes === 0 ? null : row.cache_bytes / row.cache_known_bytes,
    show: (row) =>
      row.cache_bytes === null || row.cache_known_bytes === 0
        ? kNotMeasured
        : percent(row.cache_bytes / row.cache_known_bytes, 0),
  },
  {
    title: 'sequential',
    value: (row) => row.sequential_share,
    show: (row) => percent(row.sequential_share, 0),
  },
  {
    title: 'metadata',
    hint: 'share of the time in open, stat, close',
    value: (row) => row.metadata_share,
    show: (row) => percent(row.metadata_share, 0),
  },
  {
    title: 'written',
    value: (row) => row.written_bytes,
    show: (row) => (row.written_bytes === 0 ? kNotMeasured : bytes(row.written_bytes)),
  },
  {
    title: 'errors',
    value: (row) => row.errors,
    show: (row) => (row.errors === 0 ? kNotMeasured : count(row.errors)),
  },
];

export function filesSection(explanation: Explanation): HTMLElement | null {
  const { io } = explanation;
  if (!io.is_measured)
    return section(
      'files',
      'Files',
      null,
      el('p', 'absent', `Not measured: ${visible(io.reason || 'no collector saw file calls')}.`),
    );
  const holder = el('div');
  const views: [string, IoUse[], number][] = [
    ['files', io.files, io.files_left_out],
    ['folders', io.folders, io.folders_left_out],
    ['formats', io.formats, 0],
  ];
  const show = (index: number): void => {
    const [label, rows, leftOut] = views[index];
    const most = Math.max(1, ...rows.map((row) => row.total_ns));
    const columns = useColumns.map((column) =>
      column.title === 'time' ? { ...column, bar: (row: IoUse) => row.total_ns / most } : column,
    );
    holder.replaceChildren(
      table(rows, columns, { label, sortBy: 1, filter: (row) => row.name, rowsShown: 25 }),
      leftOut > 0
        ? el('p', 'note', `${count(leftOut)} more ${label} with less time are left out.`)
        : '',
    );
    buttons.forEach((button, i) => button.setAttribute('aria-pressed', String(i === index)));
  };
  const buttons = views.map(([label, rows], index) =>
    el(
      'button',
      { class: 'chip', attributes: { type: 'button' }, on: { click: () => show(index) } },
      `${label} ${count(rows.length)}`,
    ),
  );
  show(0);
  const total = io.total;
  return section(
    'files',
    'Files',
    `${count(total.files)} file${total.files === 1 ? '' : 's'}, ${bytes(total.read_bytes)} in ${count(total.reads)} reads, ${bytes(total.written_bytes)} in ${count(total.writes)} writes, ${duration(total.total_ns)} in all calls` +
      (io.counted_only > 0 ? `; ${count(io.counted_only)} calls were counted and not kept` : ''),
    el('div', 'controls', ...buttons),
    holder,
  );
}

function sizeBins(sizes: Record<string, number>): Bin[] {
  const scale: Record<string, number> = {
    B: 1,
    KiB: 1024,
    MiB: 1024 ** 2,
    GiB: 1024 ** 3,
    TiB: 1024 ** 4,
  };
  return Object.entries(sizes)
    .map(([text, weight]) => {
      const [number, unit] = text.split(' ');
      const high = Number(number) * (scale[unit ?? 'B'] ?? 1);
      return { low: high / 2, high, weight };
    })
    .filter((bin) => bin.high > 0)
    .sort((a, b) => a.high - b.high);
}

export function histogramsSection(
  explanation: Explanation | null,
  categories: string[],
  histograms: CategoryHistogram[],
  tooltip: Tooltip,
  more: HTMLElement[],
): HTMLElement | null {
  const charts: HTMLElement[] = [...more];
  const sizes = explanation ? sizeBins(explanation.io.read_sizes ?? {}) : [];
  if (sizes.length > 0) {
    charts.push(histogramChart('sizes of reads', sizes, bytes, tooltip, undefined, sizes));
  }
  const wanted = [
    'read',
    'block io',
    'metadata',
    'write',
    'sync',
    'prepare',
    'data wait',
    'collective',
    'copy',
    'compute',
    'checkpoint',
    'fault',
    'lock',
    'network',
    'launch',
    'operator',
    'function',
  ];
  const byName = new Map(histograms.map((one) => [categories[one.category], one]));
  for (const name of wanted) {
    const one = byName.get(name);
    if (!one || one.count < 2) continue;
    charts.push(
      histogramChart(
        `${name}: time of each`,
        one.buckets.map(([low, high, weight]) => ({ low, high, weight })),
        duration,
        tooltip,
        one,
      ),
    );
  }
  if (charts.length === 0) return null;
  return section(
    'histograms',
    'Histograms',
    'Over all events of the recording. What lies beyond the 99th percentile is orange.',
    el('div', 'charts', ...charts),
  );
}
