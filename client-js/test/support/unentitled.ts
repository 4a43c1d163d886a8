/** A real `memlane api` on the database of a dev server, with a license that does not carry memory. */
import { execFileSync, spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { BIN, freePort, type DevServer, type Deployment } from "./dev-server.js";

const START_MS = 60_000;

export class UnentitledApi {
  readonly deployment: Deployment;
  readonly #process: ChildProcess;
  readonly #folder: string;

  private constructor(deployment: Deployment, child: ChildProcess, folder: string) {
    this.deployment = deployment;
    this.#process = child;
    this.#folder = folder;
  }

  static async start(server: DevServer): Promise<UnentitledApi> {
    const settings = await server.settings();
    const folder = mkdtempSync(join(tmpdir(), "memlane-license-"));
    const key = join(folder, "key.pem");
    const memlane = (...args: string[]) => execFileSync(BIN, args, { encoding: "utf8" }).trim();
    const keys = memlane("license", "keygen", "--out", key);
    const license = memlane("license", "mint", "--private-key", key, "--organization", "dev", "--feature", "other");
    const port = await freePort();
    const child = spawn(BIN, ["api", "--host", "127.0.0.1", "--port", String(port)], {
      env: {
        PATH: process.env.PATH,
        ...settings,
        MEMLANE_LICENSE: license,
        MEMLANE_LICENSE_KEYS: keys.split("\n").at(-1)?.replace("MEMLANE_LICENSE_KEYS=", ""),
      },
      stdio: ["ignore", "pipe", "pipe"],
    });
    let said = "";
    for (const stream of [child.stdout, child.stderr]) {
      stream.on("data", (chunk: Buffer) => (said = (said + chunk.toString()).slice(-4000)));
    }
    const apiUrl = `http://127.0.0.1:${port}`;
    const until = Date.now() + START_MS;
    while (!(await fetch(`${apiUrl}/api/accepting`).catch(() => null))?.ok) {
      if (child.exitCode !== null || Date.now() > until) throw new Error(`memlane api does not run: ${said}`);
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    const { wsUrl, apiKey } = await server.deployment();
    return new UnentitledApi({ apiUrl, wsUrl, apiKey }, child, folder);
  }

  async stop(): Promise<void> {
    if (this.#process.exitCode === null) {
      this.#process.kill("SIGTERM");
      await once(this.#process, "exit");
    }
    rmSync(this.#folder, { recursive: true, force: true });
  }
}
