import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { Socket } from "phoenix";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import WebSocket, { WebSocketServer } from "ws";

import { createSocket, type MemorySocket } from "../src/socket.js";
import { sleep } from "./support/app.js";

type Behaviour = "answers" | "refuses" | "closes" | "dies";

let server: WebSocketServer;
let behaviour: Behaviour;
let joins: unknown[];
let socket: MemorySocket;

beforeEach(async () => {
  joins = [];
  server = new WebSocketServer({ port: 0, host: "127.0.0.1" });
  await once(server, "listening");
  server.on("connection", (peer) => {
    peer.on("message", (data: Buffer) => {
      const [joinRef, ref, topic, event, payload] = JSON.parse(data.toString()) as unknown[];
      if (event !== "phx_join") return;
      joins.push(payload);
      if (behaviour === "closes") peer.close(1012);
      if (behaviour === "dies") peer.terminate();
      const status = behaviour === "refuses" ? "error" : "ok";
      peer.send(JSON.stringify([joinRef, ref, topic, "phx_reply", { status, response: { epoch: "e", seq: 1 } }]));
    });
  });
  socket = createSocket(() => WebSocket);
});
afterEach(() => {
  socket.close();
  server.close();
});

/** Opens the socket once and tells how that went. */
function live(): Promise<string> {
  const { port } = server.address() as AddressInfo;
  return new Promise((tell) => {
    const joined: string[] = [];
    socket.open({
      wsUrl: `ws://127.0.0.1:${port}/client`,
      token: "secret",
      topics: [
        { scope: "user", topic: "user_meta:memories:a" },
        { scope: "project", topic: "project_meta:memories:b" },
      ],
      positionOf: (scope) => (scope === "user" ? { epoch: "e", seq: 1 } : null),
      onJoined: (scope) => {
        joined.push(scope);
        if (joined.length === 2) tell("joined");
      },
      onEvent: () => undefined,
      onEnd: tell,
    });
  });
}

test("it joins both topics with its positions and without a fence", async () => {
  behaviour = "answers";
  expect(await live()).toBe("joined");
  expect(joins).toEqual([
    { last: { epoch: "e", seq: 1 }, fence: false },
    { last: null, fence: false },
  ]);
});

test.each<[Behaviour, string]>([
  ["refuses", "refused"],
  ["closes", "lost"],
  ["dies", "lost"],
])("a server that %s a join: %s", async (how, end) => {
  behaviour = how;
  expect(await live()).toBe(end);
});

test("a server that is not there is a refusal", async () => {
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  vi.spyOn(server, "address").mockReturnValue({ port } as AddressInfo);
  expect(await live()).toBe("refused");
});

test("many lives leave nothing behind: no channel, no listener, no connection", async () => {
  let phoenix: Record<string, unknown> = {};
  const connect = Socket.prototype.connect;
  vi.spyOn(Socket.prototype, "connect").mockImplementation(function (this: Socket) {
    phoenix = this as unknown as Record<string, unknown>;
    connect.call(this);
  });
  for (const how of ["answers", "refuses", "closes", "dies", "answers", "dies", "answers", "closes"] as const) {
    behaviour = how;
    await live();
    await sleep(30);
  }
  socket.close();
  await vi.waitFor(() => expect(server.clients.size).toBe(0), 5000);
  expect(phoenix.channels).toEqual([]);
  expect(Object.values(phoenix.stateChangeCallbacks as Record<string, unknown[]>).flat()).toEqual([]);
  vi.restoreAllMocks();
});
