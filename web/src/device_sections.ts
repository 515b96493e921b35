// Hosts, ranks and their clocks; accelerators, disks, cores.

import { el, section, type Child } from './dom.ts';
import type { Explanation, Shares } from './explanation.ts';
import {
  bytes,
  bytesPerSecond,
  count,
  duration,
  kNotMeasured,
  percent,
  signedDuration,
  visible,
} from './format.ts';
import { facts, table, type Column } from './table.ts';

export function hostsSection(explanation: Explanation): HTMLElement | null {
  const { alignment } = explanation;
  if (alignment.ranks.length === 0) return null;
  const residual =
    alignment.residual_ns === null
      ? 'the residual is not known'
      : `left over: ${duration(alignment.residual_ns)}`;
  return section(
    'hosts',
    'Hosts and ranks',
    `Clocks by ${visible(alignment.method)}, ${residual}${alignment.matched > 0 ? `, ${count(alignment.matched)} matched` : ''}${alignment.reason ? `; ${visible(alignment.reason)}` : ''}`,
    table(
      alignment.ranks,
      [
        {
          title: 'rank',
          isText: true,
          value: (row) => row.rank,
          show: (row) => (row.rank < 0 ? kNotMeasured : String(row.rank)),
        },
        {
          title: 'name',
          isText: true,
          wide: true,
          value: (row) => row.name,
          show: (row) =>
            el(
              'span',
              {},
              visible(row.name),
              row.is_straggler ? el('span', 'badge', 'straggler') : null,
            ),
        },
        {
          title: 'step',
          value: (row) => row.mean_step_ns,
          show: (row) => duration(row.mean_step_ns),
        },
        {
          title: 'own work',
          hint: 'per step, without waiting for others',
          value: (row) => row.own_work_ns,
          show: (row) => duration(row.own_work_ns),
        },
        {
          title: 'late by',
          hint: 'at collectives, mean behind the first',
          value: (row) => row.lateness_ns,
          show: (row) => duration(row.lateness_ns),
        },
        {
          title: 'came last',
          hint: 'share of collectives',
          value: (row) => row.last_share,
          show: (row) => percent(row.last_share),
        },
        {
          title: 'clock moved',
          value: (row) => row.clock_shift_ns,
          show: (row) => signedDuration(row.clock_shift_ns),
        },
        {
          title: 'residual',
          value: (row) => row.clock_residual_ns,
          show: (row) => duration(row.clock_residual_ns),
        },
      ],
      { label: 'ranks', filter: (row) => row.name },
    ),
  );
}

export function devicesSection(explanation: Explanation): HTMLElement | null {
  const { disks, accelerators, read_latency: latency, concurrency } = explanation;
  const parts: Child[] = [];
  if (accelerators.length > 0)
    parts.push(
      el('h3', {}, 'Accelerators'),
      table(
        accelerators,
        [
          {
            title: 'name',
            isText: true,
            wide: true,
            value: (row) => row.name,
            show: (row) => visible(row.name),
          },
          {
            title: 'computing',
            value: (row) => row.compute_ns / (row.span_ns || 1),
            show: (row) => percent(row.compute_ns / (row.span_ns || 1)),
            bar: (row) => row.compute_ns / (row.span_ns || 1),
          },
          {
            title: 'other work',
            hint: 'busy with communication or copies only',
            value: (row) => row.non_compute_ns,
            show: (row) => percent(row.non_compute_ns / (row.span_ns || 1)),
          },
          {
            title: 'idle',
            value: (row) => row.idle_ns,
            show: (row) => percent(row.idle_ns / (row.span_ns || 1)),
          },
          {
            title: 'waits for host',
            value: (row) => row.idle_host_wait_ns,
            show: (row) => percent(row.idle_host_wait_ns / (row.span_ns || 1)),
          },
          {
            title: 'between kernels',
            value: (row) => row.idle_kernel_wait_ns,
            show: (row) => percent(row.idle_kernel_wait_ns / (row.span_ns || 1)),
          },
          {
            title: 'communication hidden',
            value: (row) => row.communication_overlap,
            show: (row) => percent(row.communication_overlap),
          },
          {
            title: 'copies hidden',
            value: (row) => row.copy_overlap,
            show: (row) => percent(row.copy_overlap),
          },
          {
            title: 'copied',
            value: (row) => row.copied_bytes,
            show: (row) => bytes(row.copied_bytes),
          },
          { title: 'kernels', value: (row) => row.kernels, show: (row) => count(row.kernels) },
        ],
        { label: 'accelerators' },
      ),
    );
  if (disks.length > 0)
    parts.push(
      el('h3', {}, 'Disks'),
      table(
        disks,
        [
          {
            title: 'name',
            isText: true,
            value: (row) => row.name,
            show: (row) => visible(row.name),
          },
          { title: 'requests', value: (row) => row.requests, show: (row) => count(row.requests) },
          { title: 'bytes', value: (row) => row.bytes, show: (row) => bytes(row.bytes) },
          {
            title: 'reads',
            value: (row) => row.read_share,
            show: (row) => percent(row.read_share, 0),
          },
          {
            title: 'busy',
            value: (row) => row.busy_share,
            show: (row) => percent(row.busy_share),
            bar: (row) => row.busy_share ?? 0,
          },
          {
            title: 'busy in stalls',
            value: (row) => row.busy_share_in_stalls,
            show: (row) => percent(row.busy_share_in_stalls),
          },
          {
            title: 'speed',
            hint: 'while busy',
            value: (row) => row.bytes_per_second,
            show: (row) => bytesPerSecond(row.bytes_per_second),
          },
          {
            title: 'depth',
            hint: 'mean requests in flight while busy',
            value: (row) => row.depth,
            show: (row) => (row.depth === null ? kNotMeasured : row.depth.toFixed(1)),
          },
          {
            title: 'device p50',
            value: (row) => row.device_p50_ns,
            show: (row) => duration(row.device_p50_ns),
          },
          {
            title: 'device p99',
            value: (row) => row.device_p99_ns,
            show: (row) => duration(row.device_p99_ns),
          },
          {
            title: 'in queue',
            value: (row) => row.queue_mean_ns,
            show: (row) => duration(row.queue_mean_ns),
          },
        ],
        { label: 'disks' },
      ),
    );
  if (latency.is_measured) {
    const split = [
      { name: 'prep_stall', label: 'CPU', value: latency.cpu_ns },
      { name: 'fetch_stall', label: 'device', value: latency.device_ns },
      { name: 'sync_stall', label: 'queue', value: latency.queue_ns },
      { name: 'other', label: 'wake-up and run queue', value: latency.other_ns },
    ];
    const total = split.reduce((sum, part) => sum + part.value, 0) || 1;
    parts.push(
      el('h3', {}, `Where ${count(latency.reads)} reads that reached a disk spent their time`),
      facts(
        split.map((part): [string, Child] => [
          part.label,
          `${percent(part.value / total)}   ${duration(part.value / Math.max(1, latency.reads))} a read`,
        ]),
      ),
    );
  }
  if (concurrency.is_measured) {
    const rows: [string, Shares][] = [
      ['by the busiest core', concurrency.by_busiest],
      ['by the mean over cores', concurrency.by_mean],
    ];
    // A trace of devices alone knows nothing of cores.
    const { user, system, io_wait } = concurrency.by_busiest ?? { user: 0, system: 0, io_wait: 0 };
    const knowsCores = user + system + io_wait > 0;
    const cores = concurrency.cores === 1 ? '1 core' : `${count(concurrency.cores)} cores`;
    const shown = knowsCores
      ? (['user', 'system', 'gpu', 'io_wait', 'idle'] as const)
      : (['gpu', 'idle'] as const);
    parts.push(
      el(
        'h3',
        {},
        `What dominates each of ${count(concurrency.windows)} windows of ${duration(concurrency.window_ns)}${knowsCores ? `, ${cores}` : ''}`,
      ),
      table(
        knowsCores ? rows : rows.slice(0, 1).map(([, shares]): [string, Shares] => ['', shares]),
        [
          { title: '', isText: true, value: (row) => row[0] },
          ...shown.map(
            (name): Column<[string, Shares]> => ({
              title: name.replace('_', ' '),
              value: (row) => row[1][name],
              show: (row) => percent(row[1][name]),
            }),
          ),
        ],
        { label: 'concurrency' },
      ),
    );
  }
  return parts.length > 0 ? section('devices', 'Devices', null, ...parts) : null;
}
