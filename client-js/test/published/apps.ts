/** The apps of the pages in `docs/`, with the published packages, and with ours as npm would install it. */
import { execFileSync, spawn, spawnSync, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { cpSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

import { build } from "esbuild";

import { freePort, type Deployment } from "../support/dev-server.js";
import { docsCode } from "../support/docs.js";

const here = fileURLToPath(new URL(".", import.meta.url));
const root = fileURLToPath(new URL("../..", import.meta.url));
const built = join(here, ".build");
const next = join(here, "node_modules/next/dist/bin/next");
const START_MS = 60_000;

const QUIET = { NEXT_TELEMETRY_DISABLED: "1", COPILOTKIT_TELEMETRY_DISABLED: "true" };

export type AppName = "nextjs" | "copilotkit";

/** Builds both, without any setting: those come with the start. */
export async function buildApps(): Promise<void> {
  rmSync(built, { recursive: true, force: true });
  layOut("nextjs", /^session\.ts$|^app\/(api\/memlane|memories)\//);
  layOut("copilotkit", /^session\.ts$|^app\/(api\/copilotkit|copilot)\//);
  const copilotkit = join(built, "copilotkit");
  const common = { absWorkingDir: copilotkit, bundle: true, outdir: ".", format: "esm", logLevel: "error" } as const;
  await build({ ...common, entryPoints: ["server.ts"], platform: "node", packages: "external" });
  await build({
    ...common,
    entryPoints: ["browser.tsx"],
    platform: "browser",
    define: { "process.env.NODE_ENV": '"production"' },
    loader: { ".woff": "empty", ".woff2": "empty", ".ttf": "empty" },
  });
  try {
    const env = { ...process.env, ...QUIET };
    execFileSync(process.execPath, [next, "build"], {
      cwd: join(built, "nextjs"),
      env,
      encoding: "utf8",
      stdio: "pipe",
    });
  } catch (fault) {
    const { stdout, stderr } = fault as { stdout?: string; stderr?: string };
    throw new Error(`next build failed: ${stdout}${stderr}`);
  }
}

/** A folder with the code of the docs, what the tests add, and our package. */
function layOut(name: AppName, paths: RegExp): void {
  const folder = join(built, name);
  cpSync(join(here, name), folder, { recursive: true });
  for (const [path, code] of docsCode) {
    if (!paths.test(path)) continue;
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), code);
  }
  writeFileSync(join(folder, "package.json"), '{"private":true,"type":"module"}');
  const target = join(folder, "node_modules", "memlane");
  mkdirSync(target, { recursive: true });
  const pack = ["pack", "--silent", "--ignore-scripts", "--pack-destination", built];
  const packed = execFileSync("npm", pack, { cwd: root, encoding: "utf8" }).trim();
  execFileSync("tar", ["-xzf", join(built, packed), "-C", target, "--strip-components=1"]);
}

/** What the compiler says of an app's code; nothing when all is well. */
export function typeFaults(name: AppName): string {
  const tsc = join(here, "node_modules/typescript/bin/tsc");
  const { status, stdout, stderr } = spawnSync(process.execPath, [tsc, "-p", join(built, name)], { encoding: "utf8" });
  return status === 0 ? stdout : `ended with ${status}: ${stdout}${stderr}`;
}

/** A started app. */
export class PublishedApp {
  readonly url: string;
  readonly #process: ChildProcess;
  #output = "";

  private constructor(url: string, child: ChildProcess) {
    this.url = url;
    this.#process = child;
    for (const stream of [child.stdout, child.stderr]) {
      stream?.on("data", (chunk: Buffer) => (this.#output += chunk.toString()));
    }
  }

  static async start(name: AppName, { apiUrl, wsUrl, apiKey }: Deployment): Promise<PublishedApp> {
    const port = await freePort();
    const args = name === "nextjs" ? [next, "start", "--hostname", "127.0.0.1", "--port", String(port)] : ["server.js"];
    const child = spawn(process.execPath, args, {
      cwd: join(built, name),
      env: {
        ...process.env,
        ...QUIET,
        PORT: String(port),
        MEMLANE_API_URL: apiUrl,
        MEMLANE_WS_URL: wsUrl,
        MEMLANE_API_KEY: apiKey,
      },
      stdio: ["ignore", "pipe", "pipe"],
    });
    const app = new PublishedApp(`http://127.0.0.1:${port}`, child);
    const until = Date.now() + START_MS;
    while ((await fetch(app.url).catch(() => null)) === null) {
      if (child.exitCode !== null || Date.now() > until) throw new Error(`The app does not start: ${app.output}`);
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    return app;
  }

  /** All that it wrote. */
  get output(): string {
    return this.#output;
  }

  async stop(): Promise<void> {
    if (this.#process.exitCode !== null) return;
    this.#process.kill("SIGTERM");
    await once(this.#process, "exit");
  }
}
