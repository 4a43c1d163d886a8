export { MemoryError } from "./errors.js";
export type { HeadersOption } from "./api.js";
export type { BackoffOptions } from "./realtime.js";
export { createMemoryStore, initialSnapshot, type MemoryStore, type MemoryStoreOptions } from "./store.js";
export type {
  Memory,
  MemoryChanges,
  MemoryKind,
  MemoryScope,
  MemorySnapshot,
  NewMemory,
  RealtimeStatus,
  Recall,
  RecalledMemory,
  RecallOptions,
  WriteOptions,
  WrittenMemory,
} from "./types.js";
