import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";

import { sleep, until } from "../support/app.js";
import { openBrowser, Window } from "../support/browser.js";
import { ConsolePage } from "../support/console-page.js";
import { DevServer, type Deployment } from "../support/dev-server.js";

const TEXT = "The spare key lies under the blue flowerpot.";
const NEXT = "The spare key lies with the neighbour.";
const BUILT = fileURLToPath(new URL("../../console/dist", import.meta.url));

let browser: Browser;
let server: DevServer;
let deployment: Deployment;

beforeAll(async () => {
  [browser, server] = await Promise.all([openBrowser(), DevServer.create()]);
  deployment = await server.deployment();
});
afterAll(async () => {
  await browser?.close();
  await server?.dispose();
});

/** Ends every session of a user: the sockets are closed, and their tokens are refused from then on. */
async function logOut(user: string): Promise<void> {
  await fetch(`${deployment.apiUrl}/api/memories/subscribe`, {
    method: "DELETE",
    headers: { Authorization: `Bearer ${deployment.apiKey}`, "X-Cpki-User-Id": user },
  });
}

test("through refusals and outages the browser logs no key, token, join code or memory, and keeps none", async () => {
  const window = await Window.open(browser);
  const secrets = new Set([deployment.apiKey, deployment.apiKey.split("_").at(-1) ?? "", TEXT, NEXT]);
  const urls: string[] = [];
  const loaded: Promise<string>[] = [];
  window.page.on("request", (request) => urls.push(request.url()));
  window.page.on("websocket", (socket) => urls.push(socket.url()));
  window.page.on("response", (response) => {
    if (response.url().endsWith("/subscribe")) {
      void response.json().then((tickets: Record<string, string>) => {
        for (const value of Object.values(tickets)) secrets.add(value);
      });
    } else if (response.request().resourceType() !== "fetch") loaded.push(response.text());
  });
  const logged = async (what: RegExp) => {
    await until(() => window.log.some((line) => what.test(line)), `the browser logs ${what}`, 20_000);
  };
  try {
    const page = await ConsolePage.open(window, deployment.apiUrl, "ada");
    await page.add(TEXT);
    await page.supersede(TEXT, NEXT);
    await page.row(NEXT).waitFor();
    // A save that is refused.
    await page.add(`${TEXT}\u0000`);
    await window.page.locator(".notice-fault").waitFor();
    // An upgrade that is refused.
    await sleep(1100);
    await logOut("ada");
    await logged(/WebSocket connection to .* failed: .*403/);
    await page.isLive(20_000);
    // A server that is gone.
    await server.stop();
    await logged(/WebSocket connection to .* failed: (?!.*403)/);
    await server.start();
    await page.isLive(20_000);

    expect(secrets.size).toBeGreaterThan(8);
    const kept = await window.page.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }]));
    const told = [...window.log, ...urls, kept, ...(await Promise.all(loaded))].join("\n");
    for (const secret of secrets) {
      if (secret !== "") expect(told.includes(secret), `${secret.slice(0, 12)}… is told`).toBe(false);
    }
    expect(window.log.filter((line) => line.startsWith("uncaught"))).toEqual([]);
  } finally {
    await window.close();
  }
});

test("the built console holds nothing that knows of a key", () => {
  const files = readdirSync(BUILT, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  expect(files.length).toBeGreaterThan(2);
  for (const file of files) {
    const text = readFileSync(join(file.parentPath, file.name), "utf8");
    expect(text.match(/cpk-|apiKey|Bearer |X-Cpki|join_token/i), file.name).toBeNull();
  }
});
