/** The requests to the handler that keeps the key: `memlane/server`, or a CopilotKit runtime. */
import { errorOfAnswer, MemoryError } from "./errors.js";
import type { MemoryChanges, NewMemory, Recall, RecallOptions, WriteOptions } from "./types.js";
import {
  readCredentials,
  readPage,
  readRecall,
  readWrite,
  type Credentials,
  type ListPage,
  type Write,
} from "./wire.js";

/** Longer than the handler waits for the service, so that its own answer arrives first. */
const TIMEOUT_MS = 20_000;
/** Most pages of one list: 50 times 2,000 rows. */
const PAGES_MAX = 50;

export type HeadersOption = HeadersInit | (() => HeadersInit | Promise<HeadersInit>);

export interface Api {
  list(): Promise<ListPage[]>;
  create(draft: NewMemory, options?: WriteOptions): Promise<Write>;
  replace(id: string, changes: MemoryChanges, options?: WriteOptions): Promise<Write>;
  retire(id: string): Promise<void>;
  recall(query: string, options?: RecallOptions): Promise<Recall>;
  subscribe(): Promise<Credentials>;
}

export function createApi(runtimeUrl: string, fetchOption: typeof fetch | undefined, headers?: HeadersOption): Api {
  const base = `${runtimeUrl.replace(/\/+$/, "")}/memories`;
  // Looked up late, so that a polyfill that comes later counts; a bare `fetch` must not lose its `this`.
  const send: typeof fetch = (...args) => (fetchOption ?? globalThis.fetch)(...args);

  async function call<T>(request: Call, read: (body: unknown) => T | null): Promise<T> {
    const limit = new AbortController();
    const timer = setTimeout(() => limit.abort(), TIMEOUT_MS);
    const onAbort = () => limit.abort();
    request.signal?.addEventListener("abort", onAbort, { once: true });
    try {
      request.signal?.throwIfAborted();
      const { status, body, retryAfter } = await exchange(request, limit.signal);
      if (status < 200 || status > 299) throw errorOfAnswer(status, body, retryAfter);
      const found = read(body);
      if (found === null) {
        throw new MemoryError("BAD_ANSWER", "The answer could not be read; is runtimeUrl right?", {
          retryable: false,
          status,
        });
      }
      return found;
    } catch (fault) {
      if (fault instanceof MemoryError) throw fault;
      if (request.signal?.aborted) throw request.signal.reason;
      throw limit.signal.aborted
        ? new MemoryError("TIMEOUT", `No answer within ${TIMEOUT_MS / 1000} s.`, { retryable: true, cause: fault })
        : new MemoryError("NETWORK_ERROR", "The request did not reach the server.", { retryable: true, cause: fault });
    } finally {
      clearTimeout(timer);
      request.signal?.removeEventListener("abort", onAbort);
    }
  }

  async function exchange({ method, path, body, idempotencyKey }: Call, signal: AbortSignal): Promise<Answer> {
    const sent = new Headers(typeof headers === "function" ? await headers() : headers);
    if (body !== undefined) sent.set("Content-Type", "application/json");
    if (idempotencyKey !== undefined) sent.set("Idempotency-Key", idempotencyKey);
    const answer = await send(base + path, {
      method,
      headers: sent,
      signal,
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    const text = answer.status === 204 ? "" : await answer.text();
    return { status: answer.status, body: parsed(text), retryAfter: answer.headers.get("Retry-After") };
  }

  return {
    async list() {
      const pages: ListPage[] = [];
      let cursor: string | null = "";
      while (cursor !== null && pages.length < PAGES_MAX) {
        const path: string = cursor === "" ? "" : `?cursor=${encodeURIComponent(cursor)}`;
        const page: ListPage = await call({ method: "GET", path }, readPage);
        pages.push(page);
        cursor = page.nextCursor;
      }
      return pages;
    },
    create: (draft, options) => call({ method: "POST", path: "", body: bodyOf(draft), ...options }, readWrite),
    replace: (id, changes, options) =>
      call({ method: "PATCH", path: `/${encodeURIComponent(id)}`, body: bodyOf(changes), ...options }, readWrite),
    async retire(id) {
      await call({ method: "DELETE", path: `/${encodeURIComponent(id)}` }, () => true);
    },
    recall: (query, { signal, ...options } = {}) =>
      call({ method: "POST", path: "/recall", body: { query, ...options }, ...(signal && { signal }) }, readRecall),
    subscribe: () => call({ method: "POST", path: "/subscribe", body: {} }, readCredentials),
  };
}

interface Call {
  readonly method: string;
  readonly path: string;
  readonly body?: unknown;
  readonly idempotencyKey?: string;
  readonly signal?: AbortSignal;
}

interface Answer {
  readonly status: number;
  readonly body: unknown;
  readonly retryAfter: string | null;
}

/** Only the fields of the contract: a memory of the list, spread into a draft, is no error. */
function bodyOf({ content, kind, scope, sourceThreadIds }: NewMemory): NewMemory {
  return { content, kind, ...(scope && { scope }), ...(sourceThreadIds && { sourceThreadIds }) };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
