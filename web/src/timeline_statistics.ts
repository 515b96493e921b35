// What happened in a stretch of time: totals by name.

import type { Row, TimelineData } from './timeline_data.ts';

export interface NameTotal {
  name: number;
  count: number;
  ns: number;
  longest: number;
}

/** Of spans the part inside [begin, end); of points how many. Rows of `rows`, names that `allowed` has. */
export function totals(
  data: TimelineData,
  rows: readonly Row[],
  begin: number,
  end: number,
  allowed: Uint8Array | null,
): NameTotal[] {
  const counts = new Float64Array(data.nameCount);
  const sums = new Float64Array(data.nameCount);
  const longest = new Float64Array(data.nameCount);
  for (const row of rows) {
    const spans = row.spans;
    if (!spans) continue;
    const [first, last] = spans.range(begin, end);
    for (let i = first; i < last; ++i) {
      const name = spans.names[i];
      if (allowed && !allowed[name]) continue;
      const ns = Math.min(end, spans.ends[i]) - Math.max(begin, spans.starts[i]);
      ++counts[name];
      sums[name] += ns;
      if (ns > longest[name]) longest[name] = ns;
    }
  }
  const found: NameTotal[] = [];
  for (let name = 0; name < counts.length; ++name)
    if (counts[name] > 0)
      found.push({ name, count: counts[name], ns: sums[name], longest: longest[name] });
  return found.sort((a, b) => b.ns - a.ns || b.count - a.count);
}

/** Names that the filter lets through; null when it lets all. "/.../" is a regular expression. */
export function allowedNames(
  data: TimelineData,
  text: string,
  categories: ReadonlySet<number>,
): Uint8Array | null {
  const needle = text.trim();
  if (!needle && categories.size === 0) return null;
  let matches: (name: string) => boolean;
  const expression = /^\/(.+)\/$/.exec(needle);
  if (expression) {
    try {
      const compiled = new RegExp(expression[1], 'i');
      matches = (name) => compiled.test(name);
    } catch {
      matches = () => false;
    }
  } else {
    const lower = needle.toLowerCase();
    matches = (name) => name.toLowerCase().includes(lower);
  }
  const allowed = new Uint8Array(data.nameCount);
  for (let name = 0; name < allowed.length; ++name)
    allowed[name] = Number(
      (categories.size === 0 || categories.has(data.nameCategory(name))) &&
        (!needle || matches(data.nameText(name))),
    );
  return allowed;
}
