import type { Browser } from "playwright-core";
import { afterAll, afterEach, beforeAll, expect, inject, test } from "vitest";

import { serverAdd, serverList, sleep, until } from "../support/app.js";
import { openBrowser, Window } from "../support/browser.js";
import { ConsolePage } from "../support/console-page.js";

/** How long two windows are without a network; a minute unless a hurry says otherwise. */
const OFFLINE_MS = Number(process.env.MEMLANE_TEST_OFFLINE_SECONDS ?? 60) * 1000;
const BACK_WITHIN_MS = 30_000;

const deployment = inject("deployment");
let browser: Browser;
const windows: Window[] = [];
let users = 0;

beforeAll(async () => {
  browser = await openBrowser();
});
afterEach(async () => {
  await Promise.all(windows.splice(0).map((window) => window.close()));
});
afterAll(() => browser?.close());

const newUser = () => `browser-${++users}-${Date.now()}`;

async function open(user: string): Promise<ConsolePage> {
  const window = await Window.open(browser);
  windows.push(window);
  return ConsolePage.open(window, deployment.apiUrl, user);
}

const truth = async (user: string) => (await serverList(deployment, user)).map(({ content }) => content);

async function equalsTheServers(page: ConsolePage, user: string, withinMs = 5000): Promise<void> {
  const isEqual = async () => JSON.stringify(await page.contents()) === JSON.stringify(await truth(user));
  await until(isEqual, "the list equals the server's", withinMs).catch(() => undefined);
  expect(await page.contents()).toEqual(await truth(user));
}

test("a save in one window appears in the other in under a second", async () => {
  const user = newUser();
  const [one, other] = [await open(user), await open(user)];
  const delays: number[] = [];
  for (const content of ["Lives in Oslo.", "Has a dog named Rex.", "Works on Tuesdays."]) {
    const at = await one.add(content);
    delays.push((await other.cameAt(content)) - at);
    await one.row(content).waitFor();
  }
  console.log(`from the key press to the other window's list: ${delays.map(Math.round).join(", ")} ms`);
  for (const delay of delays) expect(delay).toBeLessThan(1000);
  expect(await other.contents()).toEqual(await one.contents());
});

test("a supersede replaces the row: neither window ever shows both wordings", async () => {
  const user = newUser();
  const [one, other] = [await open(user), await open(user)];
  await one.add("Prefers tea.");
  await other.row("Prefers tea.").waitFor();
  await one.supersede("Prefers tea.", "Prefers coffee.");
  await other.row("Prefers coffee.").waitFor();
  for (const page of [one, other]) {
    await equalsTheServers(page, user);
    expect(await page.contents()).toEqual(["Prefers coffee."]);
    expect((await page.history()).filter(({ contents }) => contents.length > 1)).toEqual([]);
  }
});

test("a save that ends while somebody types elsewhere does not take the focus away", async () => {
  const user = newUser();
  const one = await open(user);
  await one.add("Prefers tea.");
  await one.row("Prefers tea.").waitFor();
  let answer = (): void => undefined;
  const held = new Promise<void>((resolve) => (answer = resolve));
  await one.window.page.route("**/console/api/memories", async (route) => {
    if (route.request().method() === "POST") await held;
    await route.continue();
  });
  await one.add("Has a dog named Rex.");
  await one.row("Prefers tea.").getByRole("button", { name: /^Edit/ }).click();
  answer();
  await one.row("Has a dog named Rex.").waitFor();
  await one.window.page.keyboard.insertText(" In the morning.");
  expect(await one.window.page.getByLabel("New wording").inputValue()).toBe("Prefers tea. In the morning.");
});

test("what is typed while a save is under way stays, and a text that could not be saved comes back", async () => {
  const user = newUser();
  const one = await open(user);
  let answer = (): void => undefined;
  const held = new Promise<void>((resolve) => (answer = resolve));
  await one.window.page.route("**/console/api/memories", async (route) => {
    if (route.request().method() === "POST") await held;
    await route.continue();
  });
  const field = one.window.page.getByLabel("New memory");
  await one.add("First.");
  await one.add("Second.");
  await field.fill("Third.");
  answer();
  await one.row("First.").waitFor();
  await one.row("Second.").waitFor();
  expect(await field.inputValue()).toBe("Third.");
  await one.add("No such \u0000 text.");
  await one.window.page.locator(".notice-fault").waitFor();
  expect(await field.inputValue()).toContain("No such");
});

test("forgetting takes the row away in both windows, at once in the one where it is done", async () => {
  const user = newUser();
  const [one, other] = [await open(user), await open(user)];
  await one.add("Soon forgotten.");
  await other.row("Soon forgotten.").waitFor();
  await other.forget("Soon forgotten.");
  await one.row("Soon forgotten.").waitFor({ state: "detached" });
  await other.row("Soon forgotten.").waitFor({ state: "detached" });
  expect(await truth(user)).toEqual([]);
});

test(
  `after ${OFFLINE_MS / 1000} s without a network every list equals the server's`,
  { timeout: OFFLINE_MS + 90_000 },
  async () => {
    const user = newUser();
    const [here, dead, offline] = [await open(user), await open(user), await open(user)];
    for (const content of ["Stays.", "To be changed.", "To be forgotten."]) await serverAdd(deployment, user, content);
    for (const page of [here, dead, offline]) await equalsTheServers(page, user);

    // One line dies without a word; the other window's network goes, and the browser says so.
    dead.window.line.goSilent();
    offline.window.line.goDown();
    await offline.window.context.setOffline(true);
    const began = Date.now();
    await here.add("Said meanwhile.");
    await here.supersede("To be changed.", "Changed.");
    await here.row("Changed.").waitFor();
    await here.forget("To be forgotten.");
    await here.row("To be forgotten.").waitFor({ state: "detached" });
    await offline.add("Never arrives.");
    await offline.window.page.locator(".notice-fault").waitFor();
    await equalsTheServers(here, user);
    expect(await dead.contents()).toContain("To be forgotten.");
    await sleep(began + OFFLINE_MS - Date.now());
    if (OFFLINE_MS >= 60_000) {
      for (const page of [dead, offline]) expect(await page.window.page.locator(".status-unavailable").count()).toBe(1);
    }
    dead.window.line.goUp();
    offline.window.line.goUp();
    await offline.window.context.setOffline(false);
    const back = Date.now();
    await Promise.all([dead, offline].map((page) => page.isLive(BACK_WITHIN_MS)));
    for (const page of [dead, offline]) await equalsTheServers(page, user);
    console.log(`live and equal ${Date.now() - back} ms after the network came back`);
    expect((await truth(user)).sort()).toEqual(["Changed.", "Said meanwhile.", "Stays."]);
    await here.add("After all.");
    for (const page of [dead, offline]) await page.row("After all.").waitFor();
  },
);
