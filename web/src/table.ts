// A table that sorts and filters itself. Numbers stand at the right, under their heading.

import { count } from './format.ts';
import { add, el, type Child } from './dom.ts';

export interface Column<T> {
  title: string;
  hint?: string;
  /** What to sort by: numbers sort the largest first; null sorts last. */
  value: (row: T) => number | string | null;
  /** What to show; the value itself when absent. */
  show?: (row: T) => Child;
  /** Length of a bar behind the figure, in [0, 1]. */
  bar?: (row: T) => number;
  wide?: boolean;
  isText?: boolean;
}

interface Options<T> {
  label: string;
  sortBy?: number;
  ascending?: boolean;
  filter?: (row: T) => string;
  rowsShown?: number;
  rowClass?: (row: T) => string;
  onRow?: (row: T) => void;
}

export function table<T>(
  rows: readonly T[],
  columns: Column<T>[],
  options: Options<T>,
): HTMLElement {
  let sortColumn = options.sortBy ?? -1;
  let ascending = options.ascending ?? false;
  let needle = '';
  let shown = options.rowsShown ?? 50;
  const body = el('tbody');
  const more = el('button', {
    class: 'more',
    attributes: { type: 'button' },
    on: { click: () => ((shown = Infinity), fill()) },
  });
  const heads = columns.map((column, index) => {
    const button = el(
      'button',
      {
        title: column.hint ?? '',
        attributes: { type: 'button' },
        on: { click: () => sort(index) },
      },
      column.title,
    );
    return el(
      'th',
      { class: column.isText ? 'text' : 'figure', attributes: { scope: 'col' } },
      button,
    );
  });

  function sort(index: number): void {
    if (sortColumn === index) ascending = !ascending;
    else {
      sortColumn = index;
      ascending = columns[index].isText ?? false;
    }
    fill();
  }

  function ordered(): T[] {
    const found =
      needle && options.filter
        ? rows.filter((row) => options.filter!(row).toLowerCase().includes(needle))
        : [...rows];
    if (sortColumn < 0) return found;
    const value = columns[sortColumn].value;
    const sign = ascending ? 1 : -1;
    return found.sort((a, b) => {
      const x = value(a);
      const y = value(b);
      if (x === null || y === null) return x === y ? 0 : x === null ? 1 : -1;
      return typeof x === 'number' && typeof y === 'number'
        ? sign * (x - y)
        : sign * String(x).localeCompare(String(y));
    });
  }

  function cell(column: Column<T>, row: T): HTMLTableCellElement {
    const td = el('td', `${column.isText ? 'text' : 'figure'}${column.wide ? ' wide' : ''}`);
    const content = column.show ? column.show(row) : column.value(row);
    add(td, content ?? '\u2013');
    if (column.bar) {
      const share = Math.max(0, Math.min(1, column.bar(row)));
      td.classList.add('with-bar');
      td.style.setProperty('--bar', `${(share * 100).toFixed(2)}%`);
    }
    return td;
  }

  function fill(): void {
    heads.forEach((head, index) => {
      if (index === sortColumn)
        head.setAttribute('aria-sort', ascending ? 'ascending' : 'descending');
      else head.removeAttribute('aria-sort');
    });
    const found = ordered();
    const visibleRows = found.slice(0, shown);
    body.replaceChildren(
      ...visibleRows.map((row) => {
        const tr = el(
          'tr',
          { class: options.rowClass?.(row) ?? '' },
          ...columns.map((column) => cell(column, row)),
        );
        if (options.onRow) {
          tr.tabIndex = 0;
          tr.classList.add('clickable');
          tr.addEventListener('click', () => options.onRow!(row));
          tr.addEventListener('keydown', (event) => {
            if (event.key === 'Enter') options.onRow!(row);
          });
        }
        return tr;
      }),
    );
    if (found.length === 0)
      body.appendChild(
        el(
          'tr',
          {},
          el(
            'td',
            { class: 'text muted', attributes: { colspan: String(columns.length) } },
            'nothing matches',
          ),
        ),
      );
    more.hidden = found.length <= shown;
    more.textContent = `show all ${count(found.length)} rows`;
  }

  fill();
  const result = el('div', 'table-block');
  if (options.filter && rows.length > 8) {
    const input = el('input', {
      class: 'filter',
      attributes: {
        type: 'search',
        placeholder: `filter ${options.label}`,
        'aria-label': `filter ${options.label}`,
      },
    });
    input.addEventListener('input', () => {
      needle = input.value.toLowerCase();
      fill();
    });
    result.appendChild(input);
  }
  const scroller = el(
    'div',
    {
      class: 'table-scroll',
      attributes: { tabindex: '0', role: 'region', 'aria-label': options.label },
    },
    el('table', {}, el('thead', {}, el('tr', {}, ...heads)), body),
  );
  add(result, scroller, more);
  return result;
}

/** Names and values, two columns. */
export function facts(rows: [string, Child][]): HTMLElement {
  return el(
    'dl',
    'facts',
    ...rows.flatMap(([name, value]) => [el('dt', {}, name), el('dd', {}, value ?? '\u2013')]),
  );
}
