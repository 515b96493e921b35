// Headless Chromium by its debugging protocol, on a loopback port that it chooses itself.
import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export function findChromium() {
  const folders = (process.env.PATH ?? '').split(':');
  for (const name of ['chromium', 'chromium-browser', 'google-chrome'])
    for (const folder of folders) if (existsSync(join(folder, name))) return join(folder, name);
  return null;
}

export class Chromium {
  /** `modules`: a folder whose node_modules hold ws. */
  static async start(program, modules) {
    const WebSocket = createRequire(join(modules, 'package.json'))('ws');
    const profile = mkdtempSync(join(tmpdir(), 'forebay-page-'));
    const child = spawn(
      program,
      [
        '--headless=new',
        '--no-sandbox',
        '--disable-gpu',
        '--disable-dev-shm-usage',
        '--no-first-run',
        '--disable-extensions',
        '--disable-background-networking',
        '--disable-component-update',
        '--disable-sync',
        '--no-proxy-server',
        '--host-resolver-rules=MAP * ~NOTFOUND',
        '--remote-debugging-address=127.0.0.1',
        '--remote-debugging-port=0',
        `--user-data-dir=${profile}`,
        'about:blank',
      ],
      { stdio: ['ignore', 'ignore', 'pipe'] },
    );
    const address = await new Promise((resolve, reject) => {
      let text = '';
      const late = setTimeout(() => reject(new Error(`Chromium did not start: ${text}`)), 60_000);
      child.stderr.on('data', (piece) => {
        text += piece;
        const match = /DevTools listening on (ws:\S+)/.exec(text);
        if (match) {
          clearTimeout(late);
          resolve(match[1]);
        }
      });
      child.on('exit', (code) => reject(new Error(`Chromium ended with ${code}: ${text}`)));
    });
    const socket = new WebSocket(address, { perMessageDeflate: false, maxPayload: 1 << 30 });
    await new Promise((resolve, reject) => {
      socket.on('open', resolve);
      socket.on('error', reject);
    });
    return new Chromium(child, socket, profile);
  }

  constructor(child, socket, profile) {
    Object.assign(this, { child, socket, profile, next: 1, waiting: new Map(), listeners: [] });
    socket.on('message', (data) => {
      const message = JSON.parse(data.toString());
      if (message.id) {
        const { resolve, reject } = this.waiting.get(message.id);
        this.waiting.delete(message.id);
        if (message.error) reject(new Error(message.error.message));
        else resolve(message.result);
      } else {
        for (const listener of this.listeners) listener(message);
      }
    });
  }

  send(method, params = {}, sessionId = undefined) {
    const id = this.next++;
    this.socket.send(JSON.stringify({ id, method, params, sessionId }));
    return new Promise((resolve, reject) => this.waiting.set(id, { resolve, reject }));
  }

  async open(
    address,
    { width = 1280, height = 800, scale = 1, isMobile = false, scheme = 'light' } = {},
  ) {
    const { targetId } = await this.send('Target.createTarget', { url: 'about:blank' });
    const { sessionId } = await this.send('Target.attachToTarget', { targetId, flatten: true });
    const page = new Page(this, sessionId, targetId);
    for (const domain of ['Page', 'Runtime', 'Network', 'Log']) await page.send(`${domain}.enable`);
    await page.send('Emulation.setDeviceMetricsOverride', {
      width,
      height,
      deviceScaleFactor: scale,
      mobile: isMobile,
    });
    if (isMobile) await page.send('Emulation.setTouchEmulationEnabled', { enabled: true });
    await page.send('Emulation.setEmulatedMedia', {
      features: [
        { name: 'prefers-color-scheme', value: scheme },
        { name: 'prefers-reduced-motion', value: 'reduce' },
      ],
    });
    // What moves after it was painted once.
    await page.send('Page.addScriptToEvaluateOnNewDocument', {
      source: `window.layoutShift = 0; new PerformanceObserver((list) => { for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.layoutShift += entry.value; }).observe({ type: 'layout-shift', buffered: true });`,
    });
    await page.send('Page.navigate', { url: address });
    await page.until("document.documentElement?.dataset.ready === 'true'", 60_000);
    return page;
  }

  async close() {
    const ended = new Promise((resolve) => this.child.on('exit', resolve));
    await this.send('Browser.close').catch(() => {});
    const late = setTimeout(() => this.child.kill('SIGKILL'), 5000);
    await ended;
    clearTimeout(late);
    this.socket.close();
    rmSync(this.profile, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
  }
}

class Page {
  constructor(browser, sessionId, targetId) {
    Object.assign(this, { browser, sessionId, targetId, problems: [], requests: [] });
    browser.listeners.push((message) => {
      if (message.sessionId === sessionId) this.hear(message);
    });
  }

  hear({ method, params }) {
    if (method === 'Runtime.exceptionThrown')
      this.problems.push(
        params.exceptionDetails.exception?.description ?? params.exceptionDetails.text,
      );
    else if (
      method === 'Runtime.consoleAPICalled' &&
      ['error', 'warning', 'assert'].includes(params.type)
    )
      this.problems.push(
        `console: ${params.args.map((arg) => arg.value ?? arg.description).join(' ')}`,
      );
    else if (method === 'Log.entryAdded' && ['error', 'warning'].includes(params.entry.level))
      this.problems.push(`log: ${params.entry.text}`);
    else if (
      method === 'Network.requestWillBeSent' &&
      !/^(file|data|blob|about):/.test(params.request.url)
    )
      this.requests.push(params.request.url);
  }

  send(method, params) {
    return this.browser.send(method, params, this.sessionId);
  }

  async run(expression) {
    const { result, exceptionDetails } = await this.send('Runtime.evaluate', {
      expression,
      awaitPromise: true,
      returnByValue: true,
    });
    if (exceptionDetails)
      throw new Error(
        `${expression}: ${exceptionDetails.exception?.description ?? exceptionDetails.text}`,
      );
    return result.value;
  }

  async until(expression, limitMs = 10_000) {
    const end = Date.now() + limitMs;
    for (;;) {
      if (await this.run(expression)) return;
      if (Date.now() > end)
        throw new Error(`never true: ${expression}; ${this.problems.join('; ')}`);
      await new Promise((resolve) => setTimeout(resolve, 25));
    }
  }

  /** Two frames: what was asked for is drawn. */
  settle() {
    return this.run(
      'new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(() => resolve(true))))',
    );
  }

  async key(key) {
    const text = key.length === 1 ? key : undefined;
    await this.send('Input.dispatchKeyEvent', { type: 'keyDown', key, text });
    await this.send('Input.dispatchKeyEvent', { type: 'keyUp', key });
    await this.settle();
  }

  async mouse(type, x, y, more = {}) {
    await this.send('Input.dispatchMouseEvent', {
      type,
      x,
      y,
      button: type === 'mouseMoved' ? 'none' : 'left',
      clickCount: 1,
      ...more,
    });
  }

  async click(x, y) {
    await this.mouse('mouseMoved', x, y);
    await this.mouse('mousePressed', x, y);
    await this.mouse('mouseReleased', x, y);
    await this.settle();
  }

  async screenshot(isWhole = true) {
    const { data } = await this.send('Page.captureScreenshot', {
      format: 'png',
      captureBeyondViewport: isWhole,
      ...(isWhole ? { clip: await this.wholeClip() } : {}),
    });
    return Buffer.from(data, 'base64');
  }

  async wholeClip() {
    const { cssContentSize } = await this.send('Page.getLayoutMetrics');
    return {
      x: 0,
      y: 0,
      width: cssContentSize.width,
      height: Math.min(cssContentSize.height, 12_000),
      scale: 1,
    };
  }

  async pdf() {
    const { data } = await this.send('Page.printToPDF', { printBackground: true });
    return Buffer.from(data, 'base64');
  }

  async close() {
    await this.browser.send('Target.closeTarget', { targetId: this.targetId });
  }
}
