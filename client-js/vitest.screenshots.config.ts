import { defineConfig } from "vitest/config";

/** `make screenshots`: the console in each of its states, to be looked at. */
export default defineConfig({
  test: {
    include: ["test/screenshots/*.ts"],
    globalSetup: ["test/support/service.ts"],
    testTimeout: 60_000,
    hookTimeout: 60_000,
  },
});
