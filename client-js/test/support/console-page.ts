/** The console as a person uses it. */
import type { Locator } from "playwright-core";

import type { Window } from "./browser.js";

/** A state of the list that the page showed, and when, in milliseconds of the machine's clock. */
export interface Shown {
  readonly at: number;
  readonly contents: readonly string[];
}

export class ConsolePage {
  readonly window: Window;

  private constructor(window: Window) {
    this.window = window;
  }

  /** Opens it and waits until it is live. */
  static async open(window: Window, url: string, user: string): Promise<ConsolePage> {
    const console = new ConsolePage(window);
    await window.page.goto(`${url}/?user=${encodeURIComponent(user)}`);
    await console.isLive();
    await window.page.evaluate(watchList);
    return console;
  }

  async isLive(withinMs = 10_000): Promise<void> {
    await this.window.page.locator(".status-connected").waitFor({ timeout: withinMs });
  }

  row(content: string): Locator {
    return this.window.page.locator(".memories > li", { hasText: content });
  }

  /** Saves, and gives the moment of the key press. */
  async add(content: string): Promise<number> {
    await this.window.page.getByLabel("New memory").fill(content);
    const at = Date.now();
    await this.window.page.keyboard.press("Enter");
    return at;
  }

  async supersede(content: string, next: string): Promise<void> {
    await this.row(content).getByRole("button", { name: /^Edit/ }).click();
    await this.window.page.getByLabel("New wording").fill(next);
    await this.window.page.getByRole("button", { name: "Supersede" }).click();
  }

  async forget(content: string): Promise<void> {
    await this.row(content)
      .getByRole("button", { name: /^Forget/ })
      .click();
  }

  contents(): Promise<string[]> {
    return this.window.page.locator(".memories > li .content").allTextContents();
  }

  /** Every state that the list went through since the page was opened. */
  history(): Promise<Shown[]> {
    return this.window.page.evaluate(() => (globalThis as unknown as { shown: Shown[] }).shown);
  }

  /** When the list first showed it. */
  async cameAt(content: string): Promise<number> {
    await this.row(content).waitFor();
    const first = (await this.history()).find(({ contents }) => contents.includes(content));
    return first?.at ?? Number.NaN;
  }
}

/** Runs in the page. */
function watchList(): void {
  const shown: Shown[] = [];
  Object.assign(globalThis, { shown });
  const look = (): void => {
    const contents = [...document.querySelectorAll(".memories > li .content")].map((one) => one.textContent ?? "");
    const last = shown.at(-1);
    if (last === undefined || last.contents.join("\n") !== contents.join("\n")) {
      shown.push({ at: performance.timeOrigin + performance.now(), contents });
    }
  };
  new MutationObserver(look).observe(document.body, { childList: true, subtree: true, characterData: true });
  look();
}
