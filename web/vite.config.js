import { appendFileSync, readdirSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { defineConfig } from "vite";

const entries = join(import.meta.dirname, "src/entries");

// an entry an island, by the name of its file: templates say island("timeline")
const input = Object.fromEntries(readdirSync(entries).map((file) => [basename(file, ".ts"), join(entries, file)]));

const LICENSES = "licenses.md";

// the Apache licence asks that a NOTICE goes along
const notices = {
  name: "notices",
  writeBundle({ dir }) {
    const modules = join(import.meta.dirname, "node_modules");
    for (const name of ["echarts"]) {
      appendFileSync(join(dir, LICENSES), `\n## NOTICE of ${name}\n\n${readFileSync(join(modules, name, "NOTICE"), "utf8").trim()}\n`);
    }
  },
};

export default defineConfig({
  root: import.meta.dirname,
  base: "/static/dist/",
  publicDir: false,
  plugins: [notices],
  build: {
    outDir: "../service/web/static/dist",
    emptyOutDir: true,
    assetsDir: "",
    manifest: "manifest.json",
    license: { fileName: LICENSES },
    sourcemap: false,
    chunkSizeWarningLimit: 600, // kB: ECharts, which comes on demand
    modulePreload: { polyfill: false },
    rolldownOptions: { input },
  },
});
