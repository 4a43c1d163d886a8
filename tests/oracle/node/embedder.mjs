// Embeds without a model: what a text means is of no account here, and the machine's time is for the stream.
import { createServer } from "node:http";
import { once } from "node:events";
import { randomOf } from "./random.mjs";

export const DIMENSIONS = 8;

/** Serve `/v1/embeddings` on a free port of loopback; gives the port. The same text has the same vector. */
export async function serveEmbeddings() {
  const server = createServer(async (request, response) => {
    const parts = [];
    for await (const part of request) parts.push(part);
    if (request.url !== "/v1/embeddings") return response.writeHead(404).end();
    const { input } = JSON.parse(Buffer.concat(parts).toString());
    const data = [input].flat().map((text, index) => ({ object: "embedding", index, embedding: vectorOf(text) }));
    response.setHeader("content-type", "application/json");
    return response.end(JSON.stringify({ object: "list", model: "oracle", data }));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return server.address().port;
}

function vectorOf(text) {
  const random = randomOf(1, text);
  const numbers = Array.from({ length: DIMENSIONS }, () => random.next() - 0.5);
  const length = Math.hypot(...numbers);
  return numbers.map((number) => number / length);
}
