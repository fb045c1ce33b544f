// Builds static/vendor/ from the packages that package-lock.json pins.
import { build } from "esbuild";
import { copyFile, mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { resolve } from "node:path";

const vendor = "../vendor";
await rm(`${vendor}/licences`, { recursive: true, force: true });
await mkdir(`${vendor}/licences`, { recursive: true });

// plotly.js loads parts that no figure of ours reaches, and describes every attribute for its documentation.
const unused = {
  selections: "const none = () => {}; module.exports = { prepSelect: none, selectOnClick: none, clearOutline: none, clearSelectionsCache: none };",
  modebar: "module.exports = { manage: () => {} };",
};
const lists = /^\s*description: \[[\s\S]*?\]\s*\.join\([^)]*\),?\s*$/gm;
const lines = /^\s*description:\s*(['"`]).*\1,?\s*$/gm;
const cutPlotly = {
  name: "cut-plotly",
  setup(building) {
    building.onResolve({ filter: /^culori$/ }, () => ({ path: resolve("colours.js") }));
    building.onLoad({ filter: /plotly\.js\/src\/components\/(selections|modebar)\/index\.js$/ }, ({ path }) => ({
      contents: unused[path.split("/").at(-2)],
    }));
    building.onLoad({ filter: /plotly\.js\/src\/fonts\/ploticon\.js$/ }, () => ({ contents: "module.exports = {};" }));
    building.onLoad({ filter: /\.css$/ }, () => ({ contents: "" }));
    building.onLoad({ filter: /plotly\.js\/src\/.*\.js$/ }, async ({ path }) => ({
      contents: (await readFile(path, "utf8")).replace(lists, "").replace(lines, ""),
    }));
  },
};

const shared = { bundle: true, minify: true, target: "es2021", legalComments: "none", metafile: true, logLevel: "warning" };
const built = {
  "editor.js": await build({ ...shared, entryPoints: ["editor.js"], format: "esm", outfile: `${vendor}/editor.js` }),
  "plotly.js": await build({
    ...shared,
    entryPoints: ["plots.js"],
    format: "iife",
    define: { global: "window", "define.amd": "false" },
    plugins: [cutPlotly],
    outfile: `${vendor}/plotly.js`,
  }),
};
await copyFile("node_modules/htmx.org/dist/htmx.min.js", `${vendor}/htmx.js`);

const packagesOf = ({ metafile }) => {
  const parts = Object.values(metafile.outputs).flatMap(({ inputs }) => Object.entries(inputs));
  const names = parts
    .filter(([path, { bytesInOutput }]) => bytesInOutput > 0 && /^node_modules\/.*js$/.test(path))
    .map(([path]) => path.match(/.*node_modules\/((?:@[^/]+\/)?[^/]+)/)[1]);
  return [...new Set(names)].sort();
};
const shipped = {
  "editor.js": packagesOf(built["editor.js"]),
  "htmx.js": ["htmx.org"],
  "plotly.js": packagesOf(built["plotly.js"]),
};
const about = [
  "# Vendored front-end code",
  "",
  "Built by `npm ci && npm run build` in `static/src/` from the versions that its lockfile pins; nothing here is edited",
  "by hand, and nothing is loaded from anywhere else. `plotly.js` is the part of that library that our figures use. The",
  "licence texts lie in `licences/`.",
  "",
  "| File | Package | Version | Licence |",
  "| --- | --- | --- | --- |",
];
for (const [file, packages] of Object.entries(shipped)) {
  for (const name of packages) {
    const { version, license, author } = JSON.parse(await readFile(`node_modules/${name}/package.json`, "utf8"));
    about.push(`| ${file} | ${name} | ${version} | ${license} |`);
    const text = (await readdir(`node_modules/${name}`)).find((entry) => /^licen[cs]e/i.test(entry));
    const kept = `${vendor}/licences/${name.replaceAll("/", "_").replace("@", "")}.txt`;
    if (text) await copyFile(`node_modules/${name}/${text}`, kept);
    else await writeFile(kept, `${name} ${version} by ${author?.name ?? author}: ${license}, as its package.json says.\n`);
  }
}
await writeFile(`${vendor}/README.md`, `${about.join("\n")}\n`);
