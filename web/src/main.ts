// The page: unpacks its data, and builds itself from them.

import { decodeBase64, inflate } from './bytes.ts';
import { devicesSection, hostsSection } from './device_sections.ts';
import { filesSection, histogramsSection } from './file_sections.ts';
import { comparisonSection, swarmsTable } from './function_sections.ts';
import { adviceSection, driversTable, summarySection } from './summary_section.ts';
import { configurationSection, type About } from './configuration.ts';
import { iterationsSection } from './bars.ts';
import { add, el, section, Tooltip } from './dom.ts';
import type { Explanation } from './explanation.ts';
import { FlameData } from './flame_data.ts';
import { FlameView } from './flame_view.ts';
import { count, visible } from './format.ts';
import { helpDialog } from './keys.ts';
import type { RunResult } from './result.ts';
import {
  epochsSection,
  resultComparison,
  resultConfiguration,
  resultHistograms,
  resultHosts,
  resultSummary,
} from './result_sections.ts';
import { startTheme, toggleTheme } from './theme.ts';
import { TimelineData } from './timeline_data.ts';
import { TimelineView } from './timeline_view.ts';

async function load(name: string): Promise<Uint8Array | null> {
  const element = document.getElementById(`forebay-${name}`);
  if (!element) return null;
  const packed = decodeBase64(element.textContent ?? '');
  element.remove();
  return inflate(packed);
}

async function loadJson<T>(name: string): Promise<T | null> {
  const bytes = await load(name);
  return bytes ? (JSON.parse(new TextDecoder().decode(bytes)) as T) : null;
}

interface Loaded {
  about: About;
  explanation: Explanation | null;
  result: RunResult | null;
  resultAgainst: RunResult | null;
  timeline: TimelineData | null;
  samples: FlameData | null;
  spans: FlameData | null;
  samplesAgainst: FlameData | null;
  spansAgainst: FlameData | null;
}

async function loadAll(): Promise<Loaded> {
  const flame = async (name: string): Promise<FlameData | null> => {
    const bytes = await load(name);
    return bytes ? new FlameData(bytes) : null;
  };
  const timeline = await load('timeline');
  return {
    about: (await loadJson<About>('about')) ?? { title: '', version: '', against_title: '' },
    explanation: await loadJson<Explanation>('explanation'),
    result: await loadJson<RunResult>('result'),
    resultAgainst: await loadJson<RunResult>('result-against'),
    timeline: timeline ? new TimelineData(timeline) : null,
    samples: await flame('samples'),
    spans: await flame('spans'),
    samplesAgainst: await flame('samples-against'),
    spansAgainst: await flame('spans-against'),
  };
}

function flameSection(data: Loaded, tooltip: Tooltip): HTMLElement | null {
  const kinds: [string, FlameData, FlameData | null][] = [];
  if (data.samples) kinds.push(['CPU samples', data.samples, data.samplesAgainst]);
  if (data.spans) kinds.push(['spans', data.spans, data.spansAgainst]);
  const swarms = data.explanation ? [el('h3', {}, 'Functions'), swarmsTable(data.explanation)] : [];
  if (kinds.length === 0)
    return swarms.length > 0 ? section('flame', 'Functions', null, ...swarms) : null;
  const holder = el('div');
  const buttons = kinds.map(([label], index) =>
    el(
      'button',
      { class: 'chip', attributes: { type: 'button' }, on: { click: () => show(index) } },
      label,
    ),
  );
  const row = el('span', 'button-row', ...(kinds.length > 1 ? buttons : []));
  const views: (FlameView | null)[] = kinds.map(() => null);
  const show = (index: number): void => {
    const [, own, against] = kinds[index];
    const view = (views[index] ??= new FlameView(own, against, tooltip, null));
    holder.replaceChildren(view.element);
    buttons.forEach((button, i) => button.setAttribute('aria-pressed', String(i === index)));
  };
  show(0);
  const isCompared = kinds[0][2] !== null;
  return section(
    'flame',
    'Flame graph',
    isCompared
      ? `Red: a larger share of the time than in ${visible(data.about.against_title, 100)}; blue: a smaller one.`
      : 'Width is time; click a function to look into it.',
    row,
    holder,
    ...swarms,
  );
}

function timelineNote(timeline: TimelineData): string {
  const keys = 'Ctrl and wheel zoom, drag selects, double-click zooms in; keys with ?';
  if (timeline.kept >= timeline.events) return `${count(timeline.events)} events. ${keys}`;
  return `${count(timeline.kept)} of ${count(timeline.events)} events are drawn: of neighbours in a row the longest, of a counter the lowest and the highest. ${keys}`;
}

function build(data: Loaded, tooltip: Tooltip): HTMLElement[] {
  const { explanation, result, timeline, about } = data;
  const sections: (HTMLElement | null)[] = [];
  let view: TimelineView | null = null;
  if (timeline && timeline.events > 0) {
    const drivers = explanation?.drivers ?? [];
    const iterations = (
      drivers.find((driver) => driver.iterations.length > 0)?.iterations ?? []
    ).filter((one) => !one.is_partial);
    view = new TimelineView(
      timeline,
      iterations,
      new Set(drivers.map((driver) => driver.track)),
      tooltip,
    );
  }
  const zoom = (begin: number, end: number): void => view?.reveal(begin, end);
  if (result) sections.push(resultSummary(result, about.title));
  if (explanation) {
    const summary = summarySection(explanation, about.title, timeline);
    if (result) {
      // The result's summary has said what was run.
      summary.id = 'explained';
      summary.querySelector('.kicker')?.remove();
      summary.querySelector('h1')?.replaceWith(el('h2', {}, visible(explanation.headline, 600)));
    }
    const drivers = driversTable(explanation);
    if (drivers) summary.appendChild(drivers);
    sections.push(summary);
  }
  if (!result && !explanation)
    sections.push(
      el(
        'section',
        { id: 'summary', attributes: { 'aria-label': 'summary' } },
        el('p', 'kicker', visible(about.title, 200)),
        el(
          'h1',
          {},
          timeline ? `${count(timeline.events)} events, not explained` : 'Nothing was recorded',
        ),
      ),
    );
  if (result && data.resultAgainst)
    sections.push(resultComparison(result, data.resultAgainst, about.against_title));
  if (explanation) {
    const compared = comparisonSection(explanation);
    if (compared && result) {
      compared.id = 'comparison-of-steps';
      compared.setAttribute('aria-label', 'Steps compared');
      compared.querySelector('h2')!.textContent = 'Steps compared';
    }
    sections.push(compared);
  }
  if (result) sections.push(epochsSection(result, tooltip));
  if (explanation) sections.push(iterationsSection(explanation, tooltip, view ? zoom : null));
  if (timeline && view)
    sections.push(section('timeline', 'Timeline', timelineNote(timeline), view.element));
  sections.push(flameSection(data, tooltip));
  if (explanation) sections.push(filesSection(explanation));
  sections.push(
    histogramsSection(
      explanation,
      timeline?.categories ?? [],
      timeline?.histograms ?? [],
      tooltip,
      result ? resultHistograms(result, tooltip) : [],
    ),
  );
  if (result) sections.push(resultHosts(result));
  if (explanation) {
    const hosts = hostsSection(explanation);
    if (hosts && result) hosts.id = 'ranks';
    sections.push(hosts, devicesSection(explanation), adviceSection(explanation));
  }
  sections.push(
    configurationSection(about, explanation, result ? resultConfiguration(result) : []),
  );
  wireKeys(view);
  return sections.filter((one): one is HTMLElement => one !== null);
}

function wireKeys(view: TimelineView | null): void {
  const help = helpDialog();
  document.body.appendChild(help);
  document.getElementById('help')?.addEventListener('click', () => help.showModal());
  document.addEventListener('keydown', (event) => {
    const target = event.target as HTMLElement;
    if (
      event.ctrlKey ||
      event.metaKey ||
      event.altKey ||
      /^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName)
    )
      return;
    if (event.key === '?') help.showModal();
    else if (event.key === '/' && view) {
      event.preventDefault();
      view.focusFilter();
    } else if (event.key === 't') toggleTheme();
  });
}

/** Which section is being read. */
function wireNavigation(links: Map<string, HTMLAnchorElement>, sections: HTMLElement[]): void {
  const inView = new Set<string>();
  const observer = new IntersectionObserver(
    (entries) => {
      for (const entry of entries) {
        if (entry.isIntersecting) inView.add(entry.target.id);
        else inView.delete(entry.target.id);
      }
      const current = sections.find((one) => inView.has(one.id))?.id;
      for (const [id, link] of links) {
        if (id === current) link.setAttribute('aria-current', 'true');
        else link.removeAttribute('aria-current');
      }
    },
    { rootMargin: '-56px 0px -50% 0px' },
  );
  for (const one of sections) observer.observe(one);
}

async function start(): Promise<void> {
  startTheme();
  const app = document.getElementById('app')!;
  const data = await loadAll();
  const tooltip = new Tooltip();
  const links = new Map<string, HTMLAnchorElement>();
  const navigation = el('nav', { attributes: { 'aria-label': 'sections' } });
  const bar = el(
    'header',
    'top',
    el('span', 'brand', 'Forebay'),
    navigation,
    el(
      'button',
      {
        id: 'help',
        class: 'quiet',
        title: 'keys (?)',
        attributes: { type: 'button', 'aria-label': 'keys' },
      },
      '?',
    ),
    el(
      'button',
      {
        id: 'theme',
        class: 'quiet',
        title: 'light or dark (T)',
        attributes: { type: 'button', 'aria-label': 'light or dark' },
        on: { click: toggleTheme },
      },
      '\u25d0',
    ),
  );
  app.replaceChildren(bar);
  const sections = build(data, tooltip);
  for (const one of sections) {
    const link = el(
      'a',
      { href: `#${one.id}` },
      one.getAttribute('aria-label') === 'summary'
        ? one.id === 'explained'
          ? 'Explained'
          : 'Summary'
        : one.getAttribute('aria-label'),
    );
    links.set(one.id, link);
    navigation.appendChild(link);
  }
  const main = el('main', {}, ...sections);
  add(
    app,
    main,
    el(
      'footer',
      {},
      `Forebay ${visible(data.about.version, 40)}. This page is one file, and uses no network.`,
    ),
  );
  wireNavigation(links, sections);
  requestAnimationFrame(() =>
    requestAnimationFrame(() => {
      document.documentElement.dataset.openMs = performance.now().toFixed(1);
      document.documentElement.dataset.ready = 'true';
    }),
  );
}

start().catch((error: unknown) => {
  const app = document.getElementById('app')!;
  app.replaceChildren(
    el(
      'main',
      {},
      el('h1', {}, 'This report cannot be shown'),
      el('p', {}, error instanceof Error ? error.message : String(error)),
    ),
  );
  console.error(error);
});
