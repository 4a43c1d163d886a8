/**
 * The handler between the browser and the service: it keeps the project key, and says for each request who the user is
 * and what they may do. What it cannot find out is denied.
 *
 * Routes, wherever it is mounted: `/memories`, `/memories/recall`, `/memories/subscribe`, `/memories/:id`.
 */
export { nodeListener } from "./server-node.js";

export type Access = "none" | "read" | "read-write";

/** What a request may do. It can only narrow what the key may. */
export interface MemoryGrant {
  readonly user: Access;
  readonly project: Access;
}

export interface MemoryUser {
  /** 1 to 256 characters; opaque to the service. */
  readonly id: string;
}

export interface MemoryHandlerOptions<User extends MemoryUser = MemoryUser> {
  /** The service, for example `http://127.0.0.1:4201`. */
  readonly apiUrl: string;
  /** The stream as a browser reaches it, ending in `/client`. */
  readonly wsUrl: string;
  /** A runtime key, `cpk-...`. It never leaves the server. */
  readonly apiKey: string;
  /** Who sends the request, by your session; null when nobody is signed in (401). A rejection is answered with 500. */
  readonly identifyUser: (request: Request) => Promise<User | null> | User | null;
  /** What they may do; null denies (403), and so does a rejection. */
  readonly access:
    MemoryGrant | ((who: { request: Request; user: User }) => Promise<MemoryGrant | null> | MemoryGrant | null);
  readonly fetch?: typeof fetch;
  /** Told of what the answer hides: a rejection of yours, or a service that does not answer. */
  readonly onError?: (error: unknown) => void;
}

export type MemoryHandler = (request: Request) => Promise<Response>;

/** The service refuses a longer body (REST contract). */
const BODY_MAX_BYTES = 512 * 1024;
/** Requests of the runtime time out so (REST contract). */
const TIMEOUT_MS = 15_000;
const ACCESS: ReadonlySet<unknown> = new Set(["none", "read", "read-write"]);
const SETTINGS = ["apiUrl", "wsUrl", "apiKey"] as const;
const LIST_QUERY = ["includeInvalidated", "limit", "cursor"];
const PASSED_BACK = ["content-type", "retry-after", "x-request-id", "allow"];

/** Every route: what it is called here is what it is called there. */
const METHODS: Readonly<Record<string, readonly string[]>> = {
  list: ["GET", "POST"],
  recall: ["POST"],
  subscribe: ["POST", "DELETE"],
  one: ["GET", "PATCH", "DELETE"],
};

/**
 * Makes a fetch handler.
 *
 * A setting that is missing is told with each request (500, and `onError`): a build imports a route without settings.
 *
 * @throws {TypeError} When a URL or the key cannot be right.
 */
export function createMemoryHandler<User extends MemoryUser>(options: MemoryHandlerOptions<User>): MemoryHandler {
  const missing = SETTINGS.filter((name) => !options[name]);
  if (missing.length > 0) {
    const message = `createMemoryHandler was not given ${missing.join(", ")}.`;
    return async () => {
      options.onError?.(new TypeError(message));
      return new Refusal(500, "NOT_CONFIGURED", message).answer();
    };
  }
  const api = urlOf(options.apiUrl, "apiUrl", /^https?:$/);
  const wsUrl = urlOf(options.wsUrl, "wsUrl", /^wss?:$/);
  if (!/^cpk-[\x21-\x7e]+$/.test(options.apiKey)) throw new TypeError("apiKey must be a runtime key: cpk-...");
  const send: typeof fetch = options.fetch ?? ((...args) => globalThis.fetch(...args));

  return async (request) => {
    try {
      return await handle(request);
    } catch (fault) {
      if (fault instanceof Refusal) {
        if (fault.cause !== undefined) options.onError?.(fault.cause);
        return fault.answer();
      }
      options.onError?.(fault);
      return new Refusal(500, "INTERNAL_ERROR", "Something went wrong.").answer();
    }
  };

  async function handle(request: Request): Promise<Response> {
    const url = new URL(request.url);
    const { route, path } = routeOf(url.pathname);
    const methods = METHODS[route] ?? [];
    if (!methods.includes(request.method)) {
      throw new Refusal(405, "METHOD_NOT_ALLOWED", "This route does not take that method.", {
        headers: { Allow: methods.join(", ") },
      });
    }
    // Credentials first: a stranger learns nothing about what a body should look like.
    const user = await identified(request);
    const grant = await granted(request, user);
    const body = await bodyOf(request);
    const headers = new Headers({
      Authorization: `Bearer ${options.apiKey}`,
      "X-Cpki-User-Id": headerBytes(user.id),
      "X-Cpki-Memory-Grant": JSON.stringify(grant),
    });
    if (body !== null) headers.set("Content-Type", "application/json");
    for (const name of ["Idempotency-Key", "X-Request-Id"]) {
      const value = request.headers.get(name);
      if (value !== null) headers.set(name, value);
    }
    const answer = await asked(`${api}/api${path}${route === "list" ? listQuery(url) : ""}`, {
      method: request.method,
      headers,
      body,
      redirect: "manual",
      cache: "no-store",
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    const passed = new Headers({ "Cache-Control": "no-store" });
    for (const name of PASSED_BACK) {
      const value = answer.headers.get(name);
      if (value !== null) passed.set(name, value);
    }
    if (route === "subscribe" && answer.status === 200) {
      const tickets = (await answer.json()) as Record<string, unknown>;
      return new Response(JSON.stringify({ ...tickets, wsUrl }), { status: 200, headers: passed });
    }
    const isEmpty = answer.status === 204 || answer.status === 304;
    return new Response(isEmpty ? null : answer.body, { status: answer.status, headers: passed });
  }

  async function asked(url: string, init: RequestInit): Promise<Response> {
    let answer: Response;
    try {
      answer = await send(url, init);
    } catch (fault) {
      throw new Refusal(502, "UPSTREAM_UNREACHABLE", "The memory service does not answer.", { cause: fault });
    }
    // A redirect would carry the key to another host.
    if (answer.status >= 300 && answer.status < 400 && answer.status !== 304) {
      throw new Refusal(502, "UPSTREAM_UNREACHABLE", "The memory service does not answer.", {
        cause: new Error("apiUrl answered with a redirect."),
      });
    }
    return answer;
  }

  async function identified(request: Request): Promise<User> {
    let user: User | null;
    try {
      user = await options.identifyUser(request);
    } catch (fault) {
      throw new Refusal(500, "IDENTITY_FAILED", "The user could not be identified.", { cause: fault });
    }
    if (user === null || user === undefined) throw new Refusal(401, "UNAUTHENTICATED", "Nobody is signed in.");
    const { id } = user;
    // The service cuts outer white space, which would make one user of two.
    if (typeof id !== "string" || !/^.{1,256}$/su.test(id) || id.trim() !== id || hasControls(id)) {
      const cause = new TypeError("identifyUser must return {id}: 1 to 256 characters without outer white space.");
      throw new Refusal(500, "IDENTITY_FAILED", "The user could not be identified.", { cause });
    }
    return user;
  }

  async function granted(request: Request, user: User): Promise<MemoryGrant> {
    const denied = (cause?: unknown) =>
      new Refusal(403, "MEMORY_GRANT_DENIED", "You may not use memories here.", cause === undefined ? {} : { cause });
    let grant: MemoryGrant | null;
    try {
      grant = typeof options.access === "function" ? await options.access({ request, user }) : options.access;
    } catch (fault) {
      throw denied(fault);
    }
    if (grant === null) throw denied();
    if (!ACCESS.has(grant?.user) || !ACCESS.has(grant?.project)) {
      throw denied(new TypeError('access must be {user, project}, each "none", "read" or "read-write".'));
    }
    return { user: grant.user, project: grant.project };
  }
}

/** An answer of our own, in the service's form. `cause` is for `onError` and never leaves the server. */
class Refusal extends Error {
  readonly #status: number;
  readonly #code: string;
  readonly #headers: Record<string, string>;

  constructor(
    status: number,
    code: string,
    message: string,
    { cause, headers = {} }: { cause?: unknown; headers?: Record<string, string> } = {},
  ) {
    super(message, cause === undefined ? undefined : { cause });
    this.#status = status;
    this.#code = code;
    this.#headers = headers;
  }

  answer(): Response {
    const requestId = crypto.randomUUID();
    return new Response(JSON.stringify({ error: { code: this.#code, message: this.message, requestId } }), {
      status: this.#status,
      headers: {
        "Content-Type": "application/json",
        "Cache-Control": "no-store",
        "X-Request-Id": requestId,
        ...this.#headers,
      },
    });
  }
}

function routeOf(pathname: string): { route: string; path: string } {
  const segments = pathname.split("/").filter((segment) => segment !== "");
  const at = segments.lastIndexOf("memories");
  const rest = segments.slice(at + 1);
  const [name] = rest;
  if (at === -1 || rest.length > 1) throw new Refusal(404, "NOT_FOUND", "There is no such route.");
  if (name === undefined) return { route: "list", path: "/memories" };
  if (name === "recall" || name === "subscribe") return { route: name, path: `/memories/${name}` };
  // An id and nothing that a URL could read otherwise.
  if (!/^[0-9A-Za-z-]{1,64}$/.test(name) || name === "batch") {
    throw new Refusal(404, "NOT_FOUND", "There is no such route.");
  }
  return { route: "one", path: `/memories/${name}` };
}

function listQuery(url: URL): string {
  const query = new URLSearchParams();
  for (const name of LIST_QUERY) {
    const value = url.searchParams.get(name);
    if (value !== null) query.set(name, value);
  }
  return query.size === 0 ? "" : `?${query.toString()}`;
}

/** The body, refused as soon as it is too long, and unless it says that it is JSON: a form of another site cannot. */
async function bodyOf(request: Request): Promise<Uint8Array<ArrayBuffer> | null> {
  if (request.body === null || request.method === "GET" || request.method === "DELETE") return null;
  const tooLarge = () => new Refusal(413, "PAYLOAD_TOO_LARGE", "The body is longer than 512 KiB.");
  if (Number(request.headers.get("Content-Length") ?? 0) > BODY_MAX_BYTES) throw tooLarge();
  const reader = request.body.getReader();
  const chunks: Uint8Array[] = [];
  let length = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    length += value.byteLength;
    if (length > BODY_MAX_BYTES) {
      await reader.cancel().catch(() => undefined);
      throw tooLarge();
    }
    chunks.push(value);
  }
  if (length === 0) return null;
  if (!/^application\/json\s*(;|$)/i.test(request.headers.get("Content-Type") ?? "")) {
    throw new Refusal(400, "MEMORY_VALIDATION_ERROR", "The body must be application/json.");
  }
  const body = new Uint8Array(length);
  let at = 0;
  for (const chunk of chunks) {
    body.set(chunk, at);
    at += chunk.byteLength;
  }
  return body;
}

/** A header holds bytes, written as one character each: the id goes as UTF-8. */
function headerBytes(text: string): string {
  return Array.from(new TextEncoder().encode(text), (byte) => String.fromCharCode(byte)).join("");
}

function hasControls(text: string): boolean {
  return /[\p{Cc}\p{Cs}]/u.test(text);
}

function urlOf(text: string, name: string, protocol: RegExp): string {
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url === null || !protocol.test(url.protocol)) throw new TypeError(`${name} is not a URL of the right kind.`);
  return text.replace(/\/+$/, "");
}
