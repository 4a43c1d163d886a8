"use client";
import { useEffect, useMemo, useState } from "react";

import { useMemoryStore } from "./react-memories.js";
import type { RecalledMemory, RecallOptions } from "./types.js";

export interface UseMemoryRecallOptions extends Omit<RecallOptions, "signal"> {
  /** How long the query must rest before it is sent, in milliseconds; 250 by default. */
  readonly debounceMs?: number;
  /** False keeps the hook quiet. */
  readonly enabled?: boolean;
}

export interface MemoryRecallResult {
  /** Best first. Those of the last query stay until the next answer. */
  readonly memories: readonly RecalledMemory[];
  readonly degraded: readonly string[];
  readonly isLoading: boolean;
  readonly error: Error | null;
}

const NOTHING: MemoryRecallResult = { memories: [], degraded: [], isLoading: false, error: null };

/** Recalls what the query means while it is typed: debounced, and a request that is out of date is aborted. */
export function useMemoryRecall(query: string, options: UseMemoryRecallOptions = {}): MemoryRecallResult {
  const store = useMemoryStore();
  const { debounceMs = 250, enabled = true, limit, scope, kind, minScore, strict } = options;
  const [result, setResult] = useState(NOTHING);
  const text = query.trim();

  const recallOptions = useMemo<RecallOptions>(
    () => ({
      ...(limit !== undefined && { limit }),
      ...(scope !== undefined && { scope }),
      ...(kind !== undefined && { kind }),
      ...(minScore !== undefined && { minScore }),
      ...(strict !== undefined && { strict }),
    }),
    [limit, scope, kind, minScore, strict],
  );

  useEffect(() => {
    if (!enabled || text === "") {
      setResult(NOTHING);
      return;
    }
    const abort = new AbortController();
    setResult((before) => (before.isLoading ? before : { ...before, isLoading: true }));
    const timer = setTimeout(() => {
      store.recall(text, { ...recallOptions, signal: abort.signal }).then(
        (found) => {
          if (!abort.signal.aborted) setResult({ ...found, isLoading: false, error: null });
        },
        (error: Error) => {
          if (!abort.signal.aborted) setResult({ ...NOTHING, error });
        },
      );
    }, debounceMs);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [store, text, enabled, debounceMs, recallOptions]);

  return result;
}
