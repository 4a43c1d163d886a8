"use client";
import {
  createContext,
  createElement,
  useContext,
  useMemo,
  useRef,
  useSyncExternalStore,
  type ReactElement,
  type ReactNode,
} from "react";

import { createMemoryStore, initialSnapshot, type MemoryStore, type MemoryStoreOptions } from "./store.js";
import type { MemorySnapshot } from "./types.js";

const StoreContext = createContext<MemoryStore | null>(null);

/** Either options for a store of its own, or a store that you made. */
export type MemoryProviderProps = { readonly children?: ReactNode } & (
  ({ readonly store?: undefined } & MemoryStoreOptions) | { readonly store: MemoryStore }
);

/**
 * Gives the components below it one store, and so one socket. It connects while a component uses it.
 *
 * The handler decides who the user is. When that changes, give the provider another `key`: another user's list must
 * not be shown for a moment.
 */
export function MemoryProvider(props: MemoryProviderProps): ReactElement {
  const latest = useRef(props);
  latest.current = props;
  const { store: given, children } = props;
  const { runtimeUrl, wsUrl } = given === undefined ? props : {};
  const store = useMemo(
    () => given ?? createMemoryStore(lateOptions(runtimeUrl ?? "", wsUrl, () => latest.current as MemoryStoreOptions)),
    [given, runtimeUrl, wsUrl],
  );
  return createElement(StoreContext.Provider, { value: store }, children);
}

/** The provider's store, for what is not a component. */
export function useMemoryStore(): MemoryStore {
  const store = useContext(StoreContext);
  if (store === null) throw new Error("There is no MemoryProvider above this component.");
  return store;
}

export interface UseMemoriesResult extends MemorySnapshot {
  readonly refresh: MemoryStore["refresh"];
  readonly recall: MemoryStore["recall"];
  readonly addMemory: MemoryStore["addMemory"];
  readonly updateMemory: MemoryStore["updateMemory"];
  readonly removeMemory: MemoryStore["removeMemory"];
}

/** The live list and what can be done with it. The functions are the same at each render. */
export function useMemories(): UseMemoriesResult {
  const store = useMemoryStore();
  const snapshot = useSyncExternalStore(store.subscribe, store.getSnapshot, () => initialSnapshot);
  const { refresh, recall, addMemory, updateMemory, removeMemory } = store;
  return useMemo(
    () => ({ ...snapshot, refresh, recall, addMemory, updateMemory, removeMemory }),
    [snapshot, refresh, recall, addMemory, updateMemory, removeMemory],
  );
}

/** Inline `headers` and `fetch` are new at each render: the store asks for the latest instead of being made anew. */
function lateOptions(
  runtimeUrl: string,
  wsUrl: string | undefined,
  latest: () => MemoryStoreOptions,
): MemoryStoreOptions {
  const { WebSocket, backoff } = latest();
  return {
    runtimeUrl,
    ...(wsUrl !== undefined && { wsUrl }),
    ...(WebSocket !== undefined && { WebSocket }),
    ...(backoff !== undefined && { backoff }),
    headers: () => {
      const { headers } = latest();
      return typeof headers === "function" ? headers() : (headers ?? {});
    },
    fetch: (...args) => (latest().fetch ?? globalThis.fetch)(...args),
  };
}
