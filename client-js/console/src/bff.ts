import type { Memory } from "memlane";

/** Where `memlane dev` mounts the console's own routes: they add the runtime key, which never reaches the page. */
export const RUNTIME_URL = new URL("console/api", document.baseURI).href;
export const WS_URL = new URL("client", document.baseURI).href.replace(/^http/, "ws");

/** Header values are Latin-1, so the user id travels percent-encoded. */
export function headersOf(user: string): Record<string, string> {
  return { "X-Console-User": encodeURIComponent(user) };
}

/** The retired rows, newest first. */
export async function fetchRetired(user: string, signal: AbortSignal): Promise<Memory[]> {
  const answer = await fetch(`${RUNTIME_URL}/memories?includeInvalidated=true`, { headers: headersOf(user), signal });
  if (!answer.ok) throw new Error(`The list of retired memories failed with status ${answer.status}.`);
  const body = (await answer.json()) as { memories: Memory[] };
  return body.memories.filter((memory) => memory.invalidatedAt !== null);
}

/** Makes a retired row live again. */
export async function restoreMemory(user: string, id: string): Promise<{ absorbed: boolean }> {
  const answer = await fetch(`${RUNTIME_URL}/memories/${encodeURIComponent(id)}/restore`, {
    method: "POST",
    headers: headersOf(user),
  });
  if (!answer.ok) throw new Error(`The restore failed with status ${answer.status}.`);
  return (await answer.json()) as { absorbed: boolean };
}
