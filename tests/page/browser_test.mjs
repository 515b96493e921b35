// The pages in headless Chromium: they load without a network, show the right figures, zoom, filter,
// fold, and never run what a recording says. Screenshots stay in OUTPUT.
// usage: node browser_test.mjs SAMPLE_PAGES MODULES OUTPUT      exit 77: skipped
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { Chromium, findChromium } from './chromium.mjs';

const [samplePages, modules, output] = process.argv.slice(2).map((path) => resolve(path));
const program = findChromium();
if (!program || !existsSync(join(modules, 'node_modules/ws'))) {
  console.log(
    program
      ? 'skipped: npm could not install what this test needs'
      : 'skipped: no chromium here (./dev setup)',
  );
  process.exit(77);
}

rmSync(output, { recursive: true, force: true });
mkdirSync(output, { recursive: true });
const made = spawnSync(samplePages, [output], { encoding: 'utf8' });
if (made.status !== 0) {
  console.log(made.stderr);
  process.exit(/built without the report page/.test(made.stderr) ? 77 : 1);
}
const known = JSON.parse(readFileSync(join(output, 'known.json'), 'utf8'));

const browser = await Chromium.start(program, modules);
const address = (name) => `file://${join(output, name)}.html`;
let failures = 0;

async function check(what, page, options, body) {
  const began = Date.now();
  let tab;
  try {
    tab = await browser.open(address(page), options);
    await tab.settle();
    await body(tab);
    assert.deepEqual(tab.problems, [], 'the console is quiet');
    assert.deepEqual(tab.requests, [], 'nothing is asked of a network');
    console.log(`ok      ${what} (${Date.now() - began} ms)`);
  } catch (error) {
    ++failures;
    console.log(`FAILED  ${what}\n${error.stack}`);
    if (tab)
      writeFileSync(
        join(output, `failed-${page}.png`),
        await tab.screenshot().catch(() => Buffer.alloc(0)),
      );
  }
  if (tab) await tab.close();
}

const text = (selector) => `document.querySelector(${JSON.stringify(selector)})?.innerText ?? null`;
const data = (name) => `document.querySelector('.timeline').dataset.${name}`;
const kFocus = "document.querySelector('.timeline-scroll').focus({ preventScroll: true }); true";
const kScroll =
  "document.querySelector('.timeline-frame').scrollIntoView({ block: 'center' }); true";
const plain = (words) => words.replace(/[\u202f\u00a0]/g, ' ');

await check('loads light, with the right figures, in one piece', 'training', {}, async (page) => {
  assert.equal(await page.run(text('h1')), known.headline);
  const cards = plain(await page.run(text('.cards')));
  assert.match(cards, new RegExp(String(known.events).replace(/\B(?=(\d{3})+(?!\d))/g, ' ')));
  assert.match(cards, /480 of them/);
  const { steps } = known;
  const legend = plain(await page.run(text('.legend')));
  for (const part of [
    'compute',
    'fetch_stall',
    'prep_stall',
    'sync_stall',
    'copy',
    'checkpoint',
    'other',
  ])
    assert.match(
      legend,
      new RegExp(
        `${part.replace('_', ' ')}\\s+${((100 * steps[part]) / steps.total).toFixed(1)} %`,
      ),
    );
  assert.equal(await page.run('window.layoutShift'), 0);
  assert.ok(statSync(join(output, 'training.html')).size < 2_000_000);
  // The totals of the whole recording are those that were counted elsewhere.
  const names = plain(await page.run(text('.timeline-details table')));
  assert.match(
    names,
    new RegExp(
      `decode_image\\s+prepare\\s+${String(known.decode_events).replace(/\B(?=(\d{3})+(?!\d))/g, ' ')}`,
    ),
  );
  assert.equal(
    Number(await page.run("document.querySelector('.flame').dataset.total")),
    known.sample_ns,
  );
  assert.ok(
    (await page.run("document.querySelectorAll('#advice details').length")) === 5,
    'rules without evidence too',
  );
  writeFileSync(join(output, 'light.png'), await page.screenshot());
  writeFileSync(join(output, 'training.pdf'), await page.pdf());
});

await check('loads dark', 'training', { scheme: 'dark' }, async (page) => {
  const [r] = (await page.run('getComputedStyle(document.body).backgroundColor'))
    .match(/\d+/g)
    .map(Number);
  assert.ok(r < 60, 'a dark ground');
  writeFileSync(join(output, 'dark.png'), await page.screenshot());
  await page.run("document.getElementById('theme').click()");
  const [now] = (await page.run('getComputedStyle(document.body).backgroundColor'))
    .match(/\d+/g)
    .map(Number);
  assert.ok(now > 200, 'the button changes it');
});

await check(
  'fits a phone',
  'training',
  { width: 390, height: 844, isMobile: true },
  async (page) => {
    assert.ok(
      (await page.run('document.documentElement.scrollWidth')) <= 390,
      'nothing hangs over',
    );
    writeFileSync(join(output, 'phone.png'), await page.screenshot());
  },
);

await check('zooms by keys, buttons, wheel and bars', 'training', {}, async (page) => {
  const view = async () => [
    Number(await page.run(data('begin'))),
    Number(await page.run(data('end'))),
  ];
  assert.deepEqual(await view(), [0, known.duration_ns]);
  await page.run(`${kScroll}; ${kFocus}`);
  await page.key('w');
  let [begin, end] = await view();
  assert.ok(Math.abs(end - begin - known.duration_ns * 0.6) < 2);
  await page.key('d');
  const [later] = await view();
  assert.ok(Math.abs(later - begin - (end - begin) * 0.2) < 2);
  await page.key('0');
  assert.deepEqual(await view(), [0, known.duration_ns]);
  const box = await page.run(
    "(() => { const box = document.querySelector('.timeline-scroll').getBoundingClientRect(); return { x: box.x, y: box.y, width: box.width }; })()",
  );
  await page.send('Input.dispatchMouseEvent', {
    type: 'mouseWheel',
    x: box.x + box.width - 60,
    y: box.y + 60,
    deltaX: 0,
    deltaY: -300,
    modifiers: 2,
  });
  await page.settle();
  [begin, end] = await view();
  assert.ok(end - begin < known.duration_ns, 'Ctrl and the wheel zoom');
  assert.ok(begin > known.duration_ns * 0.3, 'at the pointer');
  const iterations = plain(await page.run(text('#iterations')));
  assert.match(iterations, /slow phase: steps 41 to 60.*2\.00.*prep stall grows by 60/);
  assert.match(iterations, /another pace: from step 181 on.*fetch stall grows by 13/);
  // The fourth iteration, by its bar.
  await page.run("document.querySelector('#iterations canvas.chart').focus()");
  for (let i = 0; i < 4; ++i) await page.key('ArrowRight');
  await page.key('Enter');
  await page.settle();
  [begin, end] = await view();
  const { begin_ns: from, end_ns: to } = known.first_iteration;
  assert.ok(
    Math.abs((begin + end) / 2 - (from + to) / 2) < 2 && end - begin < (to - from) * 1.2,
    'a bar shows its iteration',
  );
  await page.run(kScroll);
  await page.settle();
  writeFileSync(join(output, 'zoomed.png'), await page.screenshot(false));
  await page.run(kFocus);
  await page.key(']');
  assert.ok((await view())[0] > begin, 'the next iteration');
});

await check('filters, selects, and tells what an event is', 'training', {}, async (page) => {
  await page.run(kScroll);
  await page.key('/');
  assert.equal(await page.run('document.activeElement.id'), 'timeline-filter');
  await page.send('Input.insertText', { text: 'decode_image' });
  await page.until(`${data('matches')} === '${known.decode_events}'`);
  assert.match(
    plain(await page.run(text('.matches'))),
    new RegExp(`^${String(known.decode_events).replace(/\B(?=(\d{3})+(?!\d))/g, ' ')} of`),
  );
  await page.run(kFocus);
  await page.key('n');
  const details = plain(await page.run(text('.timeline-details')));
  assert.match(details, /^decode_image/);
  assert.match(details, /node0 \/ python train\.py 4700 \/ loader worker/);
  writeFileSync(join(output, 'filtered.png'), await page.screenshot(false));
  await page.key('Escape');
  await page.run(
    "(() => { const input = document.getElementById('timeline-filter'); input.value = ''; input.dispatchEvent(new Event('input')); return true; })()",
  );
  await page.until(`${data('matches')} === '0'`);
  const box = await page.run(
    "(() => { const box = document.querySelector('.timeline-scroll').getBoundingClientRect(); return { x: box.x, y: box.y, width: box.width }; })()",
  );
  await page.mouse('mouseMoved', box.x + 400, box.y + 100);
  await page.mouse('mousePressed', box.x + 400, box.y + 100);
  await page.mouse('mouseMoved', box.x + 500, box.y + 100, { buttons: 1 });
  await page.mouse('mouseMoved', box.x + 600, box.y + 100, { buttons: 1 });
  await page.mouse('mouseReleased', box.x + 600, box.y + 100);
  await page.settle();
  assert.match(await page.run(text('.timeline-details h3')), /selected, from/);
  await page.mouse('mouseMoved', box.x + 300, box.y + 130);
  await page.settle();
  await page.key('?');
  assert.ok(await page.run("document.querySelector('dialog').open"));
});

await check('searches and sorts files', 'training', {}, async (page) => {
  const first = () => page.run("document.querySelector('#files tbody tr td').innerText");
  assert.equal(await first(), '/data/train/shard-096.tar');
  await page.run(
    "[...document.querySelectorAll('#files th button')].find((button) => button.innerText === 'name').click()",
  );
  assert.equal(await first(), '/data/train/shard-000.tar');
  await page.run(
    "(() => { const input = document.querySelector('#files .filter'); input.value = '-042'; input.dispatchEvent(new Event('input')); return true; })()",
  );
  assert.equal(await page.run("document.querySelectorAll('#files tbody tr').length"), 1);
  await page.run(
    "(() => { const input = document.querySelector('#flame .flame .filter'); input.value = 'jpeg'; input.dispatchEvent(new Event('input')); return true; })()",
  );
  const [matched, total] = [
    Number(await page.run("document.querySelector('.flame').dataset.matched")),
    known.sample_ns,
  ];
  assert.ok(matched > 0.38 * total && matched < 0.48 * total, 'three of seven stacks');
});

await check('says how many of how many events it draws', 'thinned', {}, async (page) => {
  const note = plain(await page.run(text('#timeline .note')));
  const [, kept] = /^([\d ]+) of ([\d ]+) events are drawn/.exec(note) ?? assert.fail(note);
  const number = Number(kept.replace(/ /g, ''));
  assert.ok(number <= 4000 + 60 && number > 3000, `${number} kept`);
  assert.match(plain(await page.run(text('#configuration'))), /whole/);
});

await check('compares two recordings, signed', 'compared', {}, async (page) => {
  const rows = plain(await page.run(text('#comparison table')));
  assert.match(rows, /prep stall\s+8\.40 ms\s+17\.0 ms\s+\+8\.60 ms/);
  assert.match(rows, /filemap_read\s+9\.10 ms\s+6\.20 ms\s+\u22122\.90 ms/);
  // The leftmost function of the fourth line had a seventh of the samples, and has three now.
  await page.run(
    "document.querySelector('.flame-scroll').scrollIntoView({ block: 'center' }); true",
  );
  await page.settle();
  const box = await page.run(
    "(() => { const box = document.querySelector('.flame-scroll canvas').getBoundingClientRect(); return { x: box.x, y: box.y }; })()",
  );
  await page.mouse('mouseMoved', box.x + 40, box.y + 18 * 3 + 8);
  await page.settle();
  const words = plain(await page.run(text('.tooltip')));
  assert.match(words, /^jpeg_idct_islow/);
  const [, points] = /share\s+\+([\d.]+) points/.exec(words) ?? assert.fail(words);
  assert.ok(Math.abs(Number(points) - 100 * (2 / 7)) < 3, words);
  await page.run('window.scrollTo(0, 0); true');
  writeFileSync(join(output, 'compared.png'), await page.screenshot());
});

await check('shows hostile names as text', 'hostile', {}, async (page) => {
  await page.run(`${kScroll}; ${kFocus}`);
  for (let i = 0; i < 4; ++i) await page.key('w');
  const box = await page.run(
    "(() => { const box = document.querySelector('.timeline-scroll').getBoundingClientRect(); return { x: box.x, y: box.y, width: box.width, height: box.height }; })()",
  );
  for (let y = 10; y < box.height; y += 24) {
    await page.mouse('mouseMoved', box.x + box.width / 2, box.y + y);
    await page.click(box.x + box.width / 2, box.y + y);
  }
  await page.run(
    "document.querySelectorAll('.chip').forEach((chip) => chip.click()); document.querySelectorAll('details').forEach((one) => { one.open = true; }); true",
  );
  await page.settle();
  assert.equal(await page.run('window.hacked'), undefined);
  assert.equal(
    await page.run(
      "document.querySelectorAll('#app img, body > img, #app script, #app iframe').length",
    ),
    0,
  );
  assert.equal(await page.run('document.scripts.length'), 1);
  assert.match(await page.run(text('h1')), /<img src=x onerror=window\.hacked=1><\/script>/);
  assert.match(await page.run('document.title'), /^<\/title><script>/);
  assert.ok(
    (await page.run("document.body.innerText.includes('U+202E')")) &&
      !(await page.run("document.body.innerText.includes('\\u202e')")),
    'what turns text around is spelled out',
  );
  assert.ok(
    (await page.run('document.documentElement.scrollWidth')) <= 1280,
    'a long name stays inside',
  );
  // Even a script of its own would not run: the policy of the page names its one script.
  await page.run(
    "(() => { const one = document.createElement('script'); one.textContent = 'window.hacked = 2'; document.body.appendChild(one); return true; })()",
  );
  assert.equal(await page.run('window.hacked'), undefined);
  assert.ok(
    page.problems.length > 0 &&
      page.problems.every((problem) => /Content Security Policy/.test(problem)),
    'the policy says so',
  );
  page.problems.length = 0;
  const refused = await page.run(
    "fetch('http://127.0.0.1:9/').then(() => 'sent', () => 'refused')",
  );
  assert.equal(refused, 'refused');
  await page.settle();
  page.problems.length = 0;
  page.requests.length = 0;
  await page.run('window.scrollTo(0, 0); true');
  writeFileSync(join(output, 'hostile.png'), await page.screenshot());
});

await browser.close();
console.log(
  failures === 0
    ? `all passed; pictures in ${output}`
    : `${failures} failed; pictures in ${output}`,
);
process.exit(failures === 0 ? 0 : 1);
