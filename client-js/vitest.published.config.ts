import { fileURLToPath } from "node:url";

import { defineConfig } from "vitest/config";

/** `npm run test:published`: the published packages, and Next.js, in a browser. Slow, so not among the others. */
export default defineConfig({
  resolve: {
    alias: [{ find: /^memlane$/, replacement: fileURLToPath(new URL("dist/index.js", import.meta.url)) }],
  },
  test: {
    include: ["test/published/*.test.ts"],
    globalSetup: ["test/published/build.ts"],
    env: { COPILOTKIT_TELEMETRY_DISABLED: "true" },
    testTimeout: 120_000,
    hookTimeout: 120_000,
    maxWorkers: 2,
  },
});
