import { readFileSync } from "node:fs";

const README = readFileSync(new URL("../../README.md", import.meta.url), "utf8");

/** The code block of the README that bears this name after its language. */
export function codeOf(name: string): string {
  const found = new RegExp("```\\w+ " + name.replace(".", "\\.") + "\n([\\s\\S]*?)```").exec(README)?.[1];
  if (found === undefined) throw new Error(`The README has no block named ${name}.`);
  return found;
}
