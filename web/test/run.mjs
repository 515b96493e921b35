// Runs the unit tests or the type checker. FOLDER/node_modules holds esbuild and typescript.
// usage: node run.mjs FOLDER units|types      exit 77: skipped
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const folder = resolve(process.argv[2] ?? '.');
const source = dirname(fileURLToPath(import.meta.url));
if (!existsSync(join(folder, 'node_modules/esbuild'))) {
  console.log('skipped: npm could not install what builds the page');
  process.exit(77);
}

function run(words) {
  process.exit(spawnSync(process.execPath, words, { stdio: 'inherit' }).status ?? 1);
}

if (process.argv[3] === 'types')
  run([
    join(folder, 'node_modules/typescript/bin/tsc'),
    '--project',
    join(source, '..'),
    '--noEmit',
  ]);

const { buildSync } = createRequire(join(folder, 'package.json'))('esbuild');
const out = join(folder, 'unit');
mkdirSync(out, { recursive: true });
const names = readdirSync(source).filter((name) => name.endsWith('.test.mjs'));
buildSync({
  entryPoints: names.map((name) => join(source, name)),
  bundle: true,
  platform: 'node',
  format: 'esm',
  outdir: out,
  outExtension: { '.js': '.mjs' },
  logLevel: 'warning',
});
run(['--test', ...names.map((name) => join(out, name))]);
