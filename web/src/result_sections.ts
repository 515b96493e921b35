// The result of a run: its verdict, its epochs, what was run on what.

import { breakdownBar, stackedBars } from './bars.ts';
import { el, section, type Child, type Tooltip } from './dom.ts';
import { card, warningList } from './summary_section.ts';
import {
  bytes,
  bytesPerSecond,
  count,
  duration,
  kNotMeasured,
  percent,
  seconds,
  visible,
} from './format.ts';
import { histogramChart } from './histogram.ts';
import type { Epoch, Latency, RunResult, Spread, Times } from './result.ts';
import { facts, table } from './table.ts';

const kStalls = ['compute', 'fetch_stall', 'prep_stall', 'sync_stall', 'checkpoint_stall', 'other'];

/** Names as the other pages have them: a stall for checkpoints is the part "checkpoint". */
function parts(times: Times): { name: string; value: number }[] {
  return kStalls.map((name) => ({
    name: name === 'checkpoint_stall' ? 'checkpoint' : name,
    value: (times[name] ?? 0) * 1e9,
  }));
}

function spreadText(spread: Spread, format: (value: number) => string): string {
  if (spread.mean === null) return kNotMeasured;
  return spread.stdev !== null && spread.n > 1
    ? `${format(spread.mean)} \u00b1 ${format(spread.stdev).replace(/ .*/, '')}`
    : format(spread.mean);
}

export function resultSummary(result: RunResult, title: string): HTMLElement {
  const { verdict, summary } = result;
  const fed = verdict.accelerators_fed;
  const headline = `${result.workload_name}: ${verdict.reason}`;
  const time = summary.time_seconds;
  return el(
    'section',
    { id: 'summary', attributes: { 'aria-label': 'summary' } },
    el(
      'p',
      'kicker',
      el('span', {}, visible(title, 200)),
      el('code', {}, visible(result.command, 300)),
      el('span', {}, visible(result.started_at.replace('T', ' ').replace('Z', ' UTC'), 40)),
    ),
    el(
      'h1',
      {},
      el('span', `outcome ${verdict.outcome.replace(/ /g, '-')}`, verdict.outcome),
      visible(headline, 600),
    ),
    el(
      'p',
      'lead',
      `Limited by ${visible(verdict.limited_by || 'nothing known')}${verdict.limit_evidence ? `: ${visible(verdict.limit_evidence, 400)}` : ''}.`,
    ),
    warningList([
      ...(result.error ? [result.error] : []),
      ...(result.is_interrupted
        ? ['The run was interrupted: what is here was measured before.']
        : []),
      ...result.warnings,
    ]),
    el(
      'div',
      'cards',
      card(
        'AU',
        verdict.au === null ? kNotMeasured : percent(verdict.au),
        `needs ${percent(verdict.au_needed, 0)}, n ${summary.au.n}`,
      ),
      card(
        'samples',
        summary.samples_per_second.mean === null
          ? kNotMeasured
          : `${spreadText(summary.samples_per_second, count)} /s`,
        `of ${count(Number(result.options.accelerators))} accelerators`,
      ),
      card(
        'from files',
        summary.file_bytes_per_second.mean === null
          ? kNotMeasured
          : bytesPerSecond(summary.file_bytes_per_second.mean),
        summary.cached_share === null
          ? 'cache share not measured'
          : `${percent(summary.cached_share, 0)} from the page cache`,
      ),
      card(
        'feeds',
        fed === null
          ? kNotMeasured
          : `${verdict.accelerators_fed_is_lower_bound ? '\u2265 ' : ''}${fed < 10 ? fed.toFixed(1) : count(Math.round(fed))}`,
        'accelerators at the gate',
      ),
      card(
        'client CPU',
        summary.cpu_seconds_per_gb === null
          ? kNotMeasured
          : `${summary.cpu_seconds_per_gb.toFixed(2)} s/GB`,
        `${bytes(summary.peak_resident_bytes)} at most`,
      ),
      card(
        'first batch',
        seconds(summary.start_to_first_batch_seconds),
        `of ${seconds(summary.wall_seconds)}`,
      ),
    ),
    breakdownBar(parts(time), 1, ''),
  );
}

interface Step {
  label: string;
  parts: { name: string; value: number }[];
}

/** Every step of one accelerator, in order. */
function stepsOf(epochs: Epoch[], accelerator: number): Step[] {
  const steps: Step[] = [];
  for (const epoch of epochs) {
    let number = 0;
    for (const block of epoch.accelerators[accelerator]?.blocks ?? []) {
      block.compute_seconds.forEach((compute, i) => {
        ++number;
        const stalls = Object.entries(block.step_seconds).map(([name, values]) => ({
          name,
          value: (values[i] ?? 0) * 1e9,
        }));
        steps.push({
          label: `${epoch.epoch}.${number}`,
          parts: [{ name: 'compute', value: compute * 1e9 }, ...stalls],
        });
      });
    }
  }
  return steps;
}

export function epochsSection(result: RunResult, tooltip: Tooltip): HTMLElement | null {
  if (result.epochs.length === 0) return null;
  const accelerators = Math.max(...result.epochs.map((epoch) => epoch.accelerators.length));
  const holder = el('div');
  const show = (accelerator: number): void => {
    const steps = stepsOf(result.epochs, accelerator);
    const sorted = steps
      .map((step) => step.parts.reduce((sum, part) => sum + part.value, 0))
      .sort((a, b) => a - b);
    const p99 = sorted[Math.floor((sorted.length - 1) * 0.99)] ?? Infinity;
    holder.replaceChildren(
      stackedBars(
        steps.map((step) => ({
          ...step,
          isMarked:
            steps.length >= 100 && step.parts.reduce((sum, part) => sum + part.value, 0) > p99,
          note: '',
        })),
        'step',
        tooltip,
        `${steps.length} steps of accelerator ${accelerator}`,
        null,
      ),
    );
  };
  show(0);
  const pick = el('select', { attributes: { 'aria-label': 'whose steps' } });
  for (let i = 0; i < Math.min(accelerators, 1024); ++i)
    pick.appendChild(el('option', { attributes: { value: String(i) } }, `accelerator ${i}`));
  pick.addEventListener('change', () => show(Number(pick.value)));
  const share = (epoch: Epoch, name: string): number => {
    const total = Object.values(epoch.time_seconds).reduce((sum, value) => sum + value, 0);
    return total > 0 ? (epoch.time_seconds[name] ?? 0) / total : 0;
  };
  return section(
    'epochs',
    'Epochs and steps',
    'Each bar is a step of one accelerator, numbered epoch.step. The first steps of an epoch are in the picture, though not in every figure.',
    accelerators > 1 ? el('div', 'controls', pick) : null,
    holder,
    table(
      result.epochs,
      [
        {
          title: 'epoch',
          isText: true,
          value: (row) => row.epoch,
          show: (row) =>
            `${row.epoch}${row.phase === 'training' ? '' : ` ${row.phase}`}${row.is_complete ? '' : ' (incomplete)'}`,
        },
        {
          title: 'AU',
          value: (row) => row.au,
          show: (row) => percent(row.au),
          bar: (row) => row.au ?? 0,
        },
        {
          title: 'time',
          value: (row) => row.end_seconds - row.start_seconds,
          show: (row) => seconds(row.end_seconds - row.start_seconds),
        },
        {
          title: 'samples/s',
          value: (row) => row.samples_per_second,
          show: (row) => count(row.samples_per_second),
        },
        {
          title: 'from files',
          value: (row) => row.file_bytes_per_second,
          show: (row) => bytesPerSecond(row.file_bytes_per_second),
        },
        {
          title: 'fetch stall',
          value: (row) => share(row, 'fetch_stall'),
          show: (row) => percent(share(row, 'fetch_stall')),
        },
        {
          title: 'prep stall',
          value: (row) => share(row, 'prep_stall'),
          show: (row) => percent(share(row, 'prep_stall')),
        },
        {
          title: 'sync stall',
          value: (row) => share(row, 'sync_stall'),
          show: (row) => percent(share(row, 'sync_stall')),
        },
        {
          title: 'cached',
          value: (row) => row.cached_share,
          show: (row) => percent(row.cached_share, 0),
        },
        {
          title: 'read p50',
          value: (row) => row.read_latency.p50 ?? null,
          show: (row) => duration(row.read_latency.p50),
        },
        {
          title: 'read p99',
          value: (row) => row.read_latency.p99 ?? null,
          show: (row) => duration(row.read_latency.p99),
        },
        {
          title: 'DLIO AU',
          hint: "by DLIO's own definition",
          value: (row) => row.dlio_au,
          show: (row) => percent(row.dlio_au),
        },
      ],
      { label: 'epochs', rowsShown: 30 },
    ),
  );
}

export function resultHistograms(result: RunResult, tooltip: Tooltip): HTMLElement[] {
  const chart = (title: string, latency: Latency): HTMLElement | null => {
    if (!latency.buckets_low_high_count || latency.count === 0) return null;
    const values = latency.buckets_low_high_count.map(([low, high, weight]) => ({
      low,
      high,
      weight,
    }));
    return histogramChart(title, values, duration, tooltip, {
      p50: latency.p50!,
      p99: latency.p99!,
    });
  };
  const charts = [chart('reads of the run', result.summary.read_latency)];
  if (result.epochs.length > 1)
    for (const epoch of [result.epochs[0], result.epochs[result.epochs.length - 1]])
      charts.push(chart(`reads of epoch ${epoch.epoch}`, epoch.read_latency));
  return charts.filter((one): one is HTMLElement => one !== null);
}

export function resultHosts(result: RunResult): HTMLElement | null {
  if (result.hosts.length === 0) return null;
  return section(
    'hosts',
    'Hosts',
    'Clock offsets are against the host of process 0.',
    table(
      result.hosts,
      [
        { title: 'host', isText: true, value: (row) => row.name, show: (row) => visible(row.name) },
        {
          title: 'machine',
          isText: true,
          wide: true,
          value: (row) => row.cpu_model,
          show: (row) => `${visible(row.cpu_model)}, ${visible(row.kernel)}`,
        },
        { title: 'CPUs', value: (row) => row.cpu_count },
        {
          title: 'memory',
          value: (row) => row.memory_limit_bytes,
          show: (row) => bytes(row.memory_limit_bytes),
        },
        { title: 'accelerators', value: (row) => row.accelerators },
        {
          title: 'CPU time',
          value: (row) => row.cpu_seconds,
          show: (row) => seconds(row.cpu_seconds),
        },
        {
          title: 'peak memory',
          value: (row) => row.peak_resident_bytes,
          show: (row) => bytes(row.peak_resident_bytes),
        },
        {
          title: 'from files',
          value: (row) => row.file_bytes,
          show: (row) => bytes(row.file_bytes),
        },
        {
          title: 'cached',
          value: (row) => row.cached_share,
          show: (row) => percent(row.cached_share, 0),
        },
        {
          title: 'network in',
          value: (row) => row.network_received_bytes,
          show: (row) => bytes(row.network_received_bytes),
        },
        {
          title: 'clock offset',
          value: (row) => row.clock_offset_seconds,
          show: (row) =>
            `${seconds(row.clock_offset_seconds)} \u00b1 ${seconds(row.clock_uncertainty_seconds)}`,
        },
      ],
      { label: 'hosts' },
    ),
  );
}

function text(value: unknown): string {
  if (value === null || value === undefined || value === '') return kNotMeasured;
  if (Array.isArray(value)) return value.length === 0 ? 'none' : value.map(text).join(', ');
  return visible(String(value), 300);
}

export function resultConfiguration(result: RunResult): Child[] {
  const settings = Object.entries(result.workload).map(([key, setting]) => ({ key, ...setting }));
  const dataset = Object.entries(result.dataset).map(([key, value]): [string, Child] => [
    key.replace(/_/g, ' '),
    key === 'bytes' ? bytes(Number(value)) : text(value),
  ]);
  return [
    el('h3', {}, 'Options'),
    facts([
      ...Object.entries(result.options).map(([key, value]): [string, Child] => [
        key.replace(/_/g, ' '),
        text(value),
      ]),
      ['seed', String(result.seed)],
      ['read retries', count(result.read_retries)],
      ['bad records', count(result.bad_record_count)],
    ]),
    el('h3', {}, 'Data set'),
    facts(dataset),
    result.bad_records.length > 0
      ? table(
          result.bad_records,
          [
            {
              title: 'bad record',
              isText: true,
              wide: true,
              value: (row) => row.path,
              show: (row) => visible(row.path),
            },
            {
              title: 'cause',
              isText: true,
              value: (row) => row.cause,
              show: (row) => visible(row.cause),
            },
          ],
          { label: 'bad records' },
        )
      : null,
    result.checkpoints.length > 0
      ? table(
          result.checkpoints,
          [
            {
              title: 'checkpoint',
              isText: true,
              wide: true,
              value: (row) => row.path,
              show: (row) => visible(row.path),
            },
            { title: 'epoch', value: (row) => row.epoch },
            { title: 'step', value: (row) => row.step },
            { title: 'bytes', value: (row) => row.bytes, show: (row) => bytes(row.bytes) },
            { title: 'time', value: (row) => row.seconds, show: (row) => seconds(row.seconds) },
            {
              title: 'durable',
              isText: true,
              value: (row) => Number(row.is_synced),
              show: (row) => (row.is_synced ? 'yes' : 'no'),
            },
          ],
          { label: 'checkpoints' },
        )
      : null,
    el('h3', {}, 'Workload'),
    table(
      settings,
      [
        {
          title: 'key',
          isText: true,
          wide: true,
          value: (row) => row.key,
          show: (row) => el('code', {}, visible(row.key)),
        },
        {
          title: 'value',
          isText: true,
          value: (row) => row.value,
          show: (row) => visible(`${row.value}${row.unit ? ` ${row.unit}` : ''}`),
        },
        {
          title: 'from',
          isText: true,
          value: (row) => row.origin,
          show: (row) => visible(row.origin),
        },
      ],
      {
        label: 'workload keys',
        filter: (row) => `${row.key} ${row.value} ${row.origin}`,
        rowsShown: 20,
      },
    ),
  ];
}

/** Two results beside each other. Differences within the spread of either are named so. */
export function resultComparison(result: RunResult, against: RunResult, name: string): HTMLElement {
  const rows: {
    what: string;
    before: Spread;
    now: Spread;
    format: (value: number) => string;
    isBetterHigher: boolean;
  }[] = [
    {
      what: 'AU',
      before: against.summary.au,
      now: result.summary.au,
      format: percent,
      isBetterHigher: true,
    },
    {
      what: 'samples a second',
      before: against.summary.samples_per_second,
      now: result.summary.samples_per_second,
      format: count,
      isBetterHigher: true,
    },
    {
      what: 'read from files',
      before: against.summary.file_bytes_per_second,
      now: result.summary.file_bytes_per_second,
      format: bytesPerSecond,
      isBetterHigher: true,
    },
    {
      what: 'AU by DLIO',
      before: against.summary.dlio_au,
      now: result.summary.dlio_au,
      format: percent,
      isBetterHigher: true,
    },
    {
      what: 'a checkpoint',
      before: against.summary.checkpoint_seconds,
      now: result.summary.checkpoint_seconds,
      format: seconds,
      isBetterHigher: false,
    },
    ...kStalls.map((stall) => ({
      what: stall.replace(/_/g, ' '),
      before: one(against.summary.time_seconds[stall]),
      now: one(result.summary.time_seconds[stall]),
      format: seconds,
      isBetterHigher: stall === 'compute',
    })),
    {
      what: 'client CPU for a GB',
      before: one(against.summary.cpu_seconds_per_gb),
      now: one(result.summary.cpu_seconds_per_gb),
      format: seconds,
      isBetterHigher: false,
    },
  ];
  const known = rows.filter((row) => row.before.mean !== null && row.now.mean !== null);
  const judge = (row: (typeof rows)[number]): string => {
    const difference = row.now.mean! - row.before.mean!;
    if (difference === 0) return 'same';
    if (row.now.n < 2 || row.before.n < 2) return '';
    const noise =
      2 *
      Math.hypot(
        (row.now.stdev ?? 0) / Math.sqrt(row.now.n || 1),
        (row.before.stdev ?? 0) / Math.sqrt(row.before.n || 1),
      );
    if (Math.abs(difference) <= noise) return 'within the spread';
    return difference > 0 === row.isBetterHigher ? 'better' : 'worse';
  };
  return section(
    'comparison',
    'Compared',
    `Before: ${visible(name, 200)}. Single figures have no spread to be judged by.`,
    table(
      known,
      [
        { title: 'what', isText: true, wide: true, value: (row) => row.what },
        {
          title: 'before',
          value: (row) => row.before.mean,
          show: (row) => spreadText(row.before, row.format),
        },
        {
          title: 'now',
          value: (row) => row.now.mean,
          show: (row) => spreadText(row.now, row.format),
        },
        {
          title: 'ratio',
          value: (row) => (row.before.mean ? row.now.mean! / row.before.mean : null),
          show: (row) =>
            row.before.mean ? (row.now.mean! / row.before.mean).toFixed(2) : kNotMeasured,
        },
        {
          title: '',
          isText: true,
          value: judge,
          show: (row) =>
            el(
              'span',
              judge(row) === 'worse' ? 'grew' : judge(row) === 'better' ? 'shrank' : 'muted',
              judge(row),
            ),
        },
      ],
      { label: 'differences' },
    ),
  );
}

function one(value: number | null | undefined): Spread {
  return { mean: value ?? null, stdev: null, n: 1 };
}
