import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";

import { createMemoryStore, type Memory, type MemoryStore, type MemoryStoreOptions } from "memlane";
import { createMemoryHandler, nodeListener, type MemoryGrant } from "memlane/server";
import WebSocket from "ws";

import type { Deployment } from "./dev-server.js";

/** An app with the handler, over real HTTP. A test names its user in a header, where an app has a session. */
export class App {
  readonly url: string;
  readonly #server: Server;

  private constructor(server: Server) {
    this.#server = server;
    this.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/api`;
  }

  static async create(deployment: Deployment, access: MemoryGrant = { user: "read-write", project: "read-write" }) {
    const handler = createMemoryHandler({
      ...deployment,
      access,
      identifyUser: (request) => {
        const id = request.headers.get("x-test-user");
        return id === null ? null : { id };
      },
    });
    const server = createServer(nodeListener(handler)).listen(0, "127.0.0.1");
    await once(server, "listening");
    return new App(server);
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, "close");
  }
}

/** Uniform in [0, 1), the same for the same seed (mulberry32). */
export function randomOf(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}

export interface Frame {
  readonly topic: string;
  readonly event: string;
  readonly payload: { readonly seq?: number; readonly operation?: string };
}

/** One browser's network: it can be cut, go offline, delay and lose. */
export class Network {
  isOnline = true;
  /** A wait of up to so long before a request is sent and again before its answer arrives. */
  delayMs = 0;
  /** How many of a hundred answers are lost. */
  lossPercent = 0;
  readonly frames: Frame[] = [];
  readonly upgrades: { readonly url: string; readonly offers: readonly string[] }[] = [];
  readonly #sockets = new Set<WebSocket>();
  readonly #random: () => number;

  constructor(seed = 1) {
    this.#random = randomOf(seed);
  }

  readonly fetch: typeof fetch = async (input, init) => {
    await this.#pause();
    if (!this.isOnline) throw new TypeError("fetch failed");
    const answer = await fetch(input, init);
    await this.#pause();
    if (!this.isOnline || this.#random() * 100 < this.lossPercent) throw new TypeError("fetch failed");
    return answer;
  };

  /** A `WebSocket` class of this network. */
  readonly WebSocket = ((network: Network) =>
    class extends WebSocket {
      constructor(url: string, protocols?: string | string[]) {
        // Nothing listens on port 9 of this machine.
        super(network.isOnline ? url : "ws://127.0.0.1:9", protocols);
        network.upgrades.push({ url, offers: [protocols ?? []].flat() });
        network.#sockets.add(this);
        this.on("close", () => network.#sockets.delete(this));
        this.on("message", (data: Buffer) => {
          // What comes after the client has hung up does not reach it.
          if (this.readyState !== WebSocket.OPEN) return;
          const [, , topic, event, payload] = JSON.parse(data.toString()) as [
            null,
            null,
            string,
            string,
            Frame["payload"],
          ];
          network.frames.push({ topic, event, payload });
        });
      }
    })(this);

  cut(): void {
    for (const socket of this.#sockets) socket.terminate();
  }

  goOffline(): void {
    this.isOnline = false;
    this.cut();
  }

  events(): Frame[] {
    return this.frames.filter((frame) => frame.event === "memory_metadata");
  }

  async #pause(): Promise<void> {
    if (this.delayMs > 0) await sleep(this.#random() * this.delayMs);
  }
}

/** Fast retries, so that a test does not wait. */
export const BACKOFF = { baseMs: 50, maxMs: 400 };

export function openStore(
  app: App,
  user: string,
  network = new Network(),
  options: Partial<MemoryStoreOptions> = {},
): MemoryStore {
  return createMemoryStore({
    runtimeUrl: app.url,
    headers: { "x-test-user": user },
    fetch: network.fetch,
    WebSocket: network.WebSocket,
    backoff: BACKOFF,
    ...options,
  });
}

/** The list as the service has it, past everything of ours. */
export async function serverList({ apiUrl, apiKey }: Deployment, user: string): Promise<Memory[]> {
  const answer = await fetch(`${apiUrl}/api/memories`, {
    headers: { Authorization: `Bearer ${apiKey}`, "X-Cpki-User-Id": user },
  });
  return ((await answer.json()) as { memories: Memory[] }).memories;
}

/** A write past everything of ours. */
export async function serverAdd({ apiUrl, apiKey }: Deployment, user: string, content: string): Promise<Memory> {
  const answer = await fetch(`${apiUrl}/api/memories`, {
    method: "POST",
    headers: { Authorization: `Bearer ${apiKey}`, "X-Cpki-User-Id": user, "Content-Type": "application/json" },
    body: JSON.stringify({ content, kind: "topical" }),
  });
  return (await answer.json()) as Memory;
}

export function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

export async function until(isTrue: () => boolean | Promise<boolean>, what: string, withinMs = 10_000): Promise<void> {
  const end = Date.now() + withinMs;
  while (!(await isTrue())) {
    if (Date.now() > end) throw new Error(`Not within ${withinMs} ms: ${what}`);
    await sleep(20);
  }
}

export const contents = (store: MemoryStore) => store.getSnapshot().memories.map((memory) => memory.content);
export const isConnected = (store: MemoryStore) => store.getSnapshot().realtimeStatus === "connected";
