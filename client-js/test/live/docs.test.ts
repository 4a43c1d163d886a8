import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, inject, test } from "vitest";

import { codeOf } from "../support/docs.js";

const root = fileURLToPath(new URL("../..", import.meta.url));
const python = process.env.MEMLANE_PYTHON ?? join(root, "../.venv/bin/python");
const deployment = inject("deployment");
let folder: string;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "memlane-script-"));
  mkdirSync(join(folder, "node_modules"));
  symlinkSync(root, join(folder, "node_modules", "memlane"));
  symlinkSync(join(root, "node_modules", "ws"), join(folder, "node_modules", "ws"));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Runs a block as it stands, as a user of its own, and gives what it printed. */
async function run(program: string, name: string, user = `${name}-${Date.now()}`): Promise<string> {
  writeFileSync(join(folder, name), codeOf(name));
  const env = {
    ...process.env,
    MEMLANE_API_URL: deployment.apiUrl,
    MEMLANE_WS_URL: deployment.wsUrl,
    MEMLANE_API_KEY: deployment.apiKey,
    MEMLANE_USER: user,
  };
  const { stdout, stderr } = await promisify(execFile)(program, [name], { cwd: folder, env, timeout: 30_000 });
  expect(stdout + stderr).not.toContain(deployment.apiKey);
  return stdout;
}

test("the shell script saves, recalls and lists", async () => {
  const lines = (await run("bash", "script.sh")).trim().split("\n");
  const [saved, found, listed] = lines.map((line) => JSON.parse(line) as Record<string, unknown>);
  expect(saved).toMatchObject({ content: "Prefers concise status updates.", absorbed: false });
  expect(found).toMatchObject({ memories: [{ id: saved?.id }] });
  expect(listed).toMatchObject({ memories: [{ id: saved?.id }] });
});

test.each([
  [python, "script.py"],
  [process.execPath, "script.mjs"],
])("%s %s tells that it saved, and the second time that it was known", async (program, name) => {
  const user = `${name}-${Date.now()}`;
  const last = async () => (await run(program, name, user)).trim().split("\n").at(-1);
  expect(await last()).toBe("saved - Prefers concise status updates.");
  expect(await last()).toBe("known already - Prefers concise status updates.");
});
