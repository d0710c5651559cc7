import { readdirSync } from "node:fs";
import { basename, join } from "node:path";
import { defineConfig } from "vite";

const entries = join(import.meta.dirname, "src/entries");

// an entry an island, by the name of its file: templates say island("timeline")
const input = Object.fromEntries(readdirSync(entries).map((file) => [basename(file, ".ts"), join(entries, file)]));

export default defineConfig({
  root: import.meta.dirname,
  base: "/static/dist/",
  publicDir: false,
  build: {
    outDir: "../service/web/static/dist",
    emptyOutDir: true,
    assetsDir: "",
    manifest: "manifest.json",
    license: { fileName: "licenses.md" },
    sourcemap: false,
    modulePreload: { polyfill: false },
    rolldownOptions: { input },
  },
});
