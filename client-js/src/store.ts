import { createApi, type HeadersOption } from "./api.js";
import { MemoryError, meansNotHere } from "./errors.js";
import { backoffMs, createRealtime, type BackoffOptions } from "./realtime.js";
import {
  awaitsConfirmation,
  initialState,
  isLinked,
  needsList,
  reduce,
  resumePosition,
  visibleMemories,
  type Action,
  type State,
} from "./reducer.js";
import { createSocket } from "./socket.js";
import type {
  MemoryChanges,
  MemoryScope,
  MemorySnapshot,
  NewMemory,
  Recall,
  RecallOptions,
  WriteOptions,
  WrittenMemory,
} from "./types.js";
import { readChange, readJoinReply, type Write } from "./wire.js";

/** The socket stays open so long after the last subscriber left: a remount costs nothing. */
const GRACE_MS = 1_000;
/** How long the stream may take to confirm a removal before the list is asked. */
const CONFIRM_MS = 5_000;
/** How often the list is fetched while there is no stream. */
const POLL_MS = 30_000;
/** Longest wait before a request is tried again that was refused for good: a grant or an entitlement may come back. */
const REFUSED_MAX_MS = 60_000;

export interface MemoryStoreOptions {
  /** Where the handler of `memlane/server` is mounted, or a CopilotKit runtime; `/memories` follows it. */
  readonly runtimeUrl: string;
  /** The stream's URL, ending in `/client`. By default the answer to `/memories/subscribe` names it. */
  readonly wsUrl?: string;
  /** Sent with each request; a function is asked each time. */
  readonly headers?: HeadersOption;
  readonly fetch?: typeof fetch;
  /** For a runtime without a global `WebSocket`, such as Node 20: the one of the package `ws`. */
  readonly WebSocket?: unknown;
  readonly backoff?: BackoffOptions;
}

/**
 * A live list of memories, without a framework. It connects with its first subscriber and rests after its last one.
 *
 * Methods reject with a `MemoryError`.
 */
export interface MemoryStore {
  getSnapshot(): MemorySnapshot;
  /** Calls the listener after each change of the snapshot; returns what ends that. */
  subscribe(listener: () => void): () => void;
  /** Fetches the list. */
  refresh(): Promise<void>;
  /** Finds memories by meaning. Changes nothing in the snapshot. */
  recall(query: string, options?: RecallOptions): Promise<Recall>;
  /** Saves a memory; `absorbed` tells whether a live one said the same already. */
  addMemory(memory: NewMemory, options?: WriteOptions): Promise<WrittenMemory>;
  /** Replaces a memory: the old row is retired, the new one has a new id. */
  updateMemory(id: string, changes: MemoryChanges, options?: WriteOptions): Promise<WrittenMemory>;
  /** Retires a memory. It leaves the snapshot at once and comes back if that fails. */
  removeMemory(id: string): Promise<void>;
  /** Ends everything for good. */
  close(): void;
}

/** What every store shows at first, and a server always. */
export const initialSnapshot: MemorySnapshot = Object.freeze({
  memories: Object.freeze([]),
  isLoading: true,
  error: null,
  isAvailable: true,
  realtimeStatus: "connecting",
});

export function createMemoryStore(options: MemoryStoreOptions): MemoryStore {
  const api = createApi(options.runtimeUrl, options.fetch, options.headers);
  const transport = () => options.WebSocket ?? globalThis.WebSocket;
  const listeners = new Set<() => void>();
  const timers = new Set<ReturnType<typeof setTimeout>>();
  const joined = new Set<MemoryScope>();
  let state: State = initialState;
  let snapshot = initialSnapshot;
  let isActive = false;
  let isClosed = false;

  const realtime = createRealtime({
    socket: createSocket(transport),
    backoff: options.backoff,
    wsUrl: options.wsUrl,
    hasTransport: () => typeof transport() === "function",
    credentials: () => api.subscribe(),
    ready: () =>
      (resumePosition(state, "user") ?? resumePosition(state, "project")) ? Promise.resolve() : firstList(),
    positionOf: (scope) => resumePosition(state, scope),
    onJoined(scope, asked, answer) {
      const reply = readJoinReply(answer);
      joined.add(scope);
      dispatch(reply === null ? { type: "unreadable", scope } : { type: "joined", scope, asked, reply });
    },
    onEvent(scope, payload) {
      const change = readChange(payload);
      dispatch(change === null ? { type: "unreadable", scope } : { type: "changed", scope, change });
    },
    onLeft() {
      joined.clear();
      dispatch({ type: "left" });
      if (isActive && snapshot.realtimeStatus === "unavailable" && Date.now() - listedAt > POLL_MS) quietly(refresh());
    },
    onStatus: (realtimeStatus) => show({ realtimeStatus }),
  });

  // The snapshot

  function show(changes: Partial<MemorySnapshot>): void {
    const names = Object.keys(changes) as (keyof MemorySnapshot)[];
    if (isClosed || names.every((name) => snapshot[name] === changes[name])) return;
    snapshot = Object.freeze({ ...snapshot, ...changes });
    for (const listener of [...listeners]) listener();
  }

  function dispatch(action: Action, also: Partial<MemorySnapshot> = {}): void {
    const before = state;
    state = reduce(state, action);
    const isSame =
      before.removals === state.removals &&
      before.channels.user.rows === state.channels.user.rows &&
      before.channels.project.rows === state.channels.project.rows;
    show(isSame ? also : { ...also, memories: visibleMemories(state) });
    healSoon();
    // A list brought another history: what this subscription sends belongs to the old one.
    if ([...joined].some((scope) => !isLinked(state, scope))) realtime.restart();
  }

  // The list

  let current: Promise<void> | null = null;
  let next: Promise<void> | null = null;
  let listedAt = 0;
  let isListed = false;
  let isListFault = false;
  let healTimer: ReturnType<typeof setTimeout> | undefined;
  let healTries = 0;
  let healMaxMs: number | undefined;

  /** One at a time and one more that waits: it began after it was asked for, so it shows what its caller knows. */
  function refresh(): Promise<void> {
    if (current === null) return beginList();
    next ??= current.then(beginList, beginList);
    return next;
  }

  function beginList(): Promise<void> {
    next = null;
    current = fetchList().finally(() => {
      current = null;
      healSoon();
    });
    return current;
  }

  async function fetchList(): Promise<void> {
    const askedAt = state.tick;
    listedAt = Date.now();
    try {
      const pages = await api.list();
      healMaxMs = options.backoff?.maxMs;
      isListed = true;
      // The fault of a write stands until a write succeeds or the caller asks for a list.
      const error = isListFault ? null : snapshot.error;
      dispatch({ type: "listed", askedAt, pages }, { isLoading: false, error, isAvailable: true });
      if (!needsList(state)) healTries = 0;
    } catch (fault) {
      const error = asError(fault);
      isListed = false;
      isListFault = true;
      healMaxMs = error instanceof MemoryError && !error.retryable ? REFUSED_MAX_MS : options.backoff?.maxMs;
      if (meansNotHere(error)) dispatch({ type: "cleared" }, { isLoading: false, error: null, isAvailable: false });
      else show({ isLoading: false, error });
      throw error;
    }
  }

  /** Fetches the list when only a list can tell the truth, until it did. */
  function healSoon(): void {
    if (!isActive || (isListed && !needsList(state)) || current !== null || healTimer !== undefined) return;
    const waitMs =
      healTries === 0 ? 0 : backoffMs(healTries, { ...options.backoff, ...(healMaxMs && { maxMs: healMaxMs }) });
    healTries += 1;
    healTimer = setTimeout(() => {
      healTimer = undefined;
      if (isActive && current === null) quietly(refresh());
    }, waitMs);
  }

  async function firstList(): Promise<void> {
    await current?.catch(() => undefined);
  }

  // Writes

  async function write(run: () => Promise<Write>): Promise<WrittenMemory> {
    refuseClosed();
    try {
      const done = await run();
      dispatch({ type: "written", write: done }, { error: null });
      return done.memory;
    } catch (fault) {
      throw failed(fault);
    }
  }

  function failed(fault: unknown): Error {
    const error = asError(fault);
    isListFault = false;
    show({ error });
    // The row that was meant is not there: the list is behind.
    if (error instanceof MemoryError && error.status === 404) quietly(refresh());
    return error;
  }

  function confirmSoon(id: string): void {
    if (!awaitsConfirmation(state, id)) return;
    const waitMs = snapshot.realtimeStatus === "connected" ? CONFIRM_MS : 0;
    const timer = setTimeout(() => {
      timers.delete(timer);
      if (awaitsConfirmation(state, id)) quietly(refresh());
    }, waitMs);
    timers.add(timer);
  }

  function refuseClosed(): void {
    if (isClosed) throw new MemoryError("CLOSED", "The store was closed.", { retryable: false });
  }

  // Subscribers

  let graceTimer: ReturnType<typeof setTimeout> | undefined;

  function activate(): void {
    clearTimeout(graceTimer);
    if (isActive) return;
    isActive = true;
    healTries = 0;
    isListed = false;
    globalThis.addEventListener?.("online", onOnline);
    globalThis.document?.addEventListener("visibilitychange", onVisible);
    quietly(refresh());
    realtime.start();
  }

  function rest(): void {
    clearTimeout(graceTimer);
    if (!isActive) return;
    isActive = false;
    clearTimeout(healTimer);
    healTimer = undefined;
    globalThis.removeEventListener?.("online", onOnline);
    globalThis.document?.removeEventListener("visibilitychange", onVisible);
    realtime.stop();
  }

  // A connection from before the network was lost is likely dead, though nobody said so.
  const onOnline = () => realtime.hurry(true);
  const onVisible = () => {
    if (globalThis.document.visibilityState === "visible") realtime.hurry(false);
  };

  return {
    getSnapshot: () => snapshot,
    subscribe(listener) {
      // Its own function, so that one listener given twice counts twice.
      const own = () => listener();
      if (isClosed) return () => undefined;
      listeners.add(own);
      activate();
      return () => {
        if (!listeners.delete(own) || listeners.size > 0 || isClosed) return;
        graceTimer = setTimeout(rest, GRACE_MS);
      };
    },
    async refresh() {
      refuseClosed();
      show({ error: null });
      await refresh();
    },
    async recall(query, recallOptions) {
      refuseClosed();
      return api.recall(query, recallOptions);
    },
    addMemory: (memory, writeOptions) => write(() => api.create(memory, writeOptions)),
    updateMemory: (id, changes, writeOptions) => write(() => api.replace(id, changes, writeOptions)),
    async removeMemory(id) {
      refuseClosed();
      dispatch({ type: "removing", id });
      try {
        await api.retire(id);
      } catch (fault) {
        dispatch({ type: "kept", id });
        throw failed(fault);
      }
      dispatch({ type: "removed", id }, { error: null });
      confirmSoon(id);
    },
    close() {
      rest();
      isClosed = true;
      listeners.clear();
      for (const timer of timers) clearTimeout(timer);
    },
  };
}

function asError(fault: unknown): Error {
  return fault instanceof Error ? fault : new MemoryError("NETWORK_ERROR", String(fault), { retryable: true });
}

function quietly(work: Promise<unknown>): void {
  work.catch(() => undefined);
}
