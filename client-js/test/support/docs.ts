import { readdirSync, readFileSync } from "node:fs";

const DOCS = new URL("../../../docs/", import.meta.url);

/** The named code blocks of the pages in `docs/`, by what stands after their language: a file's path. */
export const docsCode: ReadonlyMap<string, string> = new Map(
  readdirSync(DOCS)
    .filter((name) => name.endsWith(".md"))
    .flatMap((name) => [...readFileSync(new URL(name, DOCS), "utf8").matchAll(/^```\w+ (\S+)\n([\s\S]*?)^```$/gm)])
    .map(([, path = "", code = ""]) => [path, code]),
);

/** The block of that name. */
export function codeOf(name: string): string {
  const found = docsCode.get(name);
  if (found === undefined) throw new Error(`No page of docs/ has a block named ${name}.`);
  return found;
}
