import { afterAll, beforeAll, expect, test } from "vitest";

import { App, contents, isConnected, openStore, serverAdd, serverList, until } from "../support/app.js";
import { DevServer } from "../support/dev-server.js";

let server: DevServer | undefined;
let app: App | undefined;

beforeAll(async () => {
  server = await DevServer.create();
  app = await App.create(await server.deployment());
});
afterAll(async () => {
  await app?.close();
  await server?.dispose();
});

test("a restart of the server is survived, and what was said right after it arrives", async () => {
  if (server === undefined || app === undefined) throw new Error("no service");
  const store = openStore(app, "ada");
  try {
    store.subscribe(() => undefined);
    await until(() => isConnected(store), "connected");
    await store.addMemory({ content: "Before.", kind: "topical" });
    await server.stop();
    await until(() => !isConnected(store), "not connected");
    await server.start();
    const deployment = await server.deployment();
    await serverAdd(deployment, "ada", "After.");
    await until(() => isConnected(store), "connected again", 20_000);
    await until(() => contents(store).length === 2, "what was missed");
    expect(store.getSnapshot().memories).toEqual(await serverList(deployment, "ada"));
    expect(store.getSnapshot().error).toBeNull();
  } finally {
    store.close();
  }
});
