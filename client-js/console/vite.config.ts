import { fileURLToPath } from "node:url";

import { defineConfig } from "vite";

const source = (name: string): string => fileURLToPath(new URL(`../src/${name}`, import.meta.url));

export default defineConfig({
  base: "./",
  esbuild: { jsx: "automatic" },
  resolve: {
    alias: [
      { find: /^memlane\/react$/, replacement: source("react.ts") },
      { find: /^memlane$/, replacement: source("index.ts") },
    ],
  },
  build: { outDir: "dist", emptyOutDir: true, sourcemap: false, modulePreload: { polyfill: false } },
});
