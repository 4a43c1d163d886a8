import { readFileSync } from "node:fs";
import { createServer } from "node:http";

import { nodeListener } from "memlane/server";
import * as route from "./app/api/copilotkit/[[...path]]/route";

const asset = (name: string) => readFileSync(new URL(name, import.meta.url));
const FILES: Record<string, [string, Uint8Array]> = {
  "/copilot": [
    "text/html",
    Buffer.from('<!doctype html><div id="root"></div><script type="module" src="/browser.js"></script>'),
  ],
  "/browser.js": ["text/javascript", asset("browser.js")],
};

/** The route of the docs as Next.js would call it, by method. */
const api = nodeListener(async (request) => {
  const handler = route[request.method as keyof typeof route];
  return handler ? handler(request) : new Response(null, { status: 405 });
});

createServer((request, response) => {
  const [type, body] = FILES[new URL(request.url ?? "/", "http://localhost").pathname] ?? [];
  if (type === undefined) return void api(request, response);
  response.setHeader("Content-Type", type);
  response.end(body);
}).listen(Number(process.env.PORT), "127.0.0.1");
