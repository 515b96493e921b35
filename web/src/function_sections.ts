// Functions by their time, and what grew or shrank since another recording.

import { el, section } from './dom.ts';
import { partName, type Change, type Explanation } from './explanation.ts';
import { duration, percent, signedDuration, visible } from './format.ts';
import { table } from './table.ts';

export function swarmsTable(explanation: Explanation): HTMLElement {
  if (explanation.swarms.length === 0)
    return el(
      'p',
      'absent',
      `Functions are not known: ${visible(explanation.swarms_reason || 'no samples and no spans')}.`,
    );
  return table(
    explanation.swarms,
    [
      {
        title: 'function',
        isText: true,
        wide: true,
        value: (row) => row.symbol,
        show: (row) =>
          el(
            'span',
            { class: 'name', title: visible(row.path, 1000) },
            visible(row.symbol, 160),
            row.source ? el('span', 'muted', `  ${visible(row.source, 80)}`) : null,
            row.path ? el('span', 'muted', `  < ${visible(row.path, 120)}`) : null,
          ),
      },
      { title: 'kind', isText: true, value: (row) => row.kind },
      {
        title: 'module',
        isText: true,
        value: (row) => row.module,
        show: (row) =>
          el(
            'span',
            { class: 'path', title: visible(row.module, 500) },
            visible(row.module.split('/').pop() ?? '', 60),
          ),
      },
      { title: 'self', value: (row) => row.self_ns, show: (row) => duration(row.self_ns) },
      {
        title: 'share',
        value: (row) => row.share,
        show: (row) => percent(row.share),
        bar: (row) => row.share,
      },
      {
        title: 'over time',
        isText: true,
        value: () => null,
        show: (row) => sparkline(row.over_time_ns),
      },
      {
        title: 'mostly on',
        isText: true,
        value: (row) => row.main_track,
        show: (row) => visible(row.main_track, 60),
      },
    ],
    {
      label: 'functions',
      sortBy: 3,
      filter: (row) => `${row.symbol} ${row.module} ${row.path}`,
      rowsShown: 12,
    },
  );
}

function sparkline(values: number[]): SVGSVGElement {
  const kSpace = 'http://www.w3.org/2000/svg';
  const svg = document.createElementNS(kSpace, 'svg');
  svg.setAttribute('class', 'sparkline');
  svg.setAttribute('viewBox', `0 0 ${Math.max(1, values.length)} 16`);
  svg.setAttribute('preserveAspectRatio', 'none');
  svg.setAttribute('aria-hidden', 'true');
  const most = Math.max(1, ...values);
  const path = document.createElementNS(kSpace, 'path');
  path.setAttribute(
    'd',
    `M0 16 ${values.map((value, i) => `L${i} ${(16 - (15 * value) / most).toFixed(1)} L${i + 1} ${(16 - (15 * value) / most).toFixed(1)}`).join(' ')} L${values.length} 16 Z`,
  );
  svg.appendChild(path);
  return svg;
}

export function comparisonSection(explanation: Explanation): HTMLElement | null {
  const { comparison } = explanation;
  if (!comparison) return null;
  const largest = Math.max(
    1,
    ...comparison.rows.slice(1).map((row) => Math.abs(row.difference_ns)),
  );
  const bar = (row: Change): HTMLElement => {
    const piece = el('span', row.difference_ns >= 0 ? 'diverging grew' : 'diverging shrank');
    piece.style.setProperty(
      '--size',
      `${(Math.min(1, Math.abs(row.difference_ns) / largest) * 50).toFixed(1)}%`,
    );
    if (!row.is_significant) piece.classList.add('weak');
    return piece;
  };
  return section(
    'comparison',
    'Compared',
    `Each figure per ${visible(comparison.unit)}; before: ${visible(comparison.against, 200)}. Red took longer, blue shorter; pale ones are within the noise (Mann-Whitney, Benjamini-Hochberg at 5 %) or below 5 % of themselves or 1 % of the whole.`,
    ...comparison.notes.map((note) => el('p', 'note', visible(note, 500))),
    table(
      comparison.rows,
      [
        {
          title: 'what',
          isText: true,
          wide: true,
          value: (row) => row.what,
          show: (row) =>
            el(
              'span',
              { class: 'name', title: visible(row.path, 1000) },
              visible(partName(row.what), 160),
              row.module
                ? el('span', 'muted', `  ${visible(row.module.split('/').pop() ?? '', 50)}`)
                : null,
            ),
        },
        { title: 'before', value: (row) => row.before_ns, show: (row) => duration(row.before_ns) },
        { title: 'now', value: (row) => row.after_ns, show: (row) => duration(row.after_ns) },
        {
          title: 'difference',
          value: (row) => row.difference_ns,
          show: (row) => signedDuration(row.difference_ns),
        },
        {
          title: 'shorter \u00b7 longer',
          isText: true,
          value: (row) => row.difference_ns,
          show: bar,
        },
        {
          title: 'p',
          hint: 'of no difference; n before and now',
          value: (row) => row.p,
          show: (row) =>
            row.p === null
              ? `n ${row.before_n}, ${row.after_n}`
              : row.p < 0.001
                ? '< 0.001'
                : row.p.toFixed(3),
        },
        {
          title: '',
          isText: true,
          value: (row) => Number(row.is_significant),
          show: (row) => (row.is_significant ? 'significant' : ''),
        },
      ],
      { label: 'differences', filter: (row) => `${row.what} ${row.module}`, rowsShown: 30 },
    ),
  );
}
