import type { MemoryKind, MemoryStore } from "memlane";
import { afterAll, beforeAll, expect, inject, test } from "vitest";

import { App, isConnected, Network, openStore, randomOf, serverList, sleep, until } from "../support/app.js";

const RUNS = 50;
const STEPS = 14;
const AT_ONCE = 5;

const deployment = inject("deployment");
let app: App;

beforeAll(async () => {
  app = await App.create(deployment);
});
afterAll(() => app.close());

/** Two pages of one user write at random while answers are late or lost and sockets are cut. */
async function run(seed: number): Promise<void> {
  const random = randomOf(seed);
  const user = `run-${seed}-${Date.now()}`;
  const networks = [new Network(seed * 2), new Network(seed * 2 + 1)];
  const stores = networks.map((network) => openStore(app, user, network));
  try {
    for (const store of stores) store.subscribe(() => undefined);
    for (const network of networks) {
      network.delayMs = 250;
      network.lossPercent = 10;
    }
    const working: Promise<unknown>[] = [];
    for (let step = 0; step < STEPS; step += 1) {
      const at = random() < 0.5 ? 0 : 1;
      working.push(act(stores[at] as MemoryStore, networks[at] as Network, random).catch(() => undefined));
      await sleep(random() * 80);
    }
    await Promise.all(working);
    for (const network of networks) {
      network.isOnline = true;
      network.lossPercent = 0;
    }
    await until(() => stores.every(isConnected), `seed ${seed}: connected`);
    const truth = await serverList(deployment, user);
    const isEqual = (store: MemoryStore) => JSON.stringify(store.getSnapshot().memories) === JSON.stringify(truth);
    await until(() => stores.every(isEqual), `seed ${seed}: equal`).catch(() => undefined);
    for (const store of stores) expect(store.getSnapshot().memories, `seed ${seed}`).toEqual(truth);
  } finally {
    for (const store of stores) store.close();
  }
}

async function act(store: MemoryStore, network: Network, random: () => number): Promise<unknown> {
  const { memories } = store.getSnapshot();
  const own = memories.filter((memory) => memory.scope === "user");
  const target = own[Math.floor(random() * own.length)];
  // Few texts, so that some saves say what is there already.
  const content = `Fact number ${Math.floor(random() * 8)} of this run.`;
  const kind: MemoryKind = "topical";
  const choice = random();
  if (choice < 0.4) return store.addMemory({ content, kind });
  if (choice < 0.55 && target) return store.updateMemory(target.id, { content: `${content} Revised.`, kind });
  if (choice < 0.7 && target) return store.removeMemory(target.id);
  if (choice < 0.8) return store.refresh();
  if (choice < 0.93) return network.cut();
  network.goOffline();
  await sleep(random() * 400);
  network.isOnline = true;
  return undefined;
}

test(`in ${RUNS} seeded runs every page ends equal to the service's list`, async () => {
  const seeds = Array.from({ length: RUNS }, (_, index) => index + 1);
  await Promise.all(
    Array.from({ length: AT_ONCE }, async () => {
      for (let seed = seeds.shift(); seed !== undefined; seed = seeds.shift()) await run(seed);
    }),
  );
});
