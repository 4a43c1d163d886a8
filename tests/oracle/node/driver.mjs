// Hosts the simulated users. One JSON object a line: commands on stdin, their answers on stdout.
import { createInterface } from "node:readline";
import { Bff } from "./bff.mjs";
import { StockClient } from "./client.mjs";
import { DIMENSIONS, serveEmbeddings } from "./embedder.mjs";
import { OwnClient } from "./own-client.mjs";
import { randomOf } from "./random.mjs";
import { User } from "./users.mjs";
import "./spy.mjs";

const began = performance.now();
const cores = new Map();
const clients = new Map();
let users = [];
let going = false;
let runs = [];

console.warn = (...words) => process.stderr.write(`${words.join(" ")}\n`);
process.on("unhandledRejection", (fault) => process.stderr.write(`unhandled: ${fault?.stack ?? fault}\n`));

async function coreWith(phoenix) {
  if (!cores.has(phoenix)) cores.set(phoenix, await import(`./phoenix-${phoenix}/entry.mjs`));
  return cores.get(phoenix);
}

const bffs = new Map();

const commands = {
  /** A BFF by name: where clients reach the API. */
  bff({ name, apis, key, seed = 0, slow = false }) {
    bffs.set(name, new Bff(apis, key, randomOf(seed, `bff ${name}`), slow));
  },

  /** Serve embeddings; gives where, and how long a vector is. */
  async embedder() {
    return { url: `http://127.0.0.1:${await serveEmbeddings()}`, dimensions: DIMENSIONS };
  },

  /** Open clients; returns at once. */
  async open({ bff = "main", wsUrl, wanted }) {
    for (const { name, user, phoenix, holds = {} } of wanted) {
      const parts = { name, user, phoenix, bff: bffs.get(bff), wsUrl, began };
      const client =
        phoenix === "own" ? new OwnClient(parts) : new StockClient({ ...parts, core: await coreWith(phoenix) });
      client.holds = holds;
      clients.set(name, client);
      client.open();
    }
  },

  reload({ names }) {
    for (const name of names) clients.get(name).open();
  },

  close({ names }) {
    for (const name of names) {
      clients.get(name).store.stop();
      clients.delete(name);
    }
  },

  /** Let users take random steps until `stop`. */
  start({ bff = "main", seed, pace }) {
    going = true;
    const byUser = Map.groupBy ? Map.groupBy(clients.values(), (client) => client.user) : grouped();
    users = [...byUser].map(([name, own]) => new User(name, own, bffs.get(bff), seed, pace));
    runs = users.map((user) => user.run(() => going));
  },

  /** No more steps; returns when nothing is under way. */
  async stop() {
    going = false;
    await Promise.all(runs);
    const counts = {};
    for (const user of users) for (const [what, n] of Object.entries(user.counts)) counts[what] = (counts[what] ?? 0) + n;
    return counts;
  },

  report({ names = [...clients.keys()] }) {
    return names.map((name) => clients.get(name).report());
  },

  /** Whether every client has all its sockets open. */
  connected() {
    return [...clients.values()].every((client) => client.openSockets.size >= client.socketsWanted);
  },

  journal({ name }) {
    return clients.get(name).journal;
  },

  /** Delay the next answers of a kind to a client, each by so many milliseconds. */
  hold({ name, kind, waits }) {
    clients.get(name).holds[kind] = waits;
  },

  /** One act of a store; returns what came of it when the store says so. */
  async act({ name, act, values = [] }) {
    return (await clients.get(name).store[act](...values)) ?? null;
  },
};

function grouped() {
  const groups = new Map();
  for (const client of clients.values()) groups.set(client.user, [...(groups.get(client.user) ?? []), client]);
  return groups;
}

for await (const line of createInterface({ input: process.stdin })) {
  const { id, command, ...values } = JSON.parse(line);
  Promise.resolve()
    .then(() => commands[command](values))
    .then(
      (result) => ({ id, result: result ?? null }),
      (fault) => ({ id, error: `${fault?.message ?? fault}` }),
    )
    .then((answer) => process.stdout.write(`${JSON.stringify(answer)}\n`));
}
process.exit(0);
