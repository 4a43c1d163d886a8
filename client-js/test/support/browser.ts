/** Debian's Chromium through playwright-core: what it logs, and for each window a line that can be cut. */
import { once } from "node:events";
import { existsSync } from "node:fs";
import { createServer, request as ask, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { connect, type AddressInfo, type Socket } from "node:net";
import type { Duplex } from "node:stream";

import { chromium, type Browser, type BrowserContext, type BrowserContextOptions, type Page } from "playwright-core";

/** `CHROMIUM` names another one. */
const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium";

export async function openBrowser(): Promise<Browser> {
  if (!existsSync(CHROMIUM)) {
    throw new Error(`Chromium is missing at ${CHROMIUM}: run "make chromium", or set CHROMIUM to its path.`);
  }
  // Chromium's own sandbox does not work for root, as which containers run.
  const args = process.getuid?.() === 0 ? ["--no-sandbox"] : [];
  return chromium.launch({ executablePath: CHROMIUM, args });
}

/** The line between one window and everything else: an HTTP proxy on loopback. */
export class Line {
  #server: Server;
  #state: "up" | "silent" | "down" = "up";
  readonly #ends = new Set<Duplex>();

  private constructor() {
    this.#server = createServer((request, response) => this.#forward(request, response));
    this.#server.on("connect", (request: IncomingMessage, near: Duplex) => this.#tunnel(request, near));
    this.#server.on("connection", (socket: Socket) => {
      this.#track(socket);
      if (this.#state === "down") socket.destroy();
    });
  }

  static async create(): Promise<Line> {
    const line = new Line();
    line.#server.listen(0, "127.0.0.1");
    await once(line.#server, "listening");
    return line;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** What is connected is cut, and nothing connects. */
  goDown(): void {
    this.#state = "down";
    this.cut();
  }

  /** Connections stay and connect, and no byte passes: nobody is told that anything is wrong. */
  goSilent(): void {
    this.#state = "silent";
    for (const end of this.#ends) end.unpipe().pause();
  }

  /** As a network comes back: what was connected before is gone. */
  goUp(): void {
    this.#state = "up";
    this.cut();
  }

  cut(): void {
    for (const end of this.#ends) end.destroy();
  }

  close(): void {
    this.cut();
    this.#server.close();
  }

  #track(end: Duplex): void {
    if (this.#ends.has(end)) return;
    this.#ends.add(end);
    end.on("error", () => end.destroy());
    end.on("close", () => this.#ends.delete(end));
  }

  #forward(request: IncomingMessage, response: ServerResponse): void {
    if (this.#state !== "up") return;
    const { method, headers, url = "" } = request;
    const asked = ask(url, { method, headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(response);
    });
    asked.on("socket", (socket) => this.#track(socket));
    asked.on("error", () => response.destroy());
    request.pipe(asked);
  }

  #tunnel(request: IncomingMessage, near: Duplex): void {
    const [host, port] = (request.url ?? "").split(":");
    if (this.#state !== "up") return;
    const far = connect(Number(port), host);
    this.#track(far);
    near.on("close", () => far.destroy());
    far.on("close", () => near.destroy());
    far.on("connect", () => {
      near.write("HTTP/1.1 200 OK\r\n\r\n");
      near.pipe(far).pipe(near);
    });
  }
}

/** A window of its own: own storage, own line, and all that the browser logged. */
export class Window {
  readonly context: BrowserContext;
  readonly page: Page;
  readonly line: Line;
  readonly log: string[] = [];

  private constructor(context: BrowserContext, page: Page, line: Line) {
    this.context = context;
    this.page = page;
    this.line = line;
    page.on("console", (message) => this.log.push(`${message.type()}: ${message.text()} (${message.location().url})`));
    page.on("pageerror", (fault) => this.log.push(`uncaught: ${fault.stack ?? fault.message}`));
  }

  static async open(browser: Browser, options: BrowserContextOptions = {}): Promise<Window> {
    const line = await Line.create();
    const proxy = { server: line.url, bypass: "<-loopback>" };
    const context = await browser.newContext({ ...options, proxy });
    return new Window(context, await context.newPage(), line);
  }

  async close(): Promise<void> {
    await this.context.close();
    this.line.close();
  }
}
