import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { codeOf } from "./support/readme.js";
import { browserBundle } from "../scripts/bundle.mjs";

/** What only the server's part may contain. */
const KEY_HANDLING = /cpk-|apiKey|Bearer |X-Cpki/;

const root = fileURLToPath(new URL("..", import.meta.url));
const run = (command: string, args: string[], cwd = root) => execFileSync(command, args, { cwd, encoding: "utf8" });

/** A folder of an app that has installed exactly the files that npm would publish. */
let folder: string;
let published: string[];

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "memlane-app-"));
  const [{ filename, files }] = JSON.parse(
    run("npm", ["pack", "--json", "--ignore-scripts", "--pack-destination", folder]),
  ) as [{ filename: string; files: { path: string }[] }];
  published = files.map((file) => file.path);
  const target = join(folder, "node_modules", "memlane");
  mkdirSync(target, { recursive: true });
  run("tar", ["-xzf", join(folder, filename), "-C", target, "--strip-components=1"]);
  symlinkSync(join(root, "node_modules", "phoenix"), join(folder, "node_modules", "phoenix"));
});
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

  test("has types that hold in strict TypeScript, and so does the code of the README", { timeout: 120_000 }, () => {
    cpSync(join(root, "test/support/consumer.tsx"), join(folder, "app.tsx"));
    for (const name of ["route.ts", "memories.tsx"]) writeFileSync(join(folder, name), codeOf(name));
    writeFileSync(
      join(folder, "session.ts"),
      "export const currentUser = async (request: Request): Promise<{ id: string } | null> => ({ id: request.url });",
    );
    writeFileSync(join(folder, "package.json"), '{"type":"module"}');
    for (const name of ["react", "@types", "csstype", "undici-types"]) {
      symlinkSync(join(root, "node_modules", name), join(folder, "node_modules", name));
    }
    const options =
      "--noEmit --strict --skipLibCheck --exactOptionalPropertyTypes --jsx react-jsx --target ES2022 --types react,node";
    const modules =
      "--module ESNext --moduleResolution Bundler --lib ES2022,DOM,DOM.Iterable app.tsx route.ts memories.tsx";
    const tsc = join(root, "node_modules/typescript/bin/tsc");
    expect(run(process.execPath, [tsc, ...options.split(" "), ...modules.split(" ")], folder)).toBe("");
  });
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
