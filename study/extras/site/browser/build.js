/** Builds ../static/check.js from these sources, with the licences of what it holds. */

import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { build } from "esbuild";

const OUT = "../static/check";
const sources = readdirSync(".")
  .filter((name) => /\.(js|json)$/.test(name))
  .sort();
const lines = sources.map(
  (name) => `${createHash("sha256").update(readFileSync(name)).digest("hex")}  ${name}\n`,
);
const digest = createHash("sha256").update(lines.join("")).digest("hex");
const result = await build({
  entryPoints: ["page.js"],
  bundle: true,
  minify: true,
  format: "iife",
  target: "es2022",
  charset: "utf8",
  legalComments: "none",
  metafile: true,
  banner: {
    js: `/* dosimeter: check in the browser. Sources: study/extras/site/browser, sha256:${digest}. Licences: check.licences.txt */`,
  },
  outfile: `${OUT}.js`,
});
const packages = new Set(
  Object.keys(result.metafile.inputs)
    .map((path) => /node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(path)?.[1])
    .filter(Boolean),
);
const licences = [...packages].sort().map((name) => {
  const folder = `node_modules/${name}`;
  const { version, license, homepage } = JSON.parse(readFileSync(`${folder}/package.json`));
  const file = ["LICENSE", "LICENSE.md"].find((each) => existsSync(`${folder}/${each}`));
  return `${name} ${version} (${license}), ${homepage}\n\n${readFileSync(`${folder}/${file}`, "utf8").trim()}\n`;
});
writeFileSync(
  `${OUT}.licences.txt`,
  `check.js holds these packages.\n\n${licences.join(`\n${"-".repeat(72)}\n\n`)}`,
);
