// Elements without markup: every text goes in as text.

export type Child = Node | string | number | null | undefined | false;

interface Properties {
  class?: string;
  title?: string;
  id?: string;
  href?: string;
  on?: Partial<Record<keyof HTMLElementEventMap, (event: Event) => void>>;
  attributes?: Record<string, string>;
}

export function el<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  properties: Properties | string = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  const given = typeof properties === 'string' ? { class: properties } : properties;
  if (given.class) element.className = given.class;
  if (given.title) element.title = given.title;
  if (given.id) element.id = given.id;
  if (given.href) element.setAttribute('href', given.href);
  for (const [name, value] of Object.entries(given.attributes ?? {}))
    element.setAttribute(name, value);
  for (const [name, handler] of Object.entries(given.on ?? {}))
    element.addEventListener(name, handler as EventListener);
  add(element, ...children);
  return element;
}

export function add(parent: Node, ...children: Child[]): void {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    parent.appendChild(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

/** A section of the page with its heading; the navigation lists it. */
export function section(id: string, title: string, note: Child, ...children: Child[]): HTMLElement {
  const heading = el('h2', {}, title);
  return el(
    'section',
    { id, attributes: { 'aria-label': title } },
    el('header', 'section-head', heading, note ? el('p', 'note', note) : null),
    ...children,
  );
}

/** A canvas as sharp as the screen. */
export function sizeCanvas(
  canvas: HTMLCanvasElement,
  width: number,
  height: number,
): CanvasRenderingContext2D {
  const ratio = window.devicePixelRatio || 1;
  const w = Math.max(1, Math.round(width * ratio));
  const h = Math.max(1, Math.round(height * ratio));
  if (canvas.width !== w || canvas.height !== h) {
    canvas.width = w;
    canvas.height = h;
  }
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext('2d')!;
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return context;
}

/** A box beside the pointer. One for the whole page. */
export class Tooltip {
  private readonly box = el('div', { class: 'tooltip', attributes: { role: 'status' } });
  constructor() {
    document.body.appendChild(this.box);
    this.hide();
  }
  show(x: number, y: number, title: string, rows: [string, string][]): void {
    this.box.replaceChildren(el('strong', {}, title));
    if (rows.length > 0) {
      const list = el('dl');
      for (const [name, value] of rows) add(list, el('dt', {}, name), el('dd', {}, value));
      this.box.appendChild(list);
    }
    this.box.style.display = 'block';
    const { width, height } = this.box.getBoundingClientRect();
    const left = x + 14 + width > window.innerWidth ? Math.max(4, x - width - 14) : x + 14;
    const top = y + 16 + height > window.innerHeight ? Math.max(4, y - height - 12) : y + 16;
    this.box.style.transform = `translate(${Math.round(left)}px, ${Math.round(top)}px)`;
  }
  hide(): void {
    this.box.style.display = 'none';
  }
}
