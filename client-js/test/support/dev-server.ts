import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { createServer, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

/** `MEMLANE_BIN` names another one; by default the repository's own. */
export const BIN = process.env.MEMLANE_BIN ?? fileURLToPath(new URL("../../../.venv/bin/memlane", import.meta.url));
const START_MS = 60_000;

export interface Deployment {
  readonly apiUrl: string;
  readonly wsUrl: string;
  readonly apiKey: string;
}

/** A real `memlane dev` with a data folder of its own. */
export class DevServer {
  readonly #folder: string;
  readonly #port: number;
  #process: ChildProcess | null = null;

  private constructor(folder: string, port: number) {
    this.#folder = folder;
    this.#port = port;
  }

  static async create(): Promise<DevServer> {
    const server = new DevServer(await mkdtemp(join(tmpdir(), "memlane-js-")), await freePort());
    await server.start();
    return server;
  }

  async start(): Promise<void> {
    const child = spawn(BIN, ["dev", "--data-dir", this.#folder, "--port", String(this.#port)], {
      stdio: ["ignore", "ignore", "pipe"],
    });
    this.#process = child;
    let said = "";
    child.stderr?.on("data", (chunk: Buffer) => (said = (said + chunk.toString()).slice(-4000)));
    let failure: string | null = null;
    child.once("error", (fault) => (failure = `${fault.message}; run "make setup", or set MEMLANE_BIN`));
    child.once("exit", (code) => (failure ??= `it ended with ${code}: ${said}`));
    const until = Date.now() + START_MS;
    for (;;) {
      if (failure !== null) throw new Error(`memlane dev does not run: ${failure}`);
      if (Date.now() > until) throw new Error(`memlane dev is not ready after a minute: ${said}`);
      const answer = await fetch(`http://127.0.0.1:${this.#port}/api/ready`).catch(() => null);
      if (answer?.ok) return;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }

  /** The variables of `dev.env`: those of a client, and those of the operator's commands. */
  async settings(): Promise<Record<string, string>> {
    const text = await readFile(join(this.#folder, "dev.env"), "utf8");
    return Object.fromEntries(
      [...text.matchAll(/^(\w+)='?([^'\n]*)/gm)].map(([, name = "", value = ""]) => [name, value]),
    );
  }

  async deployment(): Promise<Deployment> {
    const { MEMLANE_API_URL = "", MEMLANE_WS_URL = "", MEMLANE_API_KEY = "" } = await this.settings();
    return { apiUrl: MEMLANE_API_URL, wsUrl: MEMLANE_WS_URL, apiKey: MEMLANE_API_KEY };
  }

  async stop(): Promise<void> {
    const child = this.#process;
    this.#process = null;
    if (child === null || child.exitCode !== null) return;
    child.kill("SIGTERM");
    await once(child, "exit");
  }

  async dispose(): Promise<void> {
    await this.stop();
    await rm(this.#folder, { recursive: true, force: true });
  }
}

export async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}
