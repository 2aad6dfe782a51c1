// Builds the page into ../src/palestra/viewer/static: unminified, and the same bytes in every folder.

import { build } from "esbuild";
import { copyFile, mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const out = process.argv[2] ?? join(here, "../src/palestra/viewer/static");
const MOST_BYTES = 500_000;
const LICENCES = new Set(["MIT", "BSD-3-Clause", "ISC", "Apache-2.0"]);

/** Names and licence texts of the packages that end up in the bundle. */
const thirdParty = async (inputs) => {
  const names = new Set();
  for (const path of Object.keys(inputs)) {
    const match = /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path);
    if (match) names.add(match[1]);
  }
  const parts = [];
  for (const name of [...names].sort()) {
    const folder = join(here, "node_modules", name);
    const { license, version } = JSON.parse(await readFile(join(folder, "package.json"), "utf8"));
    if (!LICENCES.has(license)) throw new Error(`${name} has the licence ${license}, which is not on the list`);
    const text = await readFile(join(folder, "LICENSE"), "utf8");
    parts.push(`${name} ${version} (${license})\n\n${text.trim()}\n`);
  }
  return `The page of \`palestra view\` contains these packages.\n\n${parts.join(`\n${"-".repeat(70)}\n\n`)}`;
};

await mkdir(out, { recursive: true });
const result = await build({
  absWorkingDir: here,
  entryPoints: { viewer: "src/main.tsx", theme: "src/theme.ts" },
  outdir: out,
  bundle: true,
  format: "iife",
  target: "es2022",
  charset: "utf8",
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "none",
  logLevel: "warning",
  metafile: true,
});
await writeFile(join(out, "THIRD_PARTY.txt"), await thirdParty(result.metafile.inputs));
await copyFile(join(here, "src/index.html"), join(out, "index.html"));
const size = Object.values(result.metafile.outputs).reduce((sum, file) => sum + file.bytes, 0);
console.log(`${out}: ${size.toLocaleString("en-US")} bytes`);
if (size > MOST_BYTES) throw new Error(`the page has ${size} bytes; at most ${MOST_BYTES} are allowed`);
