import { MemoryError, type MemoryStore } from "memlane";
import { afterAll, afterEach, beforeAll, expect, inject, test } from "vitest";

import { App, contents, isConnected, Network, openStore, serverAdd, serverList, sleep, until } from "../support/app.js";

const deployment = inject("deployment");
let app: App;
const stores: MemoryStore[] = [];
let users = 0;
const newUser = () => `store-${++users}-${Date.now()}`;

beforeAll(async () => {
  app = await App.create(deployment);
});
afterEach(() => {
  for (const store of stores.splice(0)) store.close();
});
afterAll(() => app.close());

async function connect(user: string, network = new Network(), options = {}): Promise<MemoryStore> {
  const store = openStore(app, user, network, options);
  stores.push(store);
  store.subscribe(() => undefined);
  await until(() => isConnected(store) && !store.getSnapshot().isLoading, "connected");
  return store;
}

test("a save in one appears in the other in under a second, and tells what it came to", async () => {
  const user = newUser();
  const [one, other] = [await connect(user), await connect(user)];
  const saved = await one.addMemory({ content: "Lives in Oslo.", kind: "topical", sourceThreadIds: ["t1"] });
  expect(saved).toMatchObject({ content: "Lives in Oslo.", scope: "user", absorbed: false, retiredId: null });
  await until(() => contents(other).length === 1, "the other shows it", 1000);
  expect(other.getSnapshot().memories[0]).toMatchObject({ id: saved.id, sourceThreadIds: ["t1"] });
  expect(one.getSnapshot().memories).toEqual(other.getSnapshot().memories);
});

test("an absorb changes the row in place, a supersede replaces it, a removal takes it away: in both", async () => {
  const user = newUser();
  const [one, other] = [await connect(user), await connect(user)];
  const first = await one.addMemory({ content: "Prefers tea.", kind: "operational" });
  const absorbed = await one.addMemory({ content: "PREFERS TEA.", kind: "operational" });
  expect(absorbed).toMatchObject({ id: first.id, absorbed: true });
  await until(() => contents(other)[0] === "PREFERS TEA.", "the newer wording");
  const replaced = await other.updateMemory(first.id, { content: "Prefers coffee.", kind: "operational" });
  expect(replaced.retiredId).toBe(first.id);
  expect(contents(other)).toEqual(["Prefers coffee."]);
  await until(() => contents(one)[0] === "Prefers coffee." && contents(one).length === 1, "the replacement");
  const removing = one.removeMemory(replaced.id);
  expect(contents(one)).toEqual([]);
  await removing;
  await until(() => contents(other).length === 0, "gone");
});

test("memories of the project reach every user, those of a user nobody else; one socket serves both", async () => {
  const [ann, bob] = [newUser(), newUser()];
  const network = new Network();
  const [one, other] = [await connect(ann, network), await connect(bob)];
  await one.addMemory({ content: "Ann alone.", kind: "topical" });
  const shared = await one.addMemory({ content: `For all ${ann}.`, kind: "topical", scope: "project" });
  await until(() => contents(other).includes(`For all ${ann}.`), "the project's memory");
  expect(contents(other)).not.toContain("Ann alone.");
  expect(network.upgrades).toHaveLength(1);
  await one.removeMemory(shared.id);
});

test("an outage of any length is survived: unavailable for a while, then everything that was missed", async () => {
  const user = newUser();
  const network = new Network();
  const store = await connect(user, network);
  network.goOffline();
  await until(() => store.getSnapshot().realtimeStatus === "connecting", "connecting");
  await serverAdd(deployment, user, "Said meanwhile.");
  await until(() => store.getSnapshot().realtimeStatus === "unavailable", "unavailable", 15_000);
  const refused = await store.addMemory({ content: "Lost.", kind: "topical" }).catch((error: unknown) => error);
  expect(refused).toBeInstanceOf(MemoryError);
  expect(refused).toMatchObject({ code: "NETWORK_ERROR", retryable: true, status: 0 });
  network.isOnline = true;
  await until(() => isConnected(store), "connected again");
  await until(() => contents(store).includes("Said meanwhile."), "what was missed");
  expect(store.getSnapshot().memories).toEqual(await serverList(deployment, user));
});

test("after a clean reconnect no row is replayed, and what was missed arrives once, without a new list", async () => {
  const user = newUser();
  let lists = 0;
  const network = new Network();
  const counted: typeof fetch = (input, init) => {
    if (init?.method === "GET") lists += 1;
    return network.fetch(input, init);
  };
  const store = await connect(user, network, { fetch: counted });
  for (let n = 0; n < 5; n += 1) await store.addMemory({ content: `Row number ${n}.`, kind: "topical" });
  await until(() => network.events().length === 5, "five events");
  for (let round = 1; round <= 3; round += 1) {
    const before = network.upgrades.length;
    network.frames.length = 0;
    network.cut();
    await until(() => network.upgrades.length > before && isConnected(store), "connected again");
    await sleep(300);
    expect(network.events()).toEqual([]);
  }
  network.goOffline();
  await until(() => !isConnected(store), "offline");
  for (const content of ["Alpha.", "Beta.", "Gamma."]) await serverAdd(deployment, user, content);
  network.isOnline = true;
  await until(() => contents(store).length === 8, "the missed rows");
  await sleep(300);
  expect(network.events().map((frame) => frame.payload.operation)).toEqual(["updated", "updated", "updated"]);
  expect(lists).toBe(1);
});

test("a session that was ended gets new credentials by itself", async () => {
  const user = newUser();
  const network = new Network();
  const store = await connect(user, network);
  await fetch(`${app.url}/memories/subscribe`, { method: "DELETE", headers: { "x-test-user": user } });
  await until(() => !isConnected(store), "the session ends");
  await serverAdd(deployment, user, "After the log-out.");
  await until(() => isConnected(store), "connected again", 15_000);
  await until(() => contents(store).includes("After the log-out."), "what was missed");
  expect(new Set(network.upgrades.map(({ offers }) => offers[1])).size).toBe(2);
  for (const { url } of network.upgrades) expect(new URL(url).search).toBe("?vsn=2.0.0");
});

test("a list comes page by page", async () => {
  const user = newUser();
  const network = new Network();
  for (let n = 0; n < 7; n += 1) await serverAdd(deployment, user, `Page row ${n}.`);
  const paths: string[] = [];
  const paged: typeof fetch = (input, init) => {
    const url = new URL(String(input));
    if (init?.method === "GET") {
      url.searchParams.set("limit", "3");
      paths.push(url.search);
    }
    return network.fetch(url, init);
  };
  const store = await connect(user, network, { fetch: paged });
  expect(paths).toHaveLength(3);
  expect(contents(store)).toEqual([6, 5, 4, 3, 2, 1, 0].map((n) => `Page row ${n}.`));
});

test("recall finds by meaning and leaves the list alone; it can be aborted", async () => {
  const user = newUser();
  const store = await connect(user);
  await store.addMemory({ content: "Prefers concise status updates.", kind: "operational" });
  await store.addMemory({ content: "Has a dog named Rex.", kind: "topical" });
  const before = store.getSnapshot();
  const found = await store.recall("how does this user like updates", { limit: 2, scope: "user" });
  expect(found.memories[0]?.content).toBe("Prefers concise status updates.");
  expect(found.memories[0]?.score).toBeGreaterThan(0);
  expect(store.getSnapshot().memories).toEqual(before.memories);
  const abort = new AbortController();
  const aborted = store.recall("dog", { signal: abort.signal });
  abort.abort();
  await expect(aborted).rejects.toMatchObject({ name: "AbortError" });
});

test("errors of the service keep their code; the fault of a write stands until it is answered for", async () => {
  const user = newUser();
  const store = await connect(user);
  const fault: unknown = await store.addMemory({ content: " ", kind: "topical" }).catch((error: unknown) => error);
  expect(fault).toMatchObject({ name: "MemoryError", code: "MEMORY_VALIDATION_ERROR", status: 400, retryable: false });
  expect(store.getSnapshot().error).toBe(fault);
  await store.addMemory({ content: "Fine.", kind: "topical" });
  expect(store.getSnapshot().error).toBeNull();
  const missing = await store.removeMemory("01900000-0000-7000-8000-000000000000").catch((error: unknown) => error);
  expect(missing).toMatchObject({ code: "MEMORY_NOT_FOUND", status: 404 });
  expect(contents(store)).toEqual(["Fine."]);
});

test("a removal that fails brings the row back", async () => {
  const user = newUser();
  const network = new Network();
  const store = await connect(user, network);
  const { id } = await store.addMemory({ content: "Stays.", kind: "topical" });
  network.isOnline = false;
  const removing = store.removeMemory(id);
  expect(contents(store)).toEqual([]);
  await expect(removing).rejects.toMatchObject({ code: "NETWORK_ERROR" });
  expect(contents(store)).toEqual(["Stays."]);
});

test("without a socket the list still works, and a removal stays removed", async () => {
  const user = newUser();
  const network = new Network();
  const store = openStore(app, user, network, { WebSocket: {} });
  stores.push(store);
  store.subscribe(() => undefined);
  await until(() => store.getSnapshot().realtimeStatus === "unavailable", "unavailable");
  const { id } = await store.addMemory({ content: "Soon gone.", kind: "topical" });
  expect(contents(store)).toEqual(["Soon gone."]);
  await store.removeMemory(id);
  await store.refresh();
  expect(contents(store)).toEqual([]);
});

test("an idempotency key makes a retry harmless", async () => {
  const user = newUser();
  const store = await connect(user);
  const draft = { content: "Only once.", kind: "episodic" as const };
  const first = await store.addMemory(draft, { idempotencyKey: `key-${user}` });
  const again = await store.addMemory(draft, { idempotencyKey: `key-${user}` });
  expect(again).toEqual(first);
});

test("the socket closes after the last subscriber, and the next one resumes", async () => {
  const user = newUser();
  const network = new Network();
  const store = openStore(app, user, network);
  stores.push(store);
  const ends = [store.subscribe(() => undefined), store.subscribe(() => undefined)];
  await until(() => isConnected(store), "connected");
  ends[0]?.();
  ends[0]?.();
  await sleep(1300);
  expect(isConnected(store)).toBe(true);
  ends[1]?.();
  await sleep(1300);
  expect(isConnected(store)).toBe(false);
  await serverAdd(deployment, user, "While it rested.");
  store.subscribe(() => undefined);
  await until(() => isConnected(store) && contents(store).length === 1, "resumed");
});

test("the snapshot is one object until something changes", async () => {
  const user = newUser();
  const store = await connect(user);
  await store.addMemory({ content: "Still.", kind: "topical" });
  await sleep(300);
  const before = store.getSnapshot();
  await store.refresh();
  expect(store.getSnapshot()).toBe(before);
});

test("a closed store refuses", async () => {
  const store = openStore(app, newUser());
  store.close();
  await expect(store.refresh()).rejects.toMatchObject({ code: "CLOSED" });
});
