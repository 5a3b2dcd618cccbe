// Formats the Lua files, or checks that they are formatted: node stylua.mjs MODULE [--write] FILE…
// MODULE is the directory of the npm package @johnnymorganz/stylua (which is WebAssembly).
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";

const [module, ...rest] = process.argv.slice(2);
const write = rest[0] === "--write";
const files = write ? rest.slice(1) : rest;
const stylua = createRequire(import.meta.url)(`${module}/stylua_lib_node.cjs`);

// `formatCode` takes the configuration away.
function configuration() {
  const config = stylua.Config.new();
  config.column_width = 100;
  config.indent_type = stylua.IndentType.Spaces;
  config.indent_width = 2;
  config.quote_style = stylua.QuoteStyle.AutoPreferSingle;
  return config;
}

let unformatted = 0;
for (const file of files) {
  const before = readFileSync(file, "utf8");
  const after = stylua.formatCode(before, configuration(), undefined, stylua.OutputVerification.None);
  if (after === before) continue;
  if (write) writeFileSync(file, after);
  else {
    unformatted += 1;
    console.error(`${file}: not formatted; run tests/nvim.sh --format`);
  }
}
process.exit(unformatted === 0 ? 0 : 1);
