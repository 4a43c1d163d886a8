// What the simulated users do: random steps from a seed, through their stores and behind their backs.
import { randomOf, sleep } from "./random.mjs";

const KINDS = ["topical", "episodic", "operational"];
/** Weights of the steps. `device` is a REST call of a device that is none of our clients. */
const STEPS = {
  add: 24,
  addAgain: 5,
  update: 14,
  remove: 14,
  deviceAdd: 12,
  deviceUpdate: 7,
  deviceRemove: 7,
  deviceRestore: 4,
  refresh: 11,
  reload: 2,
};
const PROJECT_SHARE = 0.12;

export class User {
  constructor(name, clients, bff, seed, pace) {
    this.name = name;
    this.clients = clients;
    this.bff = bff;
    this.pace = pace;
    this.random = randomOf(seed, name);
    this.pending = new Set();
    this.counts = {};
    this.removed = [];
  }

  /** Take steps until told to stop, and return when every answer has arrived or was given up. */
  async run(going) {
    while (going()) {
      await sleep(this.pace * 2 * this.random.next());
      if (!going()) break;
      const step = this.random.weighted(STEPS);
      const client = this.random.pick(this.clients);
      const done = this[step](client).then(
        () => this.count(`${step} ok`),
        () => this.count(`${step} failed`),
      );
      this.pending.add(done);
      done.finally(() => this.pending.delete(done));
      for (const one of this.clients) one.mend();
    }
    while (this.pending.size) await Promise.all(this.pending);
    for (let round = 0; round < 30; round += 1) {
      for (const one of this.clients) one.mend();
      if (this.clients.every((one) => one.listed && one.everConnected)) break;
      await sleep(1000);
    }
  }

  count(what) {
    this.counts[what] = (this.counts[what] ?? 0) + 1;
  }

  draft() {
    const number = this.random.below(1e9);
    return {
      content: `The locker ${number} is reserved for visitor number ${number}.`,
      kind: this.random.pick(KINDS),
      scope: this.random.next() < PROJECT_SHARE ? "project" : "user",
    };
  }

  shown(client) {
    return this.random.pick(client.store.getState().memories);
  }

  async add(client) {
    await client.store.addMemory(this.draft());
  }

  /** Says again what is there: it is absorbed. */
  async addAgain(client) {
    const row = this.shown(client);
    if (row) await client.store.addMemory({ ...only(row), content: ` ${row.content.toLowerCase()}` });
  }

  async update(client) {
    const row = this.shown(client);
    if (row) await client.store.updateMemory(row.id, { ...this.draft(), kind: row.kind, scope: row.scope });
  }

  async remove(client) {
    const row = this.shown(client);
    if (row) await this.drop(row.id, () => client.store.removeMemory(row.id));
  }

  async deviceAdd() {
    await this.device("POST", "/memories", this.draft());
  }

  async deviceUpdate(client) {
    const row = this.shown(client);
    const draft = this.draft();
    if (row) await this.device("PATCH", `/memories/${row.id}`, { ...draft, kind: row.kind, scope: row.scope });
  }

  async deviceRemove(client) {
    const row = this.shown(client);
    if (row) await this.drop(row.id, () => this.device("DELETE", `/memories/${row.id}`));
  }

  async deviceRestore() {
    const id = this.random.pick(this.removed);
    if (id) await this.device("POST", `/memories/${id}/restore`);
  }

  async refresh(client) {
    await client.store.refresh();
  }

  async reload(client) {
    client.open();
  }

  async drop(id, act) {
    this.removed = [...this.removed.slice(-9), id];
    await act();
  }

  async device(method, path, draft) {
    const body = draft && JSON.stringify({ ...draft, sourceThreadIds: [] });
    const { status } = await this.bff.call(this.name, method, path, body);
    if (status >= 300) throw new Error(`${status}`);
  }
}

const only = ({ kind, scope }) => ({ kind, scope });
