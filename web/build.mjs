// Bundles src/ into one script and one style sheet, and writes them as page_assets.cc.
// usage: node build.mjs FOLDER      FOLDER/node_modules holds esbuild
import { createHash } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const folder = resolve(process.argv[2] ?? '.');
const source = dirname(fileURLToPath(import.meta.url));
const { build } = createRequire(join(folder, 'package.json'))('esbuild');

async function bundle(entry, options) {
  const result = await build({
    entryPoints: [join(source, 'src', entry)],
    bundle: true,
    minify: true,
    write: false,
    legalComments: 'none',
    charset: 'ascii',
    logLevel: 'warning',
    ...options,
  });
  return result.outputFiles[0].text;
}

// The words that would end the elements that hold them.
const script = (await bundle('main.ts', { format: 'iife', target: 'es2021' }))
  .replaceAll(/<\/(script)/gi, '<\\/$1')
  .replaceAll('<!--', '\\x3c!--');
const style = await bundle('style.css', { target: 'chrome100' });
if (/<\/style/i.test(style)) throw new Error('the style sheet would end its own element');

const sha256 = (text) => createHash('sha256').update(text, 'utf8').digest('base64');

// Numbers, not a string literal: compilers bound the length of those.
function array(name, text) {
  const bytes = Buffer.from(text, 'utf8');
  const lines = [];
  for (let at = 0; at < bytes.length; at += 32) lines.push(bytes.subarray(at, at + 32).join(','));
  return `constexpr unsigned char ${name}[] = {\n${lines.join(',\n')}};\n`;
}

writeFileSync(
  join(folder, 'page_assets.cc'),
  `// Made by web/build.mjs.
#include "report/page_assets.h"

namespace forebay::report {
namespace {

${array('kScript', script)}
${array('kStyle', style)}
std::string_view text_of(const unsigned char* bytes, unsigned long size) {
  return {reinterpret_cast<const char*>(bytes), size};
}

}  // namespace

const PageAssets& page_assets() {
  static const PageAssets kAssets{.script = text_of(kScript, sizeof(kScript)),
                                  .style = text_of(kStyle, sizeof(kStyle)),
                                  .script_sha256 = "${sha256(script)}",
                                  .style_sha256 = "${sha256(style)}",
                                  .missing = {}};
  return kAssets;
}

}  // namespace forebay::report
`,
);
