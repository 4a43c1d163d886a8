/**
 * Every transition of what the client knows, as one pure function.
 *
 * Answers and events arrive in any order. Each carries a position of its channel, so the rule is one: **what is known of
 * a row at a later position stands**. A channel keeps `cursor`, the position up to which everything is known, and `ahead`,
 * the rows known at a later one (retired rows too). Whatever speaks of a row at or before what is known of it is late
 * and ignored. As the cursor passes, `ahead` shrinks: nothing grows with time.
 */
import type { Memory, MemoryScope } from "./types.js";
import { plainMemory, type Change, type JoinReply, type ListPage, type Position, type Write } from "./wire.js";

/** After a longer absence the server sends only what a list of this length shows (realtime contract, Positions). */
export const CATCH_UP_MAX = 2000;
const UNKNOWN = -1;

/** The present subscription: events arrive in order from `from` on, and were seen up to `high`. */
interface Link {
  readonly from: number;
  readonly high: number;
  /** Whether a `seq` was left out: a row that changed twice, or one beyond `CATCH_UP_MAX`. */
  readonly holes: boolean;
}

interface Channel {
  readonly epoch: string | null;
  /** A list of another epoch that was asked for before this tick is of an older one. */
  readonly epochAt: number;
  readonly cursor: number;
  readonly ahead: ReadonlyMap<string, number>;
  readonly rows: readonly Memory[];
  readonly link: Link | null;
  /** A list that was asked for before this tick says nothing: it speaks of another history. */
  readonly resetAt: number;
  /** A list is needed that was asked for at this tick or later; null when none is. */
  readonly staleAt: number | null;
  /** The subscription was lost since the last list. */
  readonly lapsed: boolean;
}

/** A row that this client removes: hidden at once, and until the truth about it has arrived. */
type Removal =
  | { readonly phase: "asked" }
  /** Answered at this tick; a list that was asked for later knows. */
  | { readonly phase: "done"; readonly at: number }
  /** The stream said so before the answer did. */
  | { readonly phase: "confirmed" };

export interface State {
  /** Counts actions: orders requests and resets in time. */
  readonly tick: number;
  readonly channels: Readonly<Record<MemoryScope, Channel>>;
  readonly removals: ReadonlyMap<string, Removal>;
  /** Whether the last list had more than one page. */
  readonly paged: boolean;
}

export type Action =
  | { readonly type: "listed"; readonly askedAt: number; readonly pages: readonly ListPage[] }
  | { readonly type: "written"; readonly write: Write }
  | { readonly type: "joined"; readonly scope: MemoryScope; readonly asked: Position | null; readonly reply: JoinReply }
  | { readonly type: "changed"; readonly scope: MemoryScope; readonly change: Change }
  | { readonly type: "unreadable"; readonly scope: MemoryScope }
  | { readonly type: "left" }
  | { readonly type: "removing"; readonly id: string }
  | { readonly type: "removed"; readonly id: string }
  | { readonly type: "kept"; readonly id: string }
  | { readonly type: "cleared" };

const NOTHING: Channel = {
  epoch: null,
  epochAt: 0,
  cursor: UNKNOWN,
  ahead: new Map(),
  rows: [],
  link: null,
  resetAt: 0,
  staleAt: null,
  lapsed: false,
};

export const SCOPES: readonly MemoryScope[] = ["user", "project"];

export const initialState: State = {
  tick: 1,
  channels: { user: NOTHING, project: NOTHING },
  removals: new Map(),
  paged: false,
};

export function reduce(before: State, action: Action): State {
  const state: State = { ...before, tick: before.tick + 1 };
  switch (action.type) {
    case "listed":
      return listed(state, action.askedAt, action.pages);
    case "written":
      return withChannel(state, action.write.memory.scope, (channel) => written(channel, action.write, state.tick));
    case "joined":
      return withChannel(state, action.scope, (channel) =>
        joined(channel, action.asked, action.reply, state.tick, state.paged),
      );
    case "changed":
      return confirmed(
        withChannel(state, action.scope, (channel) => changed(channel, action.change, state.tick)),
        action.scope,
        action.change,
      );
    case "unreadable":
      return withChannel(state, action.scope, (channel) => ({ ...channel, staleAt: state.tick }));
    case "left":
      return withChannels(state, (channel) =>
        channel.link === null ? channel : { ...channel, link: null, lapsed: true },
      );
    case "removing":
      return { ...state, removals: withEntry(state.removals, action.id, { phase: "asked" }) };
    case "removed":
      return removed(state, action.id);
    case "kept":
      return { ...state, removals: withoutEntry(state.removals, action.id) };
    case "cleared":
      return withChannels(state, () => ({ ...NOTHING, resetAt: state.tick }));
  }
}

// What others ask of the state

/** The live rows of both channels, newest first, without those that are being removed. */
export function visibleMemories(state: State): Memory[] {
  const merged = mergeSorted(state.channels.user.rows, state.channels.project.rows);
  return state.removals.size === 0 ? merged : merged.filter((row) => !isHidden(state, row.id));
}

/** Where the stream of a channel is to go on; null when nothing is known yet. */
export function resumePosition(state: State, scope: MemoryScope): Position | null {
  const { epoch, cursor } = state.channels[scope];
  return epoch === null || cursor === UNKNOWN ? null : { epoch, seq: cursor };
}

/** Whether only a list can tell the truth now. */
export function needsList(state: State): boolean {
  return SCOPES.some((scope) => {
    const { staleAt, link, cursor } = state.channels[scope];
    return staleAt !== null || (link !== null && link.from > cursor);
  });
}

/** Whether a list is what lifts the veil from a removal: its answer came and the stream has not confirmed it. */
export function awaitsConfirmation(state: State, id: string): boolean {
  return state.removals.get(id)?.phase === "done";
}

/** Whether events of this channel count at present. */
export function isLinked(state: State, scope: MemoryScope): boolean {
  return state.channels[scope].link !== null;
}

// Lists

function listed(state: State, askedAt: number, pages: readonly ListPage[]): State {
  let next: State = { ...state, paged: pages.length > 1 };
  for (const scope of SCOPES) {
    next = withChannel(next, scope, (channel) => listedChannel(channel, scope, askedAt, pages, state.tick));
  }
  const removals = new Map(
    [...state.removals].filter(([, removal]) => removal.phase !== "done" || removal.at > askedAt),
  );
  return removals.size === state.removals.size ? next : { ...next, removals };
}

function listedChannel(
  before: Channel,
  scope: MemoryScope,
  askedAt: number,
  pages: readonly ListPage[],
  tick: number,
): Channel {
  if (askedAt < before.resetAt) return before;
  const head = pages[0]?.positions[scope];
  if (head === undefined) {
    // This grant does not read the channel, or no longer.
    return before.epoch === null ? before : { ...NOTHING, resetAt: tick };
  }
  if (pages.some((page) => page.positions[scope]?.epoch !== head.epoch)) return { ...before, staleAt: tick };
  let channel = before;
  if (channel.epoch === null) {
    channel = { ...channel, epoch: head.epoch, epochAt: tick };
  } else if (channel.epoch !== head.epoch) {
    if (askedAt < channel.epochAt) return { ...channel, staleAt: tick };
    // Another history. The old rows stay in view until the rows of this list replace them, below.
    channel = { ...NOTHING, epoch: head.epoch, epochAt: tick, rows: channel.rows, resetAt: tick };
  }
  if (head.seq < channel.cursor) return channel;
  const staleAt = channel.staleAt !== null && channel.staleAt > askedAt ? channel.staleAt : null;
  const listedRows = withPages(channel, scope, pages);
  return settled({ ...listedRows, cursor: head.seq, staleAt, lapsed: false });
}

/**
 * A later page is read at a later position, so a page speaks only of the keys between the last of the page before and its
 * own last, at its own position.
 */
function withPages(channel: Channel, scope: MemoryScope, pages: readonly ListPage[]): Channel {
  const ahead = new Map(channel.ahead);
  const shown = new Map<string, { row: Memory; seq: number }>();
  const seqs = pages.map((page) => page.positions[scope]?.seq ?? 0);
  pages.forEach((page, index) => {
    for (const row of page.memories) {
      if (row.scope === scope && row.invalidatedAt === null) shown.set(row.id, { row, seq: seqs[index] ?? 0 });
    }
  });
  const rows: Memory[] = [];
  for (const row of channel.rows) {
    const found = shown.get(row.id);
    const seq = found?.seq ?? seqs[pageOf(pages, row)] ?? 0;
    if (known(channel, row.id) > seq || (found !== undefined && isSame(row, found.row))) {
      rows.push(row);
      shown.delete(row.id);
      if (found !== undefined && seq > known(channel, row.id)) ahead.set(row.id, seq);
    } else if (found === undefined) {
      ahead.set(row.id, seq);
    }
  }
  for (const [id, { row, seq }] of shown) {
    if (known(channel, id) > seq) continue;
    rows.push(row);
    ahead.set(id, seq);
  }
  rows.sort(newestFirst);
  // A list that brings nothing new leaves the very same array, so that nobody renders for nothing.
  const isNew = rows.length !== channel.rows.length || rows.some((row, index) => row !== channel.rows[index]);
  return { ...channel, rows: isNew ? rows : channel.rows, ahead };
}

function pageOf(pages: readonly ListPage[], row: Memory): number {
  const found = pages.findIndex((page) => {
    const last = page.memories.at(-1);
    return last !== undefined && newestFirst(row, last) <= 0;
  });
  return found === -1 ? pages.length - 1 : found;
}

// Writes

function written(before: Channel, { memory, position }: Write, tick: number): Channel {
  if (before.epoch !== null && before.epoch !== position.epoch) return { ...before, staleAt: tick };
  let channel: Channel = { ...before, epoch: position.epoch, epochAt: before.epoch === null ? tick : before.epochAt };
  if (memory.retiredId !== null) channel = withRow(channel, memory.retiredId, null, position.seq);
  return withRow(channel, memory.id, memory.invalidatedAt === null ? plainMemory(memory) : null, position.seq);
}

// The stream

function joined(channel: Channel, asked: Position | null, reply: JoinReply, tick: number, paged: boolean): Channel {
  const { epoch, seq } = reply.position;
  const link: Link = { from: seq, high: seq, holes: false };
  if (reply.recovered) {
    // A list may have brought another history since the join was sent: then this subscription is of no use.
    if (channel.epoch !== epoch) return { ...channel, link: null, staleAt: tick };
    return settled({ ...channel, link, staleAt: paged && channel.lapsed ? tick : channel.staleAt });
  }
  const refused = asked !== null && asked.epoch === epoch && channel.epoch === epoch;
  const other = channel.epoch !== null && channel.epoch !== epoch;
  if (refused || other) {
    // What was known belongs to another history, or to a future that was undone. The rows stay in view until a list.
    return { ...NOTHING, epoch, epochAt: tick, rows: channel.rows, resetAt: tick, staleAt: tick, link };
  }
  return settled({ ...channel, epoch, epochAt: channel.epoch === null ? tick : channel.epochAt, link });
}

function changed(channel: Channel, { id, memory, position }: Change, tick: number): Channel {
  if (channel.link === null) return channel;
  if (channel.epoch !== position.epoch) return { ...channel, staleAt: tick };
  const { seq } = position;
  const { from, high, holes } = channel.link;
  const link: Link = { from, high: Math.max(high, seq), holes: holes || seq > high + 1 };
  const next = settled({ ...withRow(channel, id, memory, seq), link });
  if (!link.holes || seq - from <= CATCH_UP_MAX) return next;
  return { ...next, staleAt: tick, link: { from: seq, high: link.high, holes: false } };
}

// Removals

function removed(state: State, id: string): State {
  const present = SCOPES.some((scope) => {
    const { rows, cursor } = state.channels[scope];
    return cursor === UNKNOWN || rows.some((row) => row.id === id);
  });
  if (state.removals.get(id)?.phase === "confirmed" || !present) {
    return { ...state, removals: withoutEntry(state.removals, id) };
  }
  return { ...state, removals: withEntry(state.removals, id, { phase: "done", at: state.tick }) };
}

function confirmed(state: State, scope: MemoryScope, { id, memory }: Change): State {
  const removal = state.removals.get(id);
  if (memory !== null || removal === undefined || !isLinked(state, scope)) return state;
  if (removal.phase === "done") return { ...state, removals: withoutEntry(state.removals, id) };
  return { ...state, removals: withEntry(state.removals, id, { phase: "confirmed" }) };
}

function isHidden(state: State, id: string): boolean {
  const removal = state.removals.get(id);
  return removal !== undefined && removal.phase !== "confirmed";
}

// Rows

function isSame(one: Memory, other: Memory): boolean {
  return JSON.stringify(plainMemory(one)) === JSON.stringify(plainMemory(other));
}

function known(channel: Channel, id: string): number {
  return channel.ahead.get(id) ?? channel.cursor;
}

/** The row as it is at a position, or its absence; ignored when more is known. */
function withRow(channel: Channel, id: string, row: Memory | null, seq: number): Channel {
  if (seq <= known(channel, id)) return channel;
  const ahead = new Map(channel.ahead).set(id, seq);
  const at = channel.rows.findIndex((one) => one.id === id);
  if (at === -1 && row === null) return { ...channel, ahead };
  const rows = channel.rows.slice();
  if (at !== -1) rows.splice(at, 1);
  if (row !== null) rows.splice(placeOf(rows, row), 0, row);
  return { ...channel, rows, ahead };
}

/** Moves the cursor as far as everything is known, and forgets what it has passed. */
function settled(channel: Channel): Channel {
  const { link } = channel;
  const cursor = link !== null && link.from <= channel.cursor ? Math.max(channel.cursor, link.high) : channel.cursor;
  const ahead = new Map([...channel.ahead].filter(([, seq]) => seq > cursor));
  return { ...channel, cursor, ahead };
}

/** Newest first, by `createdAt` then `id`. */
export function newestFirst(one: Memory, other: Memory): number {
  const [left, right] = [momentOf(one.createdAt), momentOf(other.createdAt)];
  if (left !== right) return left < right ? 1 : -1;
  return one.id === other.id ? 0 : one.id < other.id ? 1 : -1;
}

/** RFC 3339 in UTC as a text that sorts: a fraction may be left out, or have up to six digits. */
function momentOf(time: string): string {
  return time.slice(0, 19) + time.slice(20).replace(/\D+$/, "").padEnd(6, "0");
}

function placeOf(rows: readonly Memory[], row: Memory): number {
  let low = 0;
  let high = rows.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (newestFirst(rows[middle] as Memory, row) < 0) low = middle + 1;
    else high = middle;
  }
  return low;
}

function mergeSorted(left: readonly Memory[], right: readonly Memory[]): Memory[] {
  const merged: Memory[] = [];
  let at = 0;
  for (const row of left) {
    while (at < right.length && newestFirst(right[at] as Memory, row) < 0) merged.push(right[at++] as Memory);
    merged.push(row);
  }
  return merged.concat(right.slice(at));
}

// Immutable updates

function withChannel(state: State, scope: MemoryScope, change: (channel: Channel) => Channel): State {
  const before = state.channels[scope];
  const after = change(before);
  return after === before ? state : { ...state, channels: { ...state.channels, [scope]: after } };
}

function withChannels(state: State, change: (channel: Channel) => Channel): State {
  return SCOPES.reduce((next, scope) => withChannel(next, scope, change), state);
}

function withEntry<T>(map: ReadonlyMap<string, T>, key: string, value: T): ReadonlyMap<string, T> {
  return new Map(map).set(key, value);
}

function withoutEntry<T>(map: ReadonlyMap<string, T>, key: string): ReadonlyMap<string, T> {
  const next = new Map(map);
  return next.delete(key) ? next : map;
}
