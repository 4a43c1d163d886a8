/** The published hook behind the published runtime, both unchanged, on Memlane: the page of docs/with-copilotkit.md. */
import { createMemoryStore } from "memlane";
import type { Browser, Locator } from "playwright-core";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import WebSocket from "ws";

import { contents as shown, isConnected as isLive, serverAdd, serverList, until } from "../support/app.js";
import { openBrowser, Window } from "../support/browser.js";
import { DevServer, type Deployment } from "../support/dev-server.js";
import { UnentitledApi } from "../support/unentitled.js";
import { PublishedApp, typeFaults } from "./apps.js";

let browser: Browser;
let server: DevServer;
let deployment: Deployment;
let app: PublishedApp;
const windows: Window[] = [];
let users = 0;

beforeAll(async () => {
  [browser, server] = await Promise.all([openBrowser(), DevServer.create()]);
  deployment = await server.deployment();
  app = await PublishedApp.start("copilotkit", deployment);
});
afterEach(async () => {
  await Promise.all(windows.splice(0).map((window) => window.close()));
});
afterAll(async () => {
  await browser?.close();
  await app?.stop();
  await server?.dispose();
});

const newUser = () => `published-${++users}`;

async function open(user: string, at = app): Promise<Window> {
  const window = await Window.open(browser);
  windows.push(window);
  await window.context.addCookies([{ name: "user", value: user, url: at.url }]);
  await window.page.goto(`${at.url}/copilot`);
  return window;
}

const isConnected = ({ page }: Window) => page.getByText("connected", { exact: true }).waitFor();
const row = ({ page }: Window, content: string): Locator => page.locator("li", { hasText: content });
const contents = ({ page }: Window) => page.locator("li > span").allTextContents();
const truth = async (user: string) => (await serverList(deployment, user)).map(({ content }) => content);

async function add({ page }: Window, content: string): Promise<void> {
  await page.getByLabel("New memory").fill(content);
  await page.getByRole("button", { name: "Save" }).click();
}

test("it is connected and lists what is there", async () => {
  const user = newUser();
  for (const content of ["Lives in Oslo.", "Has a dog named Rex."]) await serverAdd(deployment, user, content);
  const window = await open(user);
  await isConnected(window);
  await until(async () => (await contents(window)).length === 2, "both rows");
  expect(await contents(window)).toEqual(await truth(user));
});

test("it adds, updates and removes, and another window of the user follows", async () => {
  const user = newUser();
  const [one, other] = [await open(user), await open(user)];
  await Promise.all([one, other].map(isConnected));

  await add(one, "Prefers tea.");
  await row(one, "Prefers tea.").waitFor();
  await row(other, "Prefers tea.").waitFor({ timeout: 3000 });
  expect(await truth(user)).toEqual(["Prefers tea."]);

  other.page.on("dialog", (dialog) => void dialog.accept("Prefers coffee."));
  await row(other, "Prefers tea.").getByRole("button", { name: "Change" }).click();
  for (const window of [one, other]) {
    await row(window, "Prefers coffee.").waitFor();
    await row(window, "Prefers tea.").waitFor({ state: "detached" });
  }
  expect(await truth(user)).toEqual(["Prefers coffee."]);

  await row(one, "Prefers coffee.").getByRole("button", { name: "Forget" }).click();
  for (const window of [one, other]) await row(window, "Prefers coffee.").waitFor({ state: "detached" });
  expect(await truth(user)).toEqual([]);
});

test("a save of another device appears at once", async () => {
  const user = newUser();
  const window = await open(user);
  await isConnected(window);
  await serverAdd(deployment, user, "From the phone.");
  await row(window, "From the phone.").waitFor({ timeout: 3000 });
});

test("our own store works behind the published runtime too: live, with absorbs and recall", async () => {
  const user = newUser();
  const store = createMemoryStore({
    runtimeUrl: `${app.url}/api/copilotkit`,
    wsUrl: deployment.wsUrl,
    headers: { Cookie: `user=${user}` },
    WebSocket,
  });
  try {
    store.subscribe(() => undefined);
    await until(() => isLive(store), "connected");
    await serverAdd(deployment, user, "From the phone.");
    await until(() => shown(store).length === 1, "the phone's memory");
    expect(await store.addMemory({ content: "FROM THE PHONE.", kind: "topical" })).toMatchObject({ absorbed: true });
    expect((await store.recall("phone")).memories[0]?.content).toBe("FROM THE PHONE.");
    expect(shown(store)).toEqual(await truth(user));
  } finally {
    store.close();
  }
});

test("the code of the page holds in strict TypeScript", () => {
  expect(typeFaults("copilotkit")).toBe("");
});

test("on a server that is not entitled isAvailable is false", async () => {
  const api = await UnentitledApi.start(server);
  const unentitled = await PublishedApp.start("copilotkit", api.deployment);
  try {
    const answers: string[] = [];
    const window = await open(newUser(), unentitled);
    window.page.on("response", (response) => answers.push(`${response.status()} ${new URL(response.url()).pathname}`));
    await window.page.reload();
    await window.page.getByText("Memory is not available.").waitFor();
    expect(answers).toContain("404 /api/copilotkit/memories");
    expect(answers).toContain("200 /api/copilotkit/info");
  } finally {
    await unentitled.stop();
    await api.stop();
  }
});

test("the project's key is in nothing that reached the browser, and not in the app's output", async () => {
  const user = newUser();
  const window = await open(user);
  const bodies: Promise<string>[] = [];
  window.page.on("response", (response) => bodies.push(response.text().catch(() => "")));
  await window.page.reload();
  await isConnected(window);
  await add(window, "Something.");
  await row(window, "Something.").waitFor();
  const told = [...(await Promise.all(bodies)), ...window.log, app.output].join("\n");
  expect(told).toContain("joinToken");
  expect(told).not.toContain(deployment.apiKey);
  expect(window.log.filter((line) => line.startsWith("uncaught"))).toEqual([]);
});
