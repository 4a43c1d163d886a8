import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { codeOf } from "./support/docs.js";
import { browserBundle } from "../scripts/bundle.mjs";

/** What only the server's part may contain. */
const KEY_HANDLING = /cpk-|apiKey|Bearer |X-Cpki/;

const root = fileURLToPath(new URL("..", import.meta.url));
/** The version that this package is tested with. */
const versionOf = (name: string) =>
  (JSON.parse(readFileSync(join(root, "node_modules", name, "package.json"), "utf8")) as { version: string }).version;
const run = (command: string, args: string[], cwd = root) => execFileSync(command, args, { cwd, encoding: "utf8" });

/** The app of somebody who has installed what npm would publish. */
let folder: string;
let published: string[];

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "memlane-app-"));
  const [{ filename, files }] = JSON.parse(
    run("npm", ["pack", "--json", "--ignore-scripts", "--pack-destination", folder]),
  ) as [{ filename: string; files: { path: string }[] }];
  published = files.map((file) => file.path);
  writeFileSync(join(folder, "package.json"), '{"type":"module","private":true}');
  const types = ["react", "node"].map((name) => `@types/${name}@${versionOf(`@types/${name}`)}`);
  const wanted = [`./${filename}`, `react@${versionOf("react")}`, ...types];
  run("npm", ["install", "--silent", "--prefer-offline", "--no-audit", "--no-fund", ...wanted], folder);
}, 120_000);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe("the published package", () => {
  test("contains what is built and its sources", () => {
    expect(published).toContain("dist/react.d.ts");
    expect(published.filter((path) => !/^(dist|src)\/|^(package\.json|README\.md|LICENSE)$/.test(path))).toEqual([]);
  });

  test("loads in Node by its names, and the vanilla entry needs no React", () => {
    const code = `
      const { createMemoryStore, MemoryError, initialSnapshot } = await import("memlane");
      const store = createMemoryStore({ runtimeUrl: "/api" });
      const { createMemoryHandler } = await import("memlane/server");
      console.log(store.getSnapshot() === initialSnapshot, typeof MemoryError, typeof createMemoryHandler);`;
    writeFileSync(join(folder, "app.mjs"), code);
    expect(run(process.execPath, ["app.mjs"], folder).trim()).toBe("true function function");
  });

  test.each([
    ["5.0", "test/typescript5.0/node_modules/typescript"],
    ["5.9", "node_modules/typescript"],
  ])(
    "has types that hold in strict TypeScript %s, and so does the code of docs/with-nextjs.md",
    { timeout: 120_000 },
    (version, compiler) => {
      cpSync(join(root, "test/support/consumer.tsx"), join(folder, "app.tsx"));
      const files = ["session.ts", "app/api/memlane/[...path]/route.ts", "app/memories/memories.tsx"];
      for (const name of files) {
        mkdirSync(dirname(join(folder, name)), { recursive: true });
        writeFileSync(join(folder, name), codeOf(name));
      }
      const compilerOptions = {
        strict: true,
        exactOptionalPropertyTypes: true,
        noUncheckedIndexedAccess: true,
        noEmit: true,
        jsx: "react-jsx",
        target: "ES2022",
        lib: ["ES2022", "DOM", "DOM.Iterable"],
        module: "ESNext",
        moduleResolution: "Bundler",
        types: ["react", "node"],
        // Those of other packages are theirs: ours are checked in the app's own code.
        skipLibCheck: version !== "5.9",
        paths: { "@/*": ["./*"] },
      };
      writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions, files: ["app.tsx", ...files] }));
      expect(run(process.execPath, [join(root, compiler, "bin/tsc")], folder)).toBe("");
    },
  );
});

describe("what gets into a page", () => {
  test.each(["memlane", "memlane/react"])("%s brings nothing that knows of the project key", async (entry) => {
    const { text, inputs } = await browserBundle(`export * from "${entry}";`);
    expect(inputs.filter((input) => input.includes("server"))).toEqual([]);
    expect(text.match(KEY_HANDLING)).toBeNull();
  });

  test("memlane/server in a bundle for browsers is an error and not a leak", async () => {
    const { text } = await browserBundle('import * as server from "memlane/server"; console.log(server);');
    expect(text.includes("on a server only")).toBe(true);
    expect(text.match(KEY_HANDLING)).toBeNull();
  });

  test("what is not used is not bundled", async () => {
    const { bytes } = await browserBundle('import { MemoryError } from "memlane"; console.log(MemoryError);');
    expect(bytes).toBeLessThan(2000);
  });

  test("the client marks itself for React's server components", () => {
    expect(readFileSync(join(root, "dist/react.js"), "utf8")).toMatch(/^"use client";/);
  });
});
