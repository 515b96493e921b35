// The list of keys.

import { el } from './dom.ts';

const kKeys: [string, string][] = [
  ['W  S   or   +  \u2212', 'zoom the timeline in, out'],
  ['A  D   or   \u2190  \u2192', 'move it left, right'],
  ['\u2191  \u2193', 'scroll its tracks'],
  ['0', 'the whole recording'],
  ['F', 'zoom to what is selected'],
  ['[  ]', 'previous, next iteration'],
  ['/', 'filter events by name'],
  ['N  P', 'next, previous event that matches'],
  ['Esc', 'forget the selection, the filter'],
  ['Ctrl + wheel', 'zoom at the pointer'],
  ['Shift + drag', 'move'],
  ['T', 'light or dark'],
];

export function helpDialog(): HTMLDialogElement {
  const close = el('button', { attributes: { type: 'button' } }, 'close');
  const dialog = el(
    'dialog',
    { attributes: { 'aria-label': 'keys' } },
    el('h2', {}, 'Keys'),
    el(
      'p',
      'note',
      'Those of the timeline work while it has the focus: click it, or move to it with Tab.',
    ),
    el('dl', 'keys', ...kKeys.flatMap(([keys, what]) => [el('dt', {}, keys), el('dd', {}, what)])),
    close,
  );
  close.addEventListener('click', () => dialog.close());
  return dialog;
}
