import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";

import { backoffMs, createRealtime, type RealtimeOptions } from "../src/realtime.js";
import type { SocketLife } from "../src/socket.js";
import type { RealtimeStatus } from "../src/types.js";

const MINUTE = 60_000;

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

/** A loop whose socket and credentials the test plays. */
function played(options: Partial<RealtimeOptions> = {}) {
  const lives: SocketLife[] = [];
  const opened: number[] = [];
  const statuses: RealtimeStatus[] = [];
  let tokens = 0;
  const realtime = createRealtime({
    socket: {
      open: (life) => {
        lives.push(life);
        opened.push(Date.now());
      },
      close: () => undefined,
    },
    backoff: undefined,
    wsUrl: "ws://stream.test/client",
    hasTransport: () => true,
    credentials: async () => ({ token: `t${++tokens}`, topics: [{ scope: "user", topic: "u" }], wsUrl: null }),
    ready: async () => undefined,
    positionOf: () => null,
    onJoined: () => undefined,
    onEvent: () => undefined,
    onLeft: () => undefined,
    onStatus: (status) => statuses.push(status),
    ...options,
  });
  const last = () => lives.at(-1) as SocketLife;
  return {
    realtime,
    lives,
    opened,
    statuses,
    last,
    join: () => last().onJoined("user", null, {}),
    status: () => statuses.at(-1),
    pass: (ms: number) => vi.advanceTimersByTimeAsync(ms),
  };
}

describe("the subscription", () => {
  test("survives a day without a server: it says so after 10 s, asks at least every 15 s, and comes back", async () => {
    let isUp = false;
    let asked = 0;
    const credentials = async () => {
      asked += 1;
      if (!isUp) throw new Error("down");
      return { token: "t", topics: [{ scope: "user" as const, topic: "u" }], wsUrl: null };
    };
    const { realtime, status, pass, join } = played({ credentials });
    realtime.start();
    await pass(9_900);
    expect(status()).toBe("connecting");
    await pass(200);
    expect(status()).toBe("unavailable");
    await pass(24 * 60 * MINUTE);
    expect(asked).toBeGreaterThan((24 * 60 * MINUTE) / 15_000);
    expect(asked).toBeLessThan((24 * 60 * MINUTE) / 3_000);
    isUp = true;
    await pass(15_000);
    join();
    expect(status()).toBe("connected");
    realtime.stop();
  });

  test("keeps its token through a lost connection and asks for another after a refusal", async () => {
    const { realtime, lives, last, join, pass } = played();
    realtime.start();
    await pass(0);
    join();
    await pass(MINUTE);
    last().onEnd("lost");
    await pass(500);
    last().onEnd("refused");
    await pass(1000);
    expect(lives.map((life) => life.token)).toEqual(["t1", "t1", "t2"]);
    realtime.stop();
  });

  test("is back within half a second after a stable connection was lost", async () => {
    const { realtime, lives, last, join, pass } = played();
    realtime.start();
    await pass(0);
    for (let round = 1; round <= 20; round += 1) {
      join();
      await pass(MINUTE);
      last().onEnd("lost");
      await pass(500);
      expect(lives).toHaveLength(round + 1);
    }
    realtime.stop();
  });

  test("a server that accepts and closes does not make it hurry", async () => {
    const { realtime, lives, last, join, pass } = played();
    realtime.start();
    for (let second = 0, seen = 0; second < 300; second += 1) {
      await pass(1000);
      if (lives.length > seen) {
        seen = lives.length;
        join();
        last().onEnd("lost");
      }
    }
    expect(lives.length).toBeLessThan(60);
    realtime.stop();
  });

  test("tries at once when the network is back, and replaces a connection that is suspect", async () => {
    const { realtime, lives, last, join, pass } = played();
    realtime.start();
    await pass(0);
    for (let round = 0; round < 8; round += 1) {
      last().onEnd("refused");
      await pass(15_000);
    }
    last().onEnd("refused");
    const before = lives.length;
    realtime.hurry(false);
    await pass(0);
    expect(lives).toHaveLength(before + 1);
    join();
    realtime.hurry(false);
    await pass(0);
    expect(lives).toHaveLength(before + 1);
    realtime.hurry(true);
    await pass(0);
    expect(lives).toHaveLength(before + 2);
    realtime.stop();
  });

  test("what belongs to an earlier life is ignored, and nothing happens after the stop", async () => {
    const events: unknown[] = [];
    const { realtime, lives, last, join, pass, statuses } = played({ onEvent: (_, payload) => events.push(payload) });
    realtime.start();
    await pass(0);
    const first = last();
    join();
    first.onEnd("lost");
    await pass(1000);
    first.onEvent("user", "old");
    first.onEnd("lost");
    last().onEvent("user", "new");
    expect(events).toEqual(["new"]);
    const count = lives.length;
    realtime.stop();
    const said = statuses.length;
    last().onEnd("lost");
    await pass(MINUTE);
    expect(lives).toHaveLength(count);
    expect(statuses).toHaveLength(said);
  });

  test("without a URL it is unavailable at once", async () => {
    const { realtime, status, pass, lives } = played({ wsUrl: undefined });
    realtime.start();
    await pass(0);
    expect(status()).toBe("unavailable");
    expect(lives).toEqual([]);
    realtime.stop();
  });
});

test("waits double up to their limit, and no two clients wait alike", () => {
  const waits = Array.from({ length: 200 }, () => backoffMs(3));
  expect(Math.min(...waits)).toBeGreaterThanOrEqual(800);
  expect(Math.max(...waits)).toBeLessThanOrEqual(4000);
  expect(new Set(waits).size).toBeGreaterThan(190);
  expect(backoffMs(1000)).toBeLessThanOrEqual(15_000);
});
