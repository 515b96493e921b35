// The verdict, the first advice, where the time goes; and every rule.

import { breakdownBar, breakdownParts } from './bars.ts';
import { add, el, section, type Child } from './dom.ts';
import { partName, shownBreakdown, type Advice, type Explanation } from './explanation.ts';
import { count, duration, kNotMeasured, percent, visible } from './format.ts';
import { facts, table } from './table.ts';

export function card(name: string, value: string, note: string): HTMLElement {
  return el(
    'div',
    'card',
    el('span', 'card-name', name),
    el('span', 'card-value', value),
    el('span', 'card-note', note),
  );
}

export function warningList(warnings: string[]): HTMLElement | null {
  if (warnings.length === 0) return null;
  return el(
    'ul',
    { class: 'warnings', attributes: { 'aria-label': 'warnings' } },
    ...warnings.map((text) => el('li', {}, visible(text, 1000))),
  );
}

function gainOf(advice: Advice): string {
  if (advice.gain_ns_per_step > 0) return `saves about ${duration(advice.gain_ns_per_step)} of the mean step`;
  if (advice.gain_ns > 0) return `saves about ${duration(advice.gain_ns)} of the run`;
  return '';
}

function adviceItem(advice: Advice, isOpen: boolean): HTMLElement {
  const gain = gainOf(advice);
  const details = el(
    'details',
    'advice',
    el(
      'summary',
      {},
      el('span', 'advice-title', visible(advice.title || advice.id, 500)),
      gain
        ? el('span', 'advice-gain', `${gain}, ${percent(advice.gain_share)}`)
        : el('span', 'advice-gain muted', advice.is_warning ? 'about the measurement' : ''),
    ),
    advice.remedies.length > 0
      ? el('ul', 'remedies', ...advice.remedies.map((text) => el('li', {}, visible(text, 2000))))
      : null,
    facts(
      (
        [
          ['evidence', visible(advice.evidence, 1000)],
          ['needs', visible(advice.needs, 500)],
          [
            'threshold',
            visible(
              advice.threshold + (advice.threshold_source ? ` (${advice.threshold_source})` : ''),
              500,
            ),
          ],
          ['gain', visible(advice.gain_formula, 500)],
          ['rule', visible(advice.id, 100)],
        ] as [string, string][]
      ).filter(([, value]) => value !== ''),
    ),
  );
  details.open = isOpen;
  return details;
}

export function summarySection(
  explanation: Explanation,
  title: string,
  shown: { events: number; kept: number } | null,
): HTMLElement {
  const { recording, iterations } = explanation;
  const breakdown = shownBreakdown(explanation);
  const total = breakdown.total || 1;
  const applies = explanation.advice.filter((advice) => advice.state === 'applies');
  const overhead = [recording.overhead_outside_ns, recording.overhead_inside_ns].filter(
    (ns): ns is number => ns !== null,
  );
  const overheadNs = overhead.reduce((sum, ns) => sum + ns, 0);
  const when =
    recording.begin_unix_ns === null
      ? ''
      : new Date(recording.begin_unix_ns / 1e6).toISOString().replace('T', ' ').slice(0, 19) +
        ' UTC';
  const cards = el(
    'div',
    'cards',
    card('duration', duration(recording.duration_ns), when),
    iterations.is_found
      ? card(
          'iteration',
          duration(iterations.mean_ns),
          `${count(iterations.count)} of them, p99 ${duration(iterations.p99_ns)}`,
        )
      : card('iterations', 'not found', visible(iterations.reason || '', 80)),
    card(
      'computing',
      percent(breakdown.compute / total),
      `of ${count(explanation.drivers.length)} driver${explanation.drivers.length === 1 ? '' : 's'}`,
    ),
    card(
      'events',
      count(recording.events),
      shown && shown.kept < shown.events
        ? `${count(shown.kept)} drawn`
        : `${count(recording.tracks)} tracks`,
    ),
    card(
      'dropped',
      count(recording.dropped),
      recording.dropped > 0 ? 'figures are lower bounds' : 'nothing was lost',
    ),
    card(
      'overhead',
      overhead.length === 0 ? kNotMeasured : percent(overheadNs / (recording.duration_ns || 1)),
      overhead.length === 0 ? 'not measured' : `${duration(overheadNs)} of CPU time`,
    ),
  );
  const steps = iterations.is_found ? Math.max(1, iterations.count) : 1;
  return el(
    'section',
    { id: 'summary', attributes: { 'aria-label': 'summary' } },
    el(
      'p',
      'kicker',
      el('span', {}, visible(title, 200)),
      recording.command ? el('code', {}, visible(recording.command, 300)) : null,
      recording.host ? el('span', {}, `on ${visible(recording.host, 100)}`) : null,
      recording.exit ? el('span', {}, visible(recording.exit, 60)) : null,
    ),
    el('h1', {}, visible(explanation.headline, 600)),
    warningList([
      ...(recording.is_whole
        ? []
        : ['Some files are damaged or were not finished: what could be read is shown.']),
      ...explanation.warnings,
    ]),
    cards,
    breakdown.total > 0
      ? breakdownBar(breakdownParts(breakdown), steps, iterations.is_found ? ' a step' : '')
      : el('p', 'absent', 'No driver of the training was found, so its time is not split.'),
    el(
      'div',
      'first-advice',
      applies.length > 0 ? el('h2', {}, 'What to change first') : null,
      ...applies.slice(0, 3).map((advice, index) => adviceItem(advice, index === 0)),
    ),
    explanation.causes.length > 0
      ? table(
          explanation.causes,
          [
            {
              title: 'where the time goes',
              isText: true,
              wide: true,
              value: (row) => row.what,
              show: (row) => visible(row.what),
            },
            {
              title: 'part',
              isText: true,
              value: (row) => row.part,
              show: (row) => partCell(row.part),
            },
            {
              title: iterations.is_found ? 'a step' : 'time',
              value: (row) => row.ns,
              show: (row) => duration(row.ns / steps),
              bar: (row) => row.ns / total,
            },
            { title: 'share', value: (row) => row.ns, show: (row) => percent(row.ns / total) },
          ],
          { label: 'causes', rowsShown: 8 },
        )
      : null,
    openCalls(explanation),
  );
}

/** Calls in which the program was when the recording ended, where it did not end by itself. */
function openCalls(explanation: Explanation): HTMLElement | null {
  const { calls, hang } = explanation.under_way;
  const exit = explanation.recording.exit;
  const isCut = hang !== null || exit === 'running' || exit.startsWith('signal');
  if (!isCut || calls.length === 0) return null;
  return table(
    calls,
    [
      {
        title: 'still running when the recording ended',
        isText: true,
        wide: true,
        value: (row) => row.what,
        show: (row) => visible(row.what),
      },
      {
        title: 'thread',
        isText: true,
        value: (row) => row.thread,
        show: (row) => visible(row.thread),
      },
      { title: 'for', value: (row) => row.ns, show: (row) => duration(row.ns) },
    ],
    { label: 'calls under way', rowsShown: 5 },
  );
}

function partCell(part: string): Child {
  const name = part.replace(/ /g, '_');
  const swatch = el('span', 'swatch');
  swatch.style.background = `var(--part-${name.replace(/_/g, '-')})`;
  return el('span', {}, swatch, partName(name));
}

export function adviceSection(explanation: Explanation): HTMLElement | null {
  if (explanation.advice.length === 0) return null;
  const groups: [string, Advice['state']][] = [
    ['Applies here', 'applies'],
    ['Checked, not needed', 'not needed'],
    ['Not judged: the evidence is missing', 'no evidence'],
  ];
  return section(
    'advice',
    'Advice',
    'Every rule, judged on this recording. Gains are computed from it, and do not add up: one cure may take away the need for another.',
    ...groups.flatMap(([title, state]) => {
      const rules = explanation.advice.filter((advice) => advice.state === state);
      return rules.length === 0
        ? []
        : [
            el('h3', {}, `${title} (${rules.length})`),
            ...rules.map((advice) => adviceItem(advice, false)),
          ];
    }),
  );
}

export function driversTable(explanation: Explanation): HTMLElement | null {
  if (explanation.drivers.length < 2) return null;
  const holder = el('div', 'drivers');
  for (const driver of explanation.drivers.slice(0, 64)) {
    const breakdown = driver.steps.total > 0 ? driver.steps : driver.whole;
    add(
      holder,
      el('h3', {}, visible(driver.name, 120)),
      breakdownBar(
        breakdownParts(breakdown),
        Math.max(1, driver.iterations.filter((i) => !i.is_partial).length),
        ' a step',
      ),
    );
  }
  return el(
    'details',
    'all-drivers',
    el('summary', {}, `each of ${explanation.drivers.length} drivers`),
    holder,
  );
}
