// Builds static/vendor/ from the packages that package-lock.json pins.
import { build } from "esbuild";
import { copyFile, mkdir, readFile, writeFile } from "node:fs/promises";

const vendor = "../vendor";
await mkdir(`${vendor}/licences`, { recursive: true });

await build({
  entryPoints: ["editor.js"],
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2021",
  legalComments: "none",
  outfile: `${vendor}/editor.js`,
});

const copies = {
  "node_modules/htmx.org/dist/htmx.min.js": "htmx.js",
  "node_modules/plotly.js-basic-dist-min/plotly-basic.min.js": "plotly-basic.js",
};
for (const [from, to] of Object.entries(copies)) await copyFile(from, `${vendor}/${to}`);

const shipped = {
  "editor.js": [
    "@codemirror/autocomplete", "@codemirror/commands", "@codemirror/lang-cpp", "@codemirror/lang-python",
    "@codemirror/language", "@codemirror/search", "@codemirror/state", "@codemirror/view", "@lezer/common",
    "@lezer/cpp", "@lezer/highlight", "@lezer/lr", "@lezer/python", "@marijn/find-cluster-break", "crelt", "style-mod",
    "w3c-keyname",
  ],
  "htmx.js": ["htmx.org"],
  "plotly-basic.js": ["plotly.js-basic-dist-min"],
};
const lines = [
  "# Vendored front-end code",
  "",
  "Built by `npm ci && npm run build` in `static/src/` from the versions that its lockfile pins; nothing here is edited",
  "by hand, and nothing is loaded from anywhere else. The licence texts lie in `licences/`.",
  "",
  "| File | Package | Version | Licence |",
  "| --- | --- | --- | --- |",
];
for (const [file, packages] of Object.entries(shipped)) {
  for (const name of packages) {
    const about = JSON.parse(await readFile(`node_modules/${name}/package.json`, "utf8"));
    lines.push(`| ${file} | ${name} | ${about.version} | ${about.license} |`);
    const licence = `${vendor}/licences/${name.replaceAll("/", "_").replace("@", "")}.txt`;
    await copyFile(`node_modules/${name}/LICENSE`, licence);
  }
}
await writeFile(`${vendor}/README.md`, `${lines.join("\n")}\n`);
