// Colours, from the style sheet's variables, for drawings and elements alike.

import type { Part } from './explanation.ts';

export interface Palette {
  text: string;
  muted: string;
  line: string;
  faint: string;
  surface: string;
  raised: string;
  accent: string;
  grew: string;
  shrank: string;
  part: (part: string) => string;
  category: (name: string) => string;
}

// A category has the colour of the part of the time that it usually means, or one near to it.
const kCategoryParts: Record<string, Part> = {
  compute: 'compute',
  read: 'fetch_stall',
  prepare: 'prep_stall',
  collective: 'sync_stall',
  copy: 'copy',
  checkpoint: 'checkpoint',
  sleep: 'idle',
  other: 'other',
};

let current: Palette | null = null;
const listeners: (() => void)[] = [];

export function palette(): Palette {
  if (current) return current;
  const style = getComputedStyle(document.documentElement);
  const known = new Map<string, string>();
  const read = (name: string): string => {
    let value = known.get(name);
    if (value === undefined) known.set(name, (value = style.getPropertyValue(`--${name}`).trim()));
    return value;
  };
  current = {
    text: read('text'),
    muted: read('muted'),
    line: read('line'),
    faint: read('faint'),
    surface: read('surface'),
    raised: read('raised'),
    accent: read('accent'),
    grew: read('grew'),
    shrank: read('shrank'),
    part: (part) => read(`part-${part.replace(/[_ ]/g, '-')}`) || read('part-other'),
    category: (name) => {
      const part = kCategoryParts[name];
      return (
        read(part ? `part-${part.replace(/_/g, '-')}` : `category-${name.replace(/ /g, '-')}`) ||
        read('part-other')
      );
    },
  };
  return current;
}

export function onThemeChange(listener: () => void): void {
  listeners.push(listener);
}

function changed(): void {
  current = null;
  for (const listener of listeners) listener();
}

type Choice = 'light' | 'dark' | null;

function stored(): Choice {
  try {
    const value = localStorage.getItem('forebay-theme');
    return value === 'light' || value === 'dark' ? value : null;
  } catch {
    return null; // pages from files may not remember anything
  }
}

function isDark(): boolean {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === 'dark' : window.matchMedia('(prefers-color-scheme: dark)').matches;
}

export function startTheme(): void {
  const choice = stored();
  if (choice) document.documentElement.dataset.theme = choice;
  window.matchMedia('(prefers-color-scheme: dark)').addEventListener('change', changed);
  // Paper is white.
  let before: string | undefined;
  window.addEventListener('beforeprint', () => {
    before = document.documentElement.dataset.theme;
    document.documentElement.dataset.theme = 'light';
    changed();
  });
  window.addEventListener('afterprint', () => {
    if (before === undefined) delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = before;
    changed();
  });
}

export function toggleTheme(): void {
  const next = isDark() ? 'light' : 'dark';
  document.documentElement.dataset.theme = next;
  try {
    localStorage.setItem('forebay-theme', next);
  } catch {
    // It holds for this visit.
  }
  changed();
}

/** Black or white, whichever reads better on a colour "#rrggbb". */
export function textOn(color: string): string {
  const value = parseInt(color.slice(1), 16);
  const light = 0.299 * (value >> 16) + 0.587 * ((value >> 8) & 255) + 0.114 * (value & 255);
  return light > 150 ? '#101418' : '#ffffff';
}
