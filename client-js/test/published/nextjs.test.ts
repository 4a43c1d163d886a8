/** Our own hook in a real Next.js app: the page of docs/with-nextjs.md. */
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";

import { serverList, until } from "../support/app.js";
import { openBrowser, Window } from "../support/browser.js";
import { DevServer, type Deployment } from "../support/dev-server.js";
import { PublishedApp } from "./apps.js";

let browser: Browser;
let server: DevServer;
let deployment: Deployment;
let app: PublishedApp;

beforeAll(async () => {
  [browser, server] = await Promise.all([openBrowser(), DevServer.create()]);
  deployment = await server.deployment();
  app = await PublishedApp.start("nextjs", deployment);
});
afterAll(async () => {
  await browser?.close();
  await app?.stop();
  await server?.dispose();
});

test("the page of the docs lists live in two windows, tells of an absorb, recalls and forgets", async () => {
  const windows = [await Window.open(browser), await Window.open(browser)] as const;
  try {
    for (const { context, page } of windows) {
      await page.goto(`${app.url}/memories`);
      await page.getByText("Nobody is signed in.").waitFor();
      await context.addCookies([{ name: "user", value: "ada", url: app.url }]);
      await page.goto(`${app.url}/memories`);
      await page.getByText("Live", { exact: true }).waitFor();
    }
    const [one, other] = [windows[0].page, windows[1].page];
    const save = async (content: string) => {
      await one.getByLabel("New memory").fill(content);
      await one.getByRole("button", { name: "Save" }).click();
    };
    await save("Prefers concise status updates.");
    await one.getByText("Saved.").waitFor();
    await other.locator("ul > li", { hasText: "Prefers concise" }).waitFor({ timeout: 3000 });
    await save("PREFERS CONCISE STATUS UPDATES.");
    await one.getByText("That was known already.").waitFor();
    await other.locator("ul > li", { hasText: "PREFERS CONCISE" }).waitFor({ timeout: 3000 });
    expect(await serverList(deployment, "ada")).toHaveLength(1);

    await other.getByPlaceholder("Recall by meaning").fill("how does this user like updates");
    await other.locator("ol > li", { hasText: /PREFERS CONCISE .*\d+ %/ }).waitFor();

    await one.getByRole("button", { name: "Forget" }).click();
    for (const { page } of windows) await until(async () => (await page.locator("ul > li").count()) === 0, "forgotten");
    expect(await serverList(deployment, "ada")).toEqual([]);
    const logged = windows.flatMap(({ log }) => log).filter((line) => /^(error|uncaught|warning)/.test(line));
    expect(logged).toEqual([]);
  } finally {
    await Promise.all(windows.map((window) => window.close()));
  }
});

test("a request without a session is refused, and one without the handler's settings says what is missing", async () => {
  const refused = await fetch(`${app.url}/api/memlane/memories`);
  expect(refused.status).toBe(401);
  const unset = await PublishedApp.start("nextjs", { apiUrl: "", wsUrl: deployment.wsUrl, apiKey: "" });
  try {
    const answer = await fetch(`${unset.url}/api/memlane/memories`, { headers: { Cookie: "user=ada" } });
    expect(answer.status).toBe(500);
    expect(await answer.json()).toMatchObject({ error: { code: "NOT_CONFIGURED" } });
  } finally {
    await unset.stop();
  }
});
