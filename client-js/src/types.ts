/** What a memory is: a durable fact, something that happened, or a preference or working instruction. */
export type MemoryKind = "topical" | "episodic" | "operational";

/** Who sees a memory: one user of the project, or all of them. */
export type MemoryScope = "user" | "project";

/** One memory. Times are RFC 3339 in UTC. */
export interface Memory {
  readonly id: string;
  readonly kind: MemoryKind;
  readonly scope: MemoryScope;
  readonly content: string;
  readonly sourceThreadIds: readonly string[];
  /** When it was retired; null while it is live. */
  readonly invalidatedAt: string | null;
  readonly createdAt: string;
  readonly updatedAt: string;
  /** When it was last recalled, as far as this client was told. */
  readonly recalledAt: string | null;
}

/** What to save. `content`: 1 to 8192 characters. `scope`: "user" by default. */
export interface NewMemory {
  readonly content: string;
  readonly kind: MemoryKind;
  readonly scope?: MemoryScope;
  /** At most 100, each of 1 to 256 characters. */
  readonly sourceThreadIds?: readonly string[];
}

/**
 * A full replacement, as in the REST contract: what is left out is not kept, and `scope` (by default "user") must be the
 * scope of the memory that is replaced.
 */
export type MemoryChanges = NewMemory;

/** What a write came to. */
export interface WrittenMemory extends Memory {
  /** True when a live memory said the same already: that one is returned, and no second row was made. */
  readonly absorbed: boolean;
  /** Close live neighbours of a stored row, at most 3, so that one can be replaced on purpose. */
  readonly similar: readonly { readonly id: string; readonly score: number }[];
  /** Of an update: the id of the row that was retired. */
  readonly retiredId: string | null;
}

/** A recalled memory; `score` is in 0..1. */
export interface RecalledMemory extends Memory {
  readonly score: number;
}

/** What a recall found, best first. */
export interface Recall {
  readonly memories: readonly RecalledMemory[];
  /** What was missing, for example "embedder": then only words were compared. */
  readonly degraded: readonly string[];
}

export interface RecallOptions {
  /** 1 to 20; 5 by default. */
  readonly limit?: number;
  readonly scope?: MemoryScope;
  readonly kind?: MemoryKind;
  /** 0..1. */
  readonly minScore?: number;
  /** Fail rather than compare words only. */
  readonly strict?: boolean;
  /** Ends the request; the promise rejects with the signal's reason. */
  readonly signal?: AbortSignal;
}

export interface WriteOptions {
  /** 1 to 128 characters: a retry with the same key within a day gets the first answer again. */
  readonly idempotencyKey?: string;
}

/** The state of the live stream. It never gives up: "unavailable" turns into "connected" once it can. */
export type RealtimeStatus = "connecting" | "connected" | "unavailable";

/** What `getSnapshot` returns: the same object until something changes. */
export interface MemorySnapshot {
  /** Live memories, by `createdAt` then `id`, newest first. */
  readonly memories: readonly Memory[];
  /** True until the first list answer. */
  readonly isLoading: boolean;
  /** The latest fault of a list or a write; cleared by the next success of its kind and by `refresh`. */
  readonly error: Error | null;
  /** False when memory is not supported or not entitled here (404 or 501). */
  readonly isAvailable: boolean;
  readonly realtimeStatus: RealtimeStatus;
}
