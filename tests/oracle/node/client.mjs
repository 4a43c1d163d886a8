// One published memory store, as a page holds one, and a journal of all that reached it.
import { own } from "./spy.mjs";

const JOURNAL_MAX = 20_000;
const WATCHED_ROWS_MAX = 20;

/** What every client saw under one seq must be the same: topic|seq -> what. */
const told = new Map();

export class StockClient {
  /** One for each channel. */
  socketsWanted = 2;

  constructor({ name, user, phoenix, core, bff, wsUrl, began }) {
    Object.assign(this, { name, user, phoenix, core, bff, wsUrl, began });
    this.holds = {};
    this.journal = [];
    this.violations = [];
    this.statuses = [];
    this.upgrades = [];
    this.frames = 0;
    this.lastFrameAt = null;
    this.topics = new Map();
    this.rowSeqs = new Map();
    this.load = 0;
    this.sockets = new Map();
    this.cursors = new Map();
    this.openSockets = new Set();
  }

  /** Load the page: a new store, which fetches the list and a token at once. */
  open() {
    this.store?.stop();
    this.forget();
    this.store = this.core.ɵcreateMemoryStore({ fetch: this.bff.fetchOf(this) });
    this.store.start();
    this.store.select(this.core.ɵselectMemoriesRealtimeStatus).subscribe((status) => {
      if (status === "connected") this.everConnected = true;
      this.unavailable = status === "unavailable";
      this.statuses.push({ at: this.now(), status, excused: this.unavailable && !this.everConnected });
      this.note("status", { status });
    });
    let shown = [];
    this.store.select(this.core.ɵselectMemories).subscribe((memories) => {
      this.noteRows(memories, shown);
      shown = memories;
    });
    this.store.setContext({ runtimeUrl: "http://bff", wsUrl: this.wsUrl, headers: {} });
  }

  /** A new page remembers nothing of what the former was told. */
  forget() {
    this.topics.clear();
    this.rowSeqs.clear();
    this.subscribeFailed = false;
    this.listed = false;
    this.everConnected = false;
    this.unavailable = false;
    this.load += 1;
    this.note("load", {});
  }

  noteRows(memories, before) {
    // With more rows than a step-by-step test has, the journal would cost more than the store itself.
    if (memories.length > WATCHED_ROWS_MAX || before.length > WATCHED_ROWS_MAX) return;
    const [now, then] = [memories, before].map((rows) => new Set(rows.map(({ id }) => id)));
    const came = [...now].filter((id) => !then.has(id));
    const went = [...then].filter((id) => !now.has(id));
    if (came.length || went.length) this.note("rows", { came, went });
  }

  /**
   * A person who sees an error page loads it again. A page that got no token never asks for one again, and one that
   * finds no gateway at all within 1.6 s of its first connect gives up: no server can help either.
   */
  mend() {
    const { error, isLoading, memories } = this.store.getState();
    const outOfReach = this.unavailable && !this.everConnected;
    if (this.subscribeFailed || outOfReach) this.open();
    else if (error && !isLoading && !this.listed && memories.length === 0) this.store.refresh().catch(() => {});
  }

  /** An answer reached the store that asked for it. */
  answered(kind, ok, load) {
    if (kind === "list" && ok && load === this.load) this.listed = true;
  }

  now() {
    return Math.round(performance.now() - this.began);
  }

  note(what, more) {
    if (this.journal.length < JOURNAL_MAX) this.journal.push({ at: this.now(), what, ...more });
  }

  subscribed(ok, tickets) {
    this.subscribeFailed = !ok;
    for (const token of [tickets?.joinToken, tickets?.projectJoinToken]) if (token) own(token, this);
  }

  upgrading(token, socket) {
    this.sockets.set(token, socket);
    const { c: code, q: cursor } = JSON.parse(Buffer.from(token.split(".")[1], "base64url"));
    this.cursors.set(code, cursor);
    this.upgrades.push({ at: this.now(), token: token.slice(-8) });
    this.note("upgrade", { token: token.slice(-8) });
  }

  opened(socket) {
    this.openSockets.add(socket);
    this.note("open", {});
  }

  closed(socket, code) {
    this.openSockets.delete(socket);
    this.note("close", { code });
  }

  heard(text, token, socket, load) {
    // phoenix no longer listens to a socket that it has replaced.
    if (load !== this.load || this.sockets.get(token) !== socket) return;
    const [, , topic, event, payload] = JSON.parse(text);
    if (event !== "memory_metadata") {
      this.note("frame", { event, topic: topic.split(":")[0], response: payload });
      return;
    }
    this.frames += 1;
    this.lastFrameAt = this.now();
    const { seq, epoch, memoryId, operation, memory } = payload;
    this.note("event", { seq, operation, id: memoryId, topic: topic.split(":")[0] });
    const seen = this.topics.get(topic) ?? { seqs: new Set(), highest: 0 };
    this.topics.set(topic, seen);
    // What lies before the token's cursor came with the list; the stream may send it again, and never sends it first.
    if (seq > this.cursors.get(topic.split(":")[2]) && !seen.seqs.has(seq)) {
      if (seq < seen.highest) this.violations.push(`first delivery of ${seq} after ${seen.highest} at ${this.now()} ms`);
      seen.seqs.add(seq);
      seen.highest = Math.max(seen.highest, seq);
    }
    const newest = this.rowSeqs.get(memoryId) ?? 0;
    if (seq < newest && process.env.ORACLE_DEBUG) this.violations.push(JSON.stringify(this.journal.slice(-60)));
    if (seq < newest) this.violations.push(`row ${memoryId} went back from ${newest} to ${seq} at ${this.now()} ms`);
    this.rowSeqs.set(memoryId, Math.max(newest, seq));
    const what = JSON.stringify([memoryId, operation === "invalidated" ? null : memory.content, epoch]);
    const key = `${topic}|${seq}`;
    if ((told.get(key) ?? what) !== what) this.violations.push(`seq ${seq} was told as two things`);
    told.set(key, what);
  }

  report() {
    const { memories, isLoading, error, available, realtimeStatus, inFlightMutationCount } = this.store.getState();
    return {
      name: this.name,
      user: this.user,
      phoenix: this.phoenix,
      rows: Object.fromEntries(memories.map(({ id, kind, scope, content }) => [id, [kind, scope, content]])),
      count: memories.length,
      isLoading,
      available,
      realtimeStatus,
      inFlightMutationCount,
      error: error?.message ?? null,
      statuses: this.statuses,
      violations: this.violations,
      upgrades: this.upgrades,
      loads: this.load,
      frames: this.frames,
      lastFrameAt: this.lastFrameAt,
      now: this.now(),
    };
  }
}
