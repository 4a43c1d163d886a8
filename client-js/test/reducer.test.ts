import fc from "fast-check";
import { describe, expect, test } from "vitest";

import {
  CATCH_UP_MAX,
  initialState,
  needsList,
  newestFirst,
  reduce,
  resumePosition,
  visibleMemories,
  type Action,
  type State,
} from "../src/reducer.js";
import type { Memory, MemoryScope } from "../src/types.js";
import type { ListPage } from "../src/wire.js";
import { World } from "./support/model.js";

const RUNS = 3000;
const scope = fc.constantFrom<MemoryScope>("user", "project");
const pick = fc.nat(20);

type Step = (world: World) => void;
const named = (name: string, run: Step): Step => Object.assign(run, { toString: () => name });

const serviceStep = fc.oneof(
  scope.map((s) => named(`create ${s}`, (w) => w.create(s))),
  fc.tuple(scope, pick).map(([s, n]) => named(`update ${s} ${n}`, (w) => w.update(s, n))),
  fc.tuple(scope, pick).map(([s, n]) => named(`retire ${s} ${n}`, (w) => w.retire(s, n))),
  fc.tuple(scope, pick).map(([s, n]) => named(`restore ${s} ${n}`, (w) => w.restore(s, n))),
);
const clientStep = fc.oneof(
  scope.map((s) => named(`add ${s}`, (w) => w.clientCreate(s))),
  fc.tuple(scope, pick).map(([s, n]) => named(`absorb ${s} ${n}`, (w) => w.clientUpdate(s, n))),
  fc.tuple(scope, pick).map(([s, n]) => named(`replace ${s} ${n}`, (w) => w.clientReplace(s, n))),
  fc.tuple(scope, pick).map(([s, n]) => named(`remove ${s} ${n}`, (w) => w.clientRemove(s, n))),
  fc.integer({ min: 1, max: 6 }).map((n) => named(`list by ${n}`, (w) => w.askList(n))),
);
const arrival = fc.oneof(
  pick.map((n) => named(`list ${n} goes on`, (w) => w.stepList(n))),
  pick.map((n) => named(`answer ${n}`, (w) => w.deliverAnswer(n))),
  scope.map((s) => named(`join ${s}`, (w) => w.join(s))),
  scope.map((s) => named(`stream ${s}`, (w) => w.stepStream(s))),
  scope.map((s) => named(`stream ${s}`, (w) => w.stepStream(s))),
);
const cut = fc.constant(named("cut", (w) => w.cut()));
const goBack = fc.tuple(scope, pick).map(([s, n]) => named(`go back ${s} ${n}`, (w) => w.goBack(s, n)));

const steps = fc.array(
  fc.oneof(
    { weight: 4, arbitrary: serviceStep },
    { weight: 5, arbitrary: clientStep },
    { weight: 12, arbitrary: arrival },
    { weight: 1, arbitrary: cut },
    { weight: 1, arbitrary: goBack },
  ),
  { maxLength: 90 },
);

describe("any order of arrivals", () => {
  test("ends at the truth, and no row ever goes back to an earlier state", () => {
    fc.assert(
      fc.property(steps, fc.integer({ min: 1, max: 5 }), (run, pageSize) => {
        const world = new World();
        for (const step of run) step(world);
        world.settle(pageSize);
        expect(visibleMemories(world.state)).toEqual(world.truth());
      }),
      { numRuns: RUNS },
    );
  });

  test("keeps nothing of the past once everything is known", () => {
    fc.assert(
      fc.property(steps, (run) => {
        const world = new World();
        for (const step of run) step(world);
        world.settle(4);
        expect(world.state.channels.user.ahead.size).toBe(0);
        expect(world.state.channels.project.ahead.size).toBe(0);
        expect(world.state.removals.size).toBe(0);
      }),
      { numRuns: 500 },
    );
  });

  test("a clean reconnect replays no row", () => {
    fc.assert(
      fc.property(steps, fc.array(serviceStep, { maxLength: 20 }), (run, missed) => {
        const world = new World();
        for (const step of run) step(world);
        world.settle(4);
        world.cut();
        for (const step of missed) step(world);
        world.replayed = 0;
        world.settle(4);
        expect(world.replayed).toBe(0);
        expect(visibleMemories(world.state)).toEqual(world.truth());
      }),
      { numRuns: 500 },
    );
  });
});

describe("single rules", () => {
  const position = (seq: number, epoch = "e1") => ({ epoch, seq });
  const row = (id: string, content = id, createdAt = "2026-01-01T00:00:00Z"): Memory => ({
    id,
    kind: "topical",
    scope: "user",
    content,
    sourceThreadIds: [],
    invalidatedAt: null,
    createdAt,
    updatedAt: createdAt,
    recalledAt: null,
  });
  const page = (seq: number, memories: Memory[], epoch = "e1"): ListPage => ({
    memories,
    positions: { user: position(seq, epoch) },
    nextCursor: null,
  });
  const list = (seq: number, memories: Memory[], askedAt = 1): Action => ({
    type: "listed",
    askedAt,
    pages: [page(seq, memories)],
  });
  const write = (seq: number, memory: Memory, retiredId: string | null = null): Action => ({
    type: "written",
    write: { memory: { ...memory, absorbed: false, similar: [], retiredId }, position: position(seq) },
  });
  const change = (seq: number, id: string, memory: Memory | null): Action => ({
    type: "changed",
    scope: "user",
    change: { id, memory, position: position(seq) },
  });
  const join = (asked: number | null, seq: number, recovered: boolean): Action => ({
    type: "joined",
    scope: "user",
    asked: asked === null ? null : position(asked),
    reply: { position: position(seq), recovered },
  });
  const after = (...actions: Action[]): State => actions.reduce(reduce, initialState);
  const contents = (state: State) => visibleMemories(state).map((one) => one.content);

  test("a late list does not overwrite what the stream said since", () => {
    const state = after(
      list(1, [row("a", "old")]),
      join(1, 1, true),
      change(2, "a", row("a", "new")),
      list(1, [row("a", "old")]),
    );
    expect(contents(state)).toEqual(["new"]);
  });

  test("a late list does not bring back what a write retired", () => {
    const state = after(list(1, [row("a")]), write(3, row("b"), "a"), list(1, [row("a")]));
    expect(contents(state)).toEqual(["b"]);
    expect(resumePosition(state, "user")).toEqual(position(1));
  });

  test("a late answer to a write does not bring back a row that was retired meanwhile", () => {
    const state = after(
      list(0, []),
      join(0, 0, true),
      change(1, "a", row("a")),
      change(2, "a", null),
      write(1, row("a")),
    );
    expect(contents(state)).toEqual([]);
  });

  test("a write's answer is no reason to skip what the stream has yet to say", () => {
    const state = after(list(0, []), join(0, 0, true), write(5, row("e")));
    expect(resumePosition(state, "user")).toEqual(position(0));
    expect(contents(reduce(state, change(1, "a", row("a"))))).toEqual(["e", "a"].sort().reverse());
  });

  test("a supersede replaces the row at once, before the stream tells", () => {
    expect(contents(after(list(1, [row("a")]), write(3, row("b"), "a")))).toEqual(["b"]);
  });

  test("a row that is being removed is hidden at once and comes back when that fails", () => {
    const listed = after(list(1, [row("a")]));
    const removing = reduce(listed, { type: "removing", id: "a" });
    expect(contents(removing)).toEqual([]);
    expect(contents(reduce(removing, { type: "kept", id: "a" }))).toEqual(["a"]);
  });

  test("a removal stays hidden through a list that was asked for before it, and not through a later one", () => {
    const removed = after(list(1, [row("a")]), { type: "removing", id: "a" }, { type: "removed", id: "a" });
    expect(contents(reduce(removed, list(1, [row("a")], removed.tick - 1)))).toEqual([]);
    expect(contents(reduce(removed, list(9, [row("a")], removed.tick)))).toEqual(["a"]);
  });

  test("a row that others restored after our removal is shown again", () => {
    const state = after(
      list(1, [row("a")]),
      join(1, 1, true),
      { type: "removing", id: "a" },
      change(2, "a", null),
      change(3, "a", row("a", "again")),
      { type: "removed", id: "a" },
    );
    expect(contents(state)).toEqual(["again"]);
  });

  test("a first join without a position needs a list that is not older", () => {
    const joined = after(join(null, 5, false));
    expect(needsList(joined)).toBe(true);
    expect(needsList(reduce(joined, list(4, [], joined.tick)))).toBe(true);
    expect(needsList(reduce(joined, list(5, [], joined.tick)))).toBe(false);
  });

  test("a position that the service no longer has is dropped: rows stay in view until a list", () => {
    const state = after(list(100, [row("a"), row("b")]), join(100, 50, false));
    expect(contents(state)).toEqual(["b", "a"]);
    expect(needsList(state)).toBe(true);
    expect(resumePosition(state, "user")).toBeNull();
    const late = reduce(state, list(100, [row("a"), row("b")], 1));
    expect(needsList(late)).toBe(true);
    const healed = reduce(late, list(50, [row("a")], late.tick));
    expect(contents(healed)).toEqual(["a"]);
    expect(needsList(healed)).toBe(false);
  });

  test("a list of another epoch replaces everything and ends the old subscription", () => {
    const before = after(list(9, [row("a")]), join(9, 9, true));
    const state = reduce(before, { type: "listed", askedAt: before.tick, pages: [page(2, [row("b")], "e2")] });
    expect(contents(state)).toEqual(["b"]);
    expect(resumePosition(state, "user")).toEqual(position(2, "e2"));
    expect(state.channels.user.link).toBeNull();
  });

  test("an event that cannot be read makes a list needed", () => {
    const state = after(list(1, []), join(1, 1, true), { type: "unreadable", scope: "user" });
    expect(needsList(state)).toBe(true);
    expect(needsList(reduce(state, list(1, [], state.tick - 1)))).toBe(true);
    expect(needsList(reduce(state, list(2, [], state.tick)))).toBe(false);
  });

  test("after a longer absence than the service replays in full, a list is needed", () => {
    const far = CATCH_UP_MAX + 5;
    const state = after(list(1, []), join(1, 1, true), change(far, "a", row("a")));
    expect(needsList(state)).toBe(true);
    expect(needsList(reduce(state, list(far, [row("a")], state.tick)))).toBe(false);
    const dense = after(list(1, []), join(1, 1, true), change(2, "a", row("a")), change(4, "b", row("b")));
    expect(needsList(dense)).toBe(false);
  });

  test("a list of many pages is fetched again after each reconnect", () => {
    const pages = [page(1, [row("b")]), page(1, [row("a")])];
    const joined = after({ type: "listed", askedAt: 1, pages }, join(1, 1, true));
    expect(needsList(joined)).toBe(false);
    expect(needsList([{ type: "left" } as const, join(1, 1, true)].reduce(reduce, joined))).toBe(true);
  });

  test("a grant that no longer reads a channel empties it", () => {
    const state = after(list(1, [row("a")]));
    const narrowed = reduce(state, {
      type: "listed",
      askedAt: state.tick,
      pages: [{ memories: [], positions: {}, nextCursor: null }],
    });
    expect(contents(narrowed)).toEqual([]);
    expect(needsList(narrowed)).toBe(false);
  });

  test("rows are in order of the moment, whether or not it has a fraction", () => {
    const times = [
      "2026-01-01T00:00:00.5Z",
      "2026-01-01T00:00:00Z",
      "2026-01-01T00:00:01Z",
      "2026-01-01T00:00:00.123456Z",
    ];
    const sorted = times.map((time, index) => row(`r${index}`, time, time)).sort(newestFirst);
    expect(sorted.map((one) => one.content)).toEqual([times[2], times[0], times[3], times[1]]);
  });

  test("a list that brings nothing new leaves the very same rows", () => {
    const before = after(list(1, [row("a"), row("b")]));
    const again = reduce(before, list(2, [row("a"), row("b")], before.tick));
    expect(again.channels.user.rows).toBe(before.channels.user.rows);
  });
});
