import { existsSync, mkdirSync, readFileSync, rmSync } from "node:fs";
import { fileURLToPath } from "node:url";

import type { Browser, Page, Route } from "playwright-core";
import { afterAll, beforeAll, inject, test } from "vitest";

import { openBrowser, Window } from "../support/browser.js";

const FOLDER = fileURLToPath(new URL("../../.build/screenshots/", import.meta.url));
const SIZES = { wide: { width: 1280, height: 860 }, narrow: { width: 390, height: 844 } };
const USER = "ada";
/** A notice stands at the window's lower edge. */
const SHOWS_NOTICE = new Set(["absorbed", "save-failed"]);

const { apiUrl, apiKey } = inject("deployment");
let browser: Browser;

interface Draft {
  readonly content: string;
  readonly kind: string;
  readonly scope?: string;
  readonly sourceThreadIds?: readonly string[];
}

const DRAFTS: readonly Draft[] = [
  { content: "Moved from Lisbon to Oslo in March 2024.", kind: "episodic", sourceThreadIds: ["thread-7f3a"] },
  { content: "The staging database is wiped every Sunday night.", kind: "topical", scope: "project" },
  { content: "Works on the billing team; owns the invoice export.", kind: "topical", sourceThreadIds: ["thread-7f3a"] },
  {
    content:
      "Asked for answers in this order: first what changed, then why, then what to do next. Long tables are to be " +
      "avoided; when there is no other way, at most four columns, and units in the heading.",
    kind: "operational",
    sourceThreadIds: ["thread-91c0", "thread-b2d4-a-very-long-thread-id-from-some-other-system"],
  },
  { content: "مرحبا — يفضل الردود القصيرة", kind: "operational" },
  { content: "Prefers concise status updates.", kind: "operational", sourceThreadIds: ["thread-91c0"] },
];

async function call(method: string, path: string, body?: object): Promise<{ id: string }> {
  const answer = await fetch(`${apiUrl}/api${path}`, {
    method,
    headers: { Authorization: `Bearer ${apiKey}`, "X-Cpki-User-Id": USER, "Content-Type": "application/json" },
    ...(body && { body: JSON.stringify(body) }),
  });
  return answer.status === 204 ? { id: "" } : ((await answer.json()) as { id: string });
}

beforeAll(async () => {
  rmSync(FOLDER, { recursive: true, force: true });
  mkdirSync(FOLDER, { recursive: true });
  browser = await openBrowser();
});

/** What the states after the empty ones show. */
async function seed(): Promise<void> {
  for (const draft of DRAFTS) await call("POST", "/memories", draft);
  const old = await call("POST", "/memories", { content: "Is on holiday until Friday.", kind: "episodic" });
  await call("DELETE", `/memories/${old.id}`);
  const tea = await call("POST", "/memories", { content: "Prefers tea.", kind: "operational" });
  await call("PATCH", `/memories/${tea.id}`, { content: "Prefers coffee, without milk.", kind: "operational" });
  // What has just changed is tinted for a moment.
  await new Promise((resolve) => setTimeout(resolve, 3000));
}

afterAll(async () => {
  await sheets();
  await browser?.close();
});

/** All states of one size and scheme on one sheet. */
async function sheets(): Promise<void> {
  for (const size of Object.keys(SIZES)) {
    for (const scheme of ["light", "dark"]) {
      const taken = Object.keys(STATES).filter((name) => existsSync(`${FOLDER}${name}-${size}-${scheme}.png`));
      const figures = taken.map((name) => {
        const image = readFileSync(`${FOLDER}${name}-${size}-${scheme}.png`, "base64");
        return `<figure><figcaption>${name}</figcaption><img src="data:image/png;base64,${image}"></figure>`;
      });
      const page = await browser.newPage({ viewport: { width: 1800, height: 900 } });
      await page.setContent(
        `<style>body{display:flex;flex-wrap:wrap;gap:10px;margin:10px;background:#888;font:16px sans-serif}
         figure{margin:0;width:${size === "wide" ? 580 : 244}px}img{width:100%}</style>${figures.join("")}`,
      );
      await page.screenshot({ path: `${FOLDER}_${size}-${scheme}.png`, fullPage: true });
      await page.close();
    }
  }
}

const list = "**/console/api/memories";
const answer = (status: number, code: string, message: string) => (route: Route) =>
  route.fulfill({ status, json: { error: { code, message, requestId: "r-1" } } });

interface State {
  readonly prepare?: (page: Page) => Promise<unknown>;
  readonly act?: (page: Page, window: Window) => Promise<unknown>;
  readonly isLive?: boolean;
}

const STATES: Readonly<Record<string, State>> = {
  empty: {},
  "recall-nothing": {
    act: async (page) => {
      await page.getByLabel("What to recall").fill("what about the weather");
      await page.getByText("Nothing answers that.").waitFor();
    },
  },
  list: {},
  loading: { prepare: (page) => page.route(list, () => undefined), isLive: false },
  error: {
    prepare: (page) => page.route(list, answer(503, "STORAGE_UNAVAILABLE", "The database does not answer; try again.")),
    act: (page) => page.locator(".fault").waitFor(),
    isLive: false,
  },
  "not-entitled": {
    prepare: (page) => page.route(list, answer(404, "MEMORY_NOT_ENTITLED", "Not entitled.")),
    act: (page) => page.getByText("Memory is not available here").waitFor(),
    isLive: false,
  },
  "not-live": {
    act: async (page, window) => {
      window.line.goDown();
      await page.locator(".status-unavailable").waitFor();
    },
  },
  recall: {
    act: async (page) => {
      await page.getByLabel("What to recall").fill("how does this user like updates");
      await page.locator(".results li").first().waitFor();
    },
  },
  "recall-degraded": {
    prepare: (page) =>
      page.route("**/memories/recall", async (route) => {
        const response = await route.fetch();
        await route.fulfill({ response, json: { ...((await response.json()) as object), degraded: ["embedder"] } });
      }),
    act: async (page) => {
      await page.getByLabel("What to recall").fill("coffee");
      await page.locator(".results li").first().waitFor();
    },
  },
  edit: {
    act: (page) => page.locator(".memory", { hasText: "concise" }).getByRole("button", { name: /^Edit/ }).click(),
  },
  retired: {
    act: async (page) => {
      await page.getByLabel("Show retired").check();
      await page.locator(".is-retired").first().waitFor();
    },
  },
  absorbed: {
    act: async (page) => {
      await page.getByLabel("New memory").fill("PREFERS CONCISE STATUS UPDATES.");
      await page.keyboard.press("Enter");
      await page.locator(".notice-absorbed").waitFor();
    },
  },
  "save-failed": {
    prepare: (page) =>
      page.route(list, (route) =>
        route.request().method() === "POST"
          ? answer(503, "EMBEDDER_UNAVAILABLE", "The embeddings service does not answer; nothing was saved.")(route)
          : route.continue(),
      ),
    act: async (page) => {
      await page.getByLabel("New memory").fill("Likes the window open.");
      await page.keyboard.press("Enter");
      await page.locator(".notice-fault").waitFor();
    },
  },
};

for (const [name, { prepare, act, isLive = true }] of Object.entries(STATES)) {
  test(name, async () => {
    if (name === "list") await seed();
    for (const [size, viewport] of Object.entries(SIZES)) {
      for (const colorScheme of ["light", "dark"] as const) {
        const window = await Window.open(browser, { viewport, colorScheme, reducedMotion: "reduce" });
        try {
          await prepare?.(window.page);
          await window.page.goto(`${apiUrl}/?user=${USER}`);
          if (isLive) await window.page.locator(".status-connected").waitFor();
          await window.page.locator(isLive ? ".memories, .blank" : "header").waitFor();
          await act?.(window.page, window);
          await window.page.waitForTimeout(150);
          const path = `${FOLDER}${name}-${size}-${colorScheme}.png`;
          await window.page.screenshot({ path, fullPage: !SHOWS_NOTICE.has(name) });
          const overflow = await window.page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
          if (overflow > 0) throw new Error(`${name} at ${viewport.width} px is ${overflow} px too wide`);
        } finally {
          await window.close();
        }
      }
    }
  });
}
