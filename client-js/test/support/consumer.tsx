// An app in strict TypeScript: compiled against the published package, never run.
import { createMemoryStore, MemoryError, type Memory, type WrittenMemory } from "memlane";
import { MemoryProvider, useMemories, useMemoryRecall } from "memlane/react";
import { createMemoryHandler, nodeListener } from "memlane/server";

export const handler: (request: Request) => Promise<Response> = createMemoryHandler({
  apiUrl: "http://a",
  wsUrl: "ws://a/client",
  apiKey: "cpk-x",
  identifyUser: async (request) => ({ id: request.url, name: "Ada" }),
  access: ({ user }) => (user.name === "Ada" ? { user: "read-write", project: "read" } : null),
});
export const listener = nodeListener(handler);

export function List() {
  const { memories, addMemory, realtimeStatus, recall } = useMemories();
  const { memories: found } = useMemoryRecall("x", { limit: 3, debounceMs: 100 });
  const status: "connecting" | "connected" | "unavailable" = realtimeStatus;
  const add = async (): Promise<boolean> => (await addMemory({ content: "a", kind: "topical" })).absorbed;
  const first: number | undefined = found[0]?.score;
  void recall("x", { signal: new AbortController().signal });
  return (
    <button onClick={() => void add()}>
      {status}
      {first}
      {memories.map((one: Memory) => one.content)}
    </button>
  );
}

export const app = (
  <MemoryProvider runtimeUrl="/api">
    <List />
  </MemoryProvider>
);
export const store = createMemoryStore({ runtimeUrl: "/api", headers: () => ({ a: "b" }) });
export const given = <MemoryProvider store={store} />;
export const written: Promise<WrittenMemory> = store.updateMemory("a", { content: "b", kind: "topical" });
export const codeOf = (fault: unknown) => (fault instanceof MemoryError ? fault.code : null);
// @ts-expect-error: another kind
void store.addMemory({ content: "a", kind: "other" });
// @ts-expect-error: a provider needs to know where
export const nowhere = <MemoryProvider />;
