"use client";
export {
  MemoryProvider,
  useMemories,
  useMemoryStore,
  type MemoryProviderProps,
  type UseMemoriesResult,
} from "./react-memories.js";
export { useMemoryRecall, type MemoryRecallResult, type UseMemoryRecallOptions } from "./react-recall.js";
