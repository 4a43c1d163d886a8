/** A model of the service and of every way in which its answers and events can arrive late, for the reducer's properties. */
import {
  initialState,
  isLinked,
  needsList,
  reduce,
  resumePosition,
  SCOPES,
  visibleMemories,
  type Action,
  type State,
} from "../../src/reducer.js";
import type { Memory, MemoryScope } from "../../src/types.js";
import type { Change, ListPage, Position, Write } from "../../src/wire.js";

interface Row {
  readonly id: string;
  readonly createdAt: string;
  readonly seq: number;
  readonly isLive: boolean;
}

interface Feed {
  epoch: string;
  seq: number;
  readonly rows: Map<string, Row>;
}

interface Join {
  readonly asked: Position | null;
  readonly reply: { readonly position: Position; readonly recovered: boolean };
  answered: boolean;
  readonly events: Change[];
}

interface ListRequest {
  readonly askedAt: number;
  readonly pageSize: number;
  readonly pages: ListPage[];
}

type Answer = { readonly type: "written"; readonly write: Write } | { readonly type: "removed"; readonly id: string };

let serial = 0;

/** Content names the version, so that a step back can be seen. */
export function memoryOf(scope: MemoryScope, epoch: string, row: Row): Memory {
  return {
    id: row.id,
    kind: "topical",
    scope,
    content: `${epoch}/${row.seq}`,
    sourceThreadIds: [],
    invalidatedAt: null,
    createdAt: row.createdAt,
    updatedAt: row.createdAt,
    recalledAt: null,
  };
}

export class World {
  state: State = initialState;
  readonly feeds: Record<MemoryScope, Feed> = {
    user: { epoch: "u1", seq: 0, rows: new Map() },
    project: { epoch: "p1", seq: 0, rows: new Map() },
  };
  readonly joins = new Map<MemoryScope, Join>();
  readonly lists: ListRequest[] = [];
  readonly answers: Answer[] = [];
  /** Events that told the client what it knew already. */
  replayed = 0;
  readonly #versions = new Map<string, number>();
  readonly #leftEpochs = new Set<string>();

  // The service changes

  create(scope: MemoryScope): Row {
    serial += 1;
    // Several rows of one moment, some without a fraction: order and paging must cope.
    const moment = Math.floor(serial / 3);
    const fraction = moment % 2 === 0 ? "" : `.${String(moment % 1000).padStart(3, "0")}000`;
    const createdAt = `2026-01-01T00:${String(Math.floor(moment / 60) % 60).padStart(2, "0")}:${String(moment % 60).padStart(2, "0")}${fraction}Z`;
    return this.#put(scope, { id: `m${String(serial).padStart(8, "0")}`, createdAt, isLive: true });
  }

  update(scope: MemoryScope, pick: number): Row | null {
    const row = this.#pick(scope, pick, true);
    return row && this.#put(scope, row);
  }

  retire(scope: MemoryScope, pick: number): Row | null {
    const row = this.#pick(scope, pick, true);
    return row && this.#put(scope, { ...row, isLive: false });
  }

  restore(scope: MemoryScope, pick: number): Row | null {
    const row = this.#pick(scope, pick, false);
    return row && this.#put(scope, { ...row, isLive: true });
  }

  /** The database is put back to an earlier time: another epoch, fewer rows; its sockets are closed. */
  goBack(scope: MemoryScope, keep: number): void {
    const feed = this.feeds[scope];
    feed.epoch = `${scope[0]}${++serial}`;
    feed.seq = Math.min(feed.seq, keep);
    for (const [id, row] of feed.rows) if (row.seq > feed.seq) feed.rows.delete(id);
    this.cut();
  }

  // The client asks

  clientCreate(scope: MemoryScope): void {
    this.#answer(scope, this.create(scope), null);
  }

  clientUpdate(scope: MemoryScope, pick: number): void {
    const row = this.update(scope, pick);
    if (row) this.#answer(scope, row, null);
  }

  clientReplace(scope: MemoryScope, pick: number): void {
    const old = this.retire(scope, pick);
    if (old) this.#answer(scope, this.create(scope), old.id);
  }

  clientRemove(scope: MemoryScope, pick: number): void {
    const shown = visibleMemories(this.state).filter((row) => row.scope === scope);
    const target = shown[pick % Math.max(1, shown.length)];
    if (target === undefined) return;
    this.dispatch({ type: "removing", id: target.id });
    const row = this.feeds[scope].rows.get(target.id);
    if (row?.isLive) this.#put(scope, { ...row, isLive: false });
    this.answers.push({ type: "removed", id: target.id });
  }

  askList(pageSize: number): void {
    this.lists.push({ askedAt: this.state.tick, pageSize, pages: [] });
  }

  // Things arrive

  /** Reads one more page of a list, or delivers it when it is whole. */
  stepList(pick: number): void {
    const at = pick % Math.max(1, this.lists.length);
    const list = this.lists[at];
    if (list === undefined) return;
    const last = list.pages.at(-1);
    if (last !== undefined && last.nextCursor === null) {
      this.lists.splice(at, 1);
      this.dispatch({ type: "listed", askedAt: list.askedAt, pages: list.pages });
      return;
    }
    const all = this.truth();
    const from = last === undefined ? 0 : all.findIndex((row) => isAfter(row, last.memories.at(-1) as Memory));
    const rows = from === -1 ? [] : all.slice(from, from + list.pageSize);
    const isLast = from === -1 || from + list.pageSize >= all.length;
    list.pages.push({
      memories: rows,
      positions: { user: this.#head("user"), project: this.#head("project") },
      nextCursor: isLast ? null : "more",
    });
  }

  deliverAnswer(pick: number): void {
    const [answer] = this.answers.splice(pick % Math.max(1, this.answers.length), 1);
    if (answer !== undefined) this.dispatch(answer);
  }

  join(scope: MemoryScope): void {
    if (this.joins.has(scope)) return;
    const feed = this.feeds[scope];
    const asked = resumePosition(this.state, scope);
    const recovered = asked !== null && asked.epoch === feed.epoch && asked.seq <= feed.seq;
    const since = recovered ? asked.seq : feed.seq;
    const missed = [...feed.rows.values()].filter((row) => row.seq > since).sort((a, b) => a.seq - b.seq);
    this.joins.set(scope, {
      asked,
      reply: { position: { epoch: feed.epoch, seq: since }, recovered },
      answered: false,
      events: missed.map((row) => this.#event(scope, row)),
    });
  }

  stepStream(scope: MemoryScope): void {
    const join = this.joins.get(scope);
    if (join === undefined) return;
    if (!join.answered) {
      join.answered = true;
      this.dispatch({ type: "joined", scope, asked: join.asked, reply: join.reply });
      if (!isLinked(this.state, scope)) this.cut();
      return;
    }
    const change = join.events.shift();
    if (change === undefined) return;
    const { cursor, epoch } = this.state.channels[scope];
    if (epoch === change.position.epoch && change.position.seq <= cursor) this.replayed += 1;
    this.dispatch({ type: "changed", scope, change });
  }

  cut(): void {
    this.joins.clear();
    this.dispatch({ type: "left" });
  }

  dispatch(action: Action): void {
    const before = this.state;
    this.state = reduce(this.state, action);
    for (const scope of SCOPES) {
      const [left, entered] = [before.channels[scope].epoch, this.state.channels[scope].epoch];
      if (left === entered) continue;
      if (left !== null) this.#leftEpochs.add(left);
      if (entered !== null && this.#leftEpochs.has(entered)) throw new Error(`${entered} came back after ${left}`);
    }
    if (action.type === "changed" && action.change.memory === null && isLinked(this.state, action.scope)) {
      this.#isRetired(action.change.position, action.change.id);
    }
    if (action.type === "written" && action.write.memory.retiredId !== null) {
      const { position, memory } = action.write;
      if (this.state.channels[memory.scope].epoch === position.epoch) this.#isRetired(position, memory.retiredId ?? "");
    }
    for (const row of visibleMemories(this.state)) {
      const [epoch = "", version = ""] = row.content.split("/");
      const key = `${epoch}:${row.id}`;
      const before = this.#versions.get(key) ?? 0;
      if (Number(version) < before) throw new Error(`${key} went back from ${before} to ${version}`);
      this.#versions.set(key, Number(version));
    }
    if ([...this.joins].some(([scope, join]) => join.answered && !isLinked(this.state, scope))) this.cut();
  }

  /** What the store does on its own, until nothing is left to do. Returns how many rounds it took. */
  settle(pageSize: number): number {
    for (let round = 1; round <= 12; round += 1) {
      while (this.answers.length > 0) this.deliverAnswer(0);
      while (this.lists.length > 0) this.stepList(this.lists.length - 1);
      for (const scope of SCOPES) {
        this.join(scope);
        while ((this.joins.get(scope)?.events.length ?? 0) > 0 || this.joins.get(scope)?.answered === false) {
          this.stepStream(scope);
        }
      }
      const awaits = [...this.state.removals.values()].some((removal) => removal.phase === "done");
      const lost = SCOPES.some((scope) => !this.joins.has(scope) || resumePosition(this.state, scope) === null);
      if (!needsList(this.state) && !awaits && !lost) return round;
      if (needsList(this.state) || awaits || resumePosition(this.state, "user") === null) this.askList(pageSize);
    }
    throw new Error("does not come to rest");
  }

  /** What a list would show now. */
  truth(): Memory[] {
    const rows = SCOPES.flatMap((scope) =>
      [...this.feeds[scope].rows.values()]
        .filter((row) => row.isLive)
        .map((row) => memoryOf(scope, this.feeds[scope].epoch, row)),
    );
    return rows.sort((one, other) => (isAfter(one, other) ? 1 : -1));
  }

  #isRetired({ epoch, seq }: Position, id: string): void {
    const key = `${epoch}:${id}`;
    this.#versions.set(key, Math.max(seq, this.#versions.get(key) ?? 0));
  }

  #head(scope: MemoryScope): Position {
    return { epoch: this.feeds[scope].epoch, seq: this.feeds[scope].seq };
  }

  #pick(scope: MemoryScope, pick: number, isLive: boolean): Row | null {
    const rows = [...this.feeds[scope].rows.values()].filter((row) => row.isLive === isLive);
    return rows[pick % Math.max(1, rows.length)] ?? null;
  }

  #put(scope: MemoryScope, { id, createdAt, isLive }: Omit<Row, "seq">): Row {
    const feed = this.feeds[scope];
    feed.seq += 1;
    const row = { id, createdAt, isLive, seq: feed.seq };
    feed.rows.set(id, row);
    this.joins.get(scope)?.events.push(this.#event(scope, row));
    return row;
  }

  #event(scope: MemoryScope, row: Row): Change {
    const { epoch } = this.feeds[scope];
    return {
      id: row.id,
      position: { epoch, seq: row.seq },
      memory: row.isLive ? memoryOf(scope, epoch, row) : null,
    };
  }

  #answer(scope: MemoryScope, row: Row, retiredId: string | null): void {
    const { epoch } = this.feeds[scope];
    const memory = { ...memoryOf(scope, epoch, row), absorbed: false, similar: [], retiredId };
    this.answers.push({ type: "written", write: { memory, position: { epoch, seq: row.seq } } });
  }
}

/** An order of its own, not the reducer's: by the moment, then by id, newest first. */
function isAfter(row: Memory, last: Memory): boolean {
  const [left, right] = [Date.parse(row.createdAt), Date.parse(last.createdAt)];
  return left < right || (left === right && row.id < last.id);
}
