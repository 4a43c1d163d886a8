/**
 * Keeps a subscription alive for as long as it is wanted. It never gives up: it only waits longer between tries, and says
 * "unavailable" once a connection has been missing for a while.
 */
import type { MemorySocket, SocketLife } from "./socket.js";
import type { RealtimeStatus } from "./types.js";
import type { Credentials } from "./wire.js";

/** How long a connection may be missing before the status says so. */
const UNAVAILABLE_AFTER_MS = 10_000;
/** A connection that lasted so long starts the backoff anew; a shorter one may be a server that accepts and closes. */
const STABLE_AFTER_MS = 5_000;

export interface BackoffOptions {
  /** Longest first wait; 500 by default. */
  readonly baseMs?: number;
  /** Longest wait; 15,000 by default. */
  readonly maxMs?: number;
}

export interface RealtimeOptions {
  readonly socket: MemorySocket;
  readonly backoff: BackoffOptions | undefined;
  readonly wsUrl: string | undefined;
  readonly hasTransport: () => boolean;
  /** Fetches new credentials; may reject. */
  credentials(): Promise<Credentials>;
  /** Settles when a join may be sent: when the first list has come or failed. */
  ready(): Promise<unknown>;
  readonly positionOf: SocketLife["positionOf"];
  readonly onJoined: SocketLife["onJoined"];
  readonly onEvent: SocketLife["onEvent"];
  onLeft(): void;
  onStatus(status: RealtimeStatus): void;
}

export interface Realtime {
  start(): void;
  stop(): void;
  /** Drops the present subscription, which is of no use, and tries again after a wait. */
  restart(): void;
  /** Tries at once if there is no connection, or if what there is `isSuspect`. */
  hurry(isSuspect: boolean): void;
}

/** A wait of random length, doubling with each try, between a fifth of the limit and the limit. */
export function backoffMs(tries: number, { baseMs = 500, maxMs = 15_000 }: BackoffOptions = {}): number {
  return Math.min(maxMs, baseMs * 2 ** Math.min(tries, 16)) * (0.2 + 0.8 * Math.random());
}

export function createRealtime(options: RealtimeOptions): Realtime {
  /** Grows with each attempt and each stop: what belongs to an earlier one is ignored. */
  let life = 0;
  let running = false;
  let connected = false;
  let attempting = false;
  let known: Credentials | null = null;
  let tries = 0;
  let connectedAt = 0;
  let retryTimer: ReturnType<typeof setTimeout> | undefined;
  let statusTimer: ReturnType<typeof setTimeout> | undefined;

  function missing(): void {
    options.onStatus("connecting");
    statusTimer ??= setTimeout(() => options.onStatus("unavailable"), UNAVAILABLE_AFTER_MS);
  }

  function present(): void {
    connected = true;
    connectedAt = Date.now();
    clearTimeout(statusTimer);
    statusTimer = undefined;
    options.onStatus("connected");
  }

  function ended(reason: "lost" | "refused"): void {
    // A server that restarts still takes the same token; one that refuses may want another.
    if (reason === "refused") known = null;
    if (connected && Date.now() - connectedAt >= STABLE_AFTER_MS) tries = 0;
    const wasConnected = connected;
    connected = false;
    attempting = false;
    options.onLeft();
    if (wasConnected) missing();
    retryTimer = setTimeout(() => void attempt(), backoffMs(tries, options.backoff));
    tries += 1;
  }

  async function attempt(): Promise<void> {
    clearTimeout(retryTimer);
    const mine = ++life;
    attempting = true;
    try {
      const [credentials] = await Promise.all([known ?? options.credentials(), options.ready()]);
      if (mine !== life) return;
      known = credentials;
    } catch {
      if (mine === life) ended("refused");
      return;
    }
    const { token, topics, wsUrl } = known;
    const url = options.wsUrl ?? wsUrl;
    if (url === null || !options.hasTransport()) {
      options.onStatus("unavailable");
      ended("refused");
      return;
    }
    let waiting = topics.length;
    options.socket.open({
      wsUrl: url,
      token,
      topics,
      positionOf: options.positionOf,
      onJoined: (...joined) => {
        if (mine !== life) return;
        options.onJoined(...joined);
        waiting -= 1;
        if (waiting > 0 || mine !== life) return;
        attempting = false;
        present();
      },
      onEvent: (...event) => {
        if (mine === life) options.onEvent(...event);
      },
      onEnd: (reason) => {
        if (mine === life) ended(reason);
      },
    });
  }

  function drop(): void {
    life += 1;
    attempting = false;
    clearTimeout(retryTimer);
    options.socket.close();
    connected = false;
    options.onLeft();
  }

  return {
    start() {
      if (running) return;
      running = true;
      tries = 0;
      missing();
      void attempt();
    },
    stop() {
      if (!running) return;
      running = false;
      drop();
      clearTimeout(statusTimer);
      statusTimer = undefined;
      options.onStatus("connecting");
    },
    restart() {
      if (!running) return;
      const wasConnected = connected;
      drop();
      if (wasConnected) missing();
      retryTimer = setTimeout(() => void attempt(), backoffMs(tries, options.backoff));
      tries += 1;
    },
    hurry(isSuspect) {
      if (!running || (!isSuspect && (connected || attempting))) return;
      const wasConnected = connected;
      drop();
      if (wasConnected) missing();
      tries = 0;
      void attempt();
    },
  };
}
