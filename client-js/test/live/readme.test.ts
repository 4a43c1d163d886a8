import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, inject, test } from "vitest";

import { codeOf } from "../support/readme.js";

const root = fileURLToPath(new URL("../..", import.meta.url));

test("the script of the README runs as it stands, and ends", async () => {
  const deployment = inject("deployment");
  const folder = mkdtempSync(join(tmpdir(), "memlane-script-"));
  try {
    mkdirSync(join(folder, "node_modules"));
    symlinkSync(root, join(folder, "node_modules", "memlane"));
    symlinkSync(join(root, "node_modules", "ws"), join(folder, "node_modules", "ws"));
    writeFileSync(join(folder, "script.mjs"), codeOf("script.mjs"));
    const env = {
      ...process.env,
      MEMLANE_API_URL: deployment.apiUrl,
      MEMLANE_WS_URL: deployment.wsUrl,
      MEMLANE_API_KEY: deployment.apiKey,
    };
    const args = ["script.mjs", `script-${Date.now()}`];
    const { stdout, stderr } = await promisify(execFile)(process.execPath, args, { cwd: folder, env, timeout: 30_000 });
    expect(stdout.trim().split("\n").at(-1)).toBe("saved - Prefers concise status updates.");
    expect(stdout + stderr).not.toContain(deployment.apiKey);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
