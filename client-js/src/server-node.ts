/** The same handler for `node:http` and Express. */

interface NodeRequest extends AsyncIterable<Uint8Array> {
  readonly method?: string | undefined;
  readonly url?: string | undefined;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  /** Express: the URL before a mount point was cut off. */
  readonly originalUrl?: string;
  /** Express: the body, when a parser has read it. */
  readonly body?: unknown;
}

interface NodeResponse {
  statusCode: number;
  setHeader(name: string, value: string): unknown;
  end(body?: Uint8Array): unknown;
}

/** Makes a listener: `http.createServer(nodeListener(handler))`, or `app.use("/api", nodeListener(handler))` in Express. */
export function nodeListener(
  handler: (request: Request) => Promise<Response>,
): (request: NodeRequest, response: NodeResponse) => Promise<void> {
  return async (request, response) => {
    const answer = await answerTo(request, handler);
    response.statusCode = answer.status;
    answer.headers.forEach((value, name) => response.setHeader(name, value));
    response.end(new Uint8Array(await answer.arrayBuffer()));
  };
}

async function answerTo(request: NodeRequest, handler: (request: Request) => Promise<Response>): Promise<Response> {
  let asked: Request;
  try {
    asked = requestOf(request);
  } catch {
    // A method or a path that the platform refuses.
    return new Response(null, { status: 400 });
  }
  return handler(asked);
}

function requestOf(request: NodeRequest): Request {
  const headers = new Headers();
  for (const [name, value] of Object.entries(request.headers)) {
    for (const one of [value ?? []].flat()) headers.append(name, one);
  }
  const method = request.method ?? "GET";
  // Only the path counts; the host is what the client claims.
  const url = new URL(request.originalUrl ?? request.url ?? "/", "http://localhost");
  const hasBody = method !== "GET" && method !== "HEAD";
  const body = !hasBody ? null : request.body === undefined ? streamOf(request) : JSON.stringify(request.body);
  return new Request(url, { method, headers, body, duplex: "half" } as RequestInit);
}

function streamOf(chunks: AsyncIterable<Uint8Array>): ReadableStream<Uint8Array> {
  const iterator = chunks[Symbol.asyncIterator]();
  return new ReadableStream({
    async pull(controller) {
      const { done, value } = await iterator.next();
      if (done) controller.close();
      else controller.enqueue(new Uint8Array(value));
    },
    // Not cancelled: that would cut the line before the answer is written.
  });
}
