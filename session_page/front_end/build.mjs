// Builds session_page/bundle from src: one classic script and one style sheet. `--check` compares with the files that
// are there instead, and `--out FOLDER` writes elsewhere. The types of the session's JSON come from its documentation.
import { build } from "esbuild";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

const here = dirname(fileURLToPath(import.meta.url));
const LIMIT = 250_000; // bytes of both files, gzipped
const arguments_ = process.argv.slice(2);
const check = arguments_.includes("--check");
const out = arguments_.includes("--out") ? arguments_[arguments_.indexOf("--out") + 1] : join(here, "..", "bundle");

async function sessionTypes() {
  const page = await readFile(join(here, "..", "..", "docs", "session-json.md"), "utf8");
  const blocks = [...page.matchAll(/^```ts\n([\s\S]*?)^```$/gm)].map((match) => match[1]);
  const head = "// Generated from docs/session-json.md by build.mjs; do not edit.\n\n";
  return head + blocks.map((block) => block.replace(/^interface/gm, "export interface")).join("\n");
}

async function licences() {
  const { dependencies } = JSON.parse(await readFile(join(here, "package.json"), "utf8"));
  const texts = [];
  for (const name of Object.keys(dependencies).sort()) {
    const folder = join(here, "node_modules", name);
    const { version } = JSON.parse(await readFile(join(folder, "package.json"), "utf8"));
    texts.push(`${name} ${version}\n\n${(await readFile(join(folder, "LICENSE"), "utf8")).trim()}`);
  }
  return `/*! The page of a Rewindow session. It contains these libraries:\n\n${texts.join("\n\n---\n\n")}\n*/`;
}

async function bundle() {
  const result = await build({
    absWorkingDir: here,
    entryPoints: { page: "src/main.tsx" },
    bundle: true,
    minify: true,
    format: "iife",
    target: ["es2022"],
    charset: "ascii",
    jsx: "automatic",
    jsxImportSource: "preact",
    legalComments: "none",
    banner: { js: await licences() },
    outdir: "out",
    write: false,
    logLevel: "warning",
  });
  return Object.fromEntries(result.outputFiles.map((file) => [file.path.split("/").at(-1), file.text]));
}

async function compareOrWrite(path, text) {
  if (!check) {
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, text);
    return true;
  }
  const old = await readFile(path, "utf8").catch(() => "");
  if (old !== text) console.error(`${path} is out of date: run \`make page\``);
  return old === text;
}

let fresh = await compareOrWrite(join(here, "src", "session_json.ts"), await sessionTypes());
const files = await bundle();
const size = Object.values(files).reduce((sum, text) => sum + gzipSync(text).length, 0);
for (const [name, text] of Object.entries(files)) fresh = (await compareOrWrite(join(out, name), text)) && fresh;
if (/<\/script|<!--/i.test(files["page.js"]) || /<\/style/i.test(files["page.css"])) {
  console.error("the bundle contains text that ends its element in a page");
  fresh = false;
}
if (size > LIMIT) {
  console.error(`the bundle has ${size} bytes gzipped, of at most ${LIMIT}`);
  fresh = false;
}
if (!fresh) process.exit(1);
console.log(`${Object.keys(files).join(", ")}: ${size} bytes gzipped`);
