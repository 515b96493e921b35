// How long does a report of a million events take to open, and to redraw after a zoom?
// In headless Chromium, without a GPU. Opening: from the start of the navigation until what was built is
// painted. A redraw: from the key until the second frame after it, so waiting for the screen's beat and
// painting are in it.
// usage: node report_page.mjs SAMPLE_PAGES MODULES [--rounds N] [--json FILE]      exit 77: skipped
import { spawnSync } from 'node:child_process';
import { appendFileSync, existsSync, mkdtempSync, rmSync, statSync } from 'node:fs';
import { cpus, hostname, loadavg, release, tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { Chromium, findChromium } from '../tests/page/chromium.mjs';

const words = process.argv.slice(2);
const option = (name, fallback) =>
  words.includes(name) ? words[words.indexOf(name) + 1] : fallback;
const samplePages = resolve(words[0]);
const modules = resolve(words[1]);
const rounds = Number(option('--rounds', 7));
const program = findChromium();
if (!program || !existsSync(join(modules, 'node_modules/ws'))) {
  console.log('report page: skipped, no Chromium or no npm packages here');
  process.exit(77);
}

const folder = mkdtempSync(join(tmpdir(), 'forebay-bench-'));
const made = spawnSync(samplePages, [folder, 'million'], { encoding: 'utf8' });
if (made.status !== 0) {
  console.log(made.stderr);
  process.exit(1);
}
const file = join(folder, 'million.html');

const median = (values) => {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)];
};
const spread = (values) => median(values.map((value) => Math.abs(value - median(values))));

// One zoom or move, as the page sees it.
const redraw = (key) => `new Promise((resolve) => {
  const began = performance.now();
  const target = document.querySelector('.timeline-scroll');
  target.dispatchEvent(new KeyboardEvent('keydown', { key: ${JSON.stringify(key)} }));
  requestAnimationFrame(() => requestAnimationFrame(() => resolve(performance.now() - began)));
})`;
const keys = [...'wwwwwwwwwwwwdddddsssssaaaaassssssss0'];

const opened = [];
const redrawn = [];
const drawing = [];
const browser = await Chromium.start(program, modules);
for (let round = 0; round < rounds; ++round) {
  const page = await browser.open(`file://${file}`);
  opened.push(Number(await page.run('document.documentElement.dataset.openMs')));
  await page.run("document.querySelector('.timeline-frame').scrollIntoView(); true");
  await page.settle();
  for (const key of keys) {
    redrawn.push(await page.run(redraw(key)));
    drawing.push(Number(await page.run("document.querySelector('.timeline').dataset.redrawMs")));
  }
  await page.close();
}
await browser.close();

const rows = [
  ['opens', opened, 2000],
  ['redraw, key to frame', redrawn, 60],
  ['  of it drawing', drawing, 60],
];
console.log(`report page, 1,000,000 events, ${(statSync(file).size / 1e6).toFixed(1)} MB, ` +
  `${cpus().length} CPUs, load ${loadavg()[0].toFixed(1)}`);
console.log('what                     median      MAD      max    n   must reach');
for (const [what, values, target] of rows) {
  console.log(
    `${what.padEnd(22)} ${median(values).toFixed(1).padStart(6)} ms ${spread(values).toFixed(1).padStart(5)} ms ` +
      `${Math.max(...values).toFixed(1).padStart(5)} ms ${String(values.length).padStart(4)}   ` +
      `${target} ms  ${median(values) <= target ? 'ok' : 'MISSED'}`,
  );
}
const json = option('--json', '');
if (json) {
  for (const [what, values, target] of rows)
    appendFileSync(json, `${JSON.stringify({
      schema_version: 1, row: `report page ${what.trim()}`, median_ms: median(values),
      mad_ms: spread(values), max_ms: Math.max(...values), n: values.length, target_ms: target,
      events: 1_000_000, file_bytes: statSync(file).size, host: hostname(), kernel: release(),
      load: loadavg()[0],
    })}\n`);
}
rmSync(folder, { recursive: true, force: true });
