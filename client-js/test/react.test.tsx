import { createMemoryStore, type MemorySnapshot, type MemoryStore, type Recall } from "memlane";
import { MemoryProvider, useMemories, useMemoryRecall, useMemoryStore } from "memlane/react";
import { act, StrictMode, useState, version, type ReactNode } from "react";
import { createRoot, hydrateRoot, type Root } from "react-dom/client";
import { renderToString } from "react-dom/server";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";

(globalThis as { IS_REACT_ACT_ENVIRONMENT?: boolean }).IS_REACT_ACT_ENVIRONMENT = true;

const roots: Root[] = [];
let page: HTMLElement;

beforeEach(() => {
  vi.useFakeTimers();
  page = document.createElement("main");
});
afterEach(async () => {
  await act(async () => roots.splice(0).forEach((root) => root.unmount()));
  vi.useRealTimers();
});

async function show(node: ReactNode): Promise<Root> {
  const root = createRoot(page);
  roots.push(root);
  await act(async () => root.render(node));
  return root;
}

const wait = (ms: number) => act(async () => void (await vi.advanceTimersByTimeAsync(ms)));
const row = (id: string, content: string) => ({
  id,
  kind: "topical",
  scope: "user",
  content,
  sourceThreadIds: [],
  invalidatedAt: null,
  createdAt: "2026-01-01T00:00:00Z",
  updatedAt: "2026-01-01T00:00:00Z",
  recalledAt: null,
});

/** A handler that holds one list, and counts. */
function fakeHandler() {
  const asked: string[] = [];
  let seq = 1;
  let memories = [row("m1", "First.")];
  let isFailing = false;
  const fetchIt: typeof fetch = async (input, init) => {
    const path = String(input).slice("/api/memories".length);
    asked.push(`${init?.method} ${path}`);
    if (path === "/subscribe")
      return Response.json({ joinToken: "t", joinCode: "c", wsUrl: "ws://stream.test/client" });
    if (isFailing) return Response.json({ error: { code: "STORAGE_UNAVAILABLE", message: "Later." } }, { status: 503 });
    seq += 1;
    if (init?.method === "POST") {
      const added = row(`m${seq}`, (JSON.parse(String(init.body)) as { content: string }).content);
      memories = [added, ...memories];
      return Response.json({ ...added, absorbed: false, similar: [], epoch: "e", seq }, { status: 201 });
    }
    if (init?.method === "DELETE") {
      memories = memories.filter((one) => `/${one.id}` !== path);
      return new Response(null, { status: 204 });
    }
    return Response.json({ memories, positions: { user: { epoch: "e", seq } } });
  };
  return { fetch: fetchIt, asked, fail: (failing: boolean) => (isFailing = failing) };
}

/** A socket that opens and answers joins, and counts how many there are. */
function fakeSockets() {
  const open = new Set<object>();
  let made = 0;
  class FakeWebSocket {
    readyState = 0;
    bufferedAmount = 0;
    onopen: (() => void) | null = null;
    onclose: ((event: object) => void) | null = null;
    onmessage: ((event: { data: string }) => void) | null = null;
    constructor() {
      made += 1;
      open.add(this);
      setTimeout(() => {
        this.readyState = 1;
        this.onopen?.();
      }, 1);
    }
    send(text: string) {
      const [joinRef, ref, topic, event, payload] = JSON.parse(text) as [
        string,
        string,
        string,
        string,
        { last: object | null },
      ];
      if (event !== "phx_join") return;
      const response = { epoch: "e", seq: 0, ...payload.last, recovered: payload.last !== null };
      setTimeout(() => {
        this.onmessage?.({ data: JSON.stringify([joinRef, ref, topic, "phx_reply", { status: "ok", response }]) });
      }, 1);
    }
    close() {
      open.delete(this);
      this.readyState = 3;
      this.onclose?.({ code: 1000 });
    }
  }
  return { WebSocket: FakeWebSocket, open, made: () => made };
}

function List({ name = "list" }: { name?: string }) {
  const { memories, isLoading, realtimeStatus, removeMemory, error } = useMemories();
  return (
    <section id={name}>
      <p>{isLoading ? "loading" : realtimeStatus}</p>
      <ul>
        {memories.map((memory) => (
          <li key={memory.id}>{memory.content}</li>
        ))}
      </ul>
      <em>{error?.message}</em>
      <button onClick={() => void removeMemory("m1").catch(() => undefined)}>Forget</button>
    </section>
  );
}

const items = (name = "list") => [...page.querySelectorAll(`#${name} li`)].map((item) => item.textContent);
const status = (name = "list") => page.querySelector(`#${name} p`)?.textContent;

test("runs with the React that is meant", () => {
  expect(version.split(".")[0]).toBe(process.env.REACT_MAJOR);
});

describe("useMemories", () => {
  test("shows the list and the state of the stream, and what is saved", async () => {
    const [handler, sockets] = [fakeHandler(), fakeSockets()];
    let add: MemoryStore["addMemory"] | undefined;
    function Adder() {
      add = useMemories().addMemory;
      return null;
    }
    await show(
      <MemoryProvider runtimeUrl="/api" fetch={handler.fetch} WebSocket={sockets.WebSocket}>
        <List />
        <Adder />
      </MemoryProvider>,
    );
    await wait(50);
    expect(status()).toBe("connected");
    expect(items()).toEqual(["First."]);
    await act(async () => expect((await add?.({ content: "Second.", kind: "topical" }))?.absorbed).toBe(false));
    expect(items()).toEqual(["Second.", "First."]);
  });

  test("one socket and one list serve many components, in StrictMode and through remounts", async () => {
    const [handler, sockets] = [fakeHandler(), fakeSockets()];
    const tree = (names: string[]) => (
      <StrictMode>
        <MemoryProvider runtimeUrl="/api" fetch={handler.fetch} WebSocket={sockets.WebSocket} headers={{ "x-a": "b" }}>
          {names.map((name) => (
            <List key={name} name={name} />
          ))}
        </MemoryProvider>
      </StrictMode>
    );
    const root = await show(tree(["a", "b", "c"]));
    await wait(50);
    await act(async () => root.render(tree(["c"])));
    await wait(2000);
    await act(async () => root.render(tree([])));
    await wait(500);
    await act(async () => root.render(tree(["d"])));
    await wait(2000);
    expect(sockets.made()).toBe(1);
    expect(handler.asked).toEqual(["GET ", "POST /subscribe"]);
    expect([status("d"), items("d")]).toEqual(["connected", ["First."]]);
    await act(async () => root.render(tree([])));
    await wait(5000);
    expect(sockets.open.size).toBe(0);
  });

  test("a removal shows at once and is undone when it fails", async () => {
    const [handler, sockets] = [fakeHandler(), fakeSockets()];
    await show(
      <MemoryProvider runtimeUrl="/api" fetch={handler.fetch} WebSocket={sockets.WebSocket}>
        <List />
      </MemoryProvider>,
    );
    await wait(50);
    handler.fail(true);
    const button = page.querySelector("button") as HTMLButtonElement;
    // Without waiting: the click alone takes it away.
    act(() => button.click());
    expect(items()).toEqual([]);
    await wait(50);
    expect(items()).toEqual(["First."]);
    expect(page.querySelector("em")?.textContent).toBe("Later.");
    handler.fail(false);
    await act(async () => button.click());
    await wait(50);
    expect(items()).toEqual([]);
  });

  test("renders on a server without a request, and takes over in the browser without a complaint", async () => {
    const [handler, sockets] = [fakeHandler(), fakeSockets()];
    const complaints = vi.spyOn(console, "error").mockImplementation(() => undefined);
    const tree = (
      <MemoryProvider runtimeUrl="/api" fetch={handler.fetch} WebSocket={sockets.WebSocket}>
        <List />
      </MemoryProvider>
    );
    const html = renderToString(tree);
    expect(html).toContain("loading");
    expect(handler.asked).toEqual([]);
    page.innerHTML = html;
    await act(async () => {
      roots.push(hydrateRoot(page, tree));
    });
    await wait(50);
    expect(items()).toEqual(["First."]);
    expect(complaints).not.toHaveBeenCalled();
    complaints.mockRestore();
  });

  test("another user is another store: nothing of the first is shown", async () => {
    const stores = ["ann", "bob"].map((name) =>
      stillStore({ memories: [row("m", `${name}'s`)] as never, isLoading: false }),
    );
    const root = await show(
      <MemoryProvider store={stores[0] as MemoryStore}>
        <List />
      </MemoryProvider>,
    );
    expect(items()).toEqual(["ann's"]);
    await act(async () =>
      root.render(
        <MemoryProvider store={stores[1] as MemoryStore}>
          <List />
        </MemoryProvider>,
      ),
    );
    expect(items()).toEqual(["bob's"]);
  });

  test("says what is missing when there is no provider", () => {
    const complaints = vi.spyOn(console, "error").mockImplementation(() => undefined);
    function Bare() {
      useMemoryStore();
      return null;
    }
    expect(() => renderToString(<Bare />)).toThrow("MemoryProvider");
    complaints.mockRestore();
  });
});

/** A store that only shows; `recall` can be replaced. */
function stillStore(
  changes: Partial<MemorySnapshot>,
  recall: MemoryStore["recall"] = async () => ({ memories: [], degraded: [] }),
) {
  const store = createMemoryStore({ runtimeUrl: "/nowhere" });
  const snapshot = { ...store.getSnapshot(), ...changes };
  return { ...store, getSnapshot: () => snapshot, subscribe: () => () => undefined, recall };
}

describe("useMemoryRecall", () => {
  function Search({ debounceMs = 250 }: { debounceMs?: number }) {
    const [query, setQuery] = useState("");
    const { memories, isLoading, error } = useMemoryRecall(query, { limit: 3, debounceMs });
    return (
      <div>
        <input value={query} onChange={(event) => setQuery(event.target.value)} />
        <p>{isLoading ? "searching" : (error?.message ?? memories.map((memory) => memory.content).join())}</p>
      </div>
    );
  }

  function type(text: string) {
    const input = page.querySelector("input") as HTMLInputElement;
    Object.getOwnPropertyDescriptor(Object.getPrototypeOf(input), "value")?.set?.call(input, text);
    return act(async () => void input.dispatchEvent(new Event("input", { bubbles: true })));
  }

  const text = () => page.querySelector("p")?.textContent;

  test("asks once the typing rests, aborts what is out of date, and shows the answer to the last query", async () => {
    const asked: { query: string; signal: AbortSignal; answer: (found: Recall) => void }[] = [];
    const recall: MemoryStore["recall"] = (query, options) =>
      new Promise((answer) => asked.push({ query, signal: options?.signal as AbortSignal, answer }));
    await show(
      <MemoryProvider store={stillStore({}, recall)}>
        <Search />
      </MemoryProvider>,
    );
    document.body.append(page);
    for (const query of ["d", "do", "dog"]) {
      await type(query);
      await wait(100);
    }
    expect(asked).toEqual([]);
    await wait(200);
    expect(asked.map((one) => one.query)).toEqual(["dog"]);
    expect(text()).toBe("searching");
    await type("dog food");
    expect(asked[0]?.signal.aborted).toBe(true);
    await wait(300);
    const found = (content: string): Recall => ({
      memories: [{ ...row("m", content), score: 1 } as never],
      degraded: [],
    });
    await act(async () => asked[1]?.answer(found("of the last")));
    await act(async () => asked[0]?.answer(found("late")));
    expect(text()).toBe("of the last");
    await type(" ");
    expect(text()).toBe("");
  });

  test("shows an error, and aborts when it goes away", async () => {
    let signal: AbortSignal | undefined;
    const recall: MemoryStore["recall"] = (query, options) => {
      signal = options?.signal;
      return query === "bad" ? Promise.reject(new Error("No.")) : new Promise(() => undefined);
    };
    const root = await show(
      <MemoryProvider store={stillStore({}, recall)}>
        <Search debounceMs={0} />
      </MemoryProvider>,
    );
    document.body.append(page);
    await type("bad");
    await wait(10);
    expect(text()).toBe("No.");
    await type("good");
    await wait(10);
    await act(async () => root.unmount());
    roots.length = 0;
    expect(signal?.aborted).toBe(true);
  });
});
