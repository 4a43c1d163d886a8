import { createMemoryHandler, nodeListener, type MemoryHandlerOptions } from "memlane/server";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, expect, test } from "vitest";

const KEY = "cpk-demo_short_verysecret";
const ID = "01900000-0000-7000-8000-000000000001";

interface Sent {
  readonly url: string;
  readonly init: RequestInit;
  readonly headers: Headers;
}

/** A handler before a service that records what it is asked. */
function handlerOf(
  options: Partial<MemoryHandlerOptions> = {},
  answer: () => Response = () => Response.json({ memories: [] }),
) {
  const sent: Sent[] = [];
  const errors: unknown[] = [];
  const handler = createMemoryHandler({
    apiUrl: "http://memlane.test/",
    wsUrl: "ws://stream.test/client",
    apiKey: KEY,
    identifyUser: () => ({ id: "ada" }),
    access: { user: "read-write", project: "read" },
    onError: (error) => errors.push(error),
    fetch: async (input, init = {}) => {
      sent.push({ url: String(input), init, headers: new Headers(init.headers) });
      return answer();
    },
    ...options,
  });
  return { handler, sent, errors };
}

const request = (path: string, init: RequestInit = {}) => new Request(`https://app.test/api/copilotkit${path}`, init);
const post = (path: string, body: string, headers: Record<string, string> = {}) =>
  request(path, { method: "POST", body, headers: { "Content-Type": "application/json", ...headers } });
const codeOf = async (answer: Response) => ((await answer.json()) as { error: { code: string } }).error.code;

describe("what is passed on", () => {
  test.each([
    ["GET", "/memories", "/api/memories"],
    [
      "GET",
      "/memories?includeInvalidated=true&limit=5&cursor=a%2Fb&else=1",
      "/api/memories?includeInvalidated=true&limit=5&cursor=a%2Fb",
    ],
    ["POST", "/memories", "/api/memories"],
    ["POST", "/memories/recall", "/api/memories/recall"],
    ["POST", "/memories/subscribe", "/api/memories/subscribe"],
    ["DELETE", "/memories/subscribe", "/api/memories/subscribe"],
    ["GET", `/memories/${ID}`, `/api/memories/${ID}`],
    ["PATCH", `/memories/${ID}`, `/api/memories/${ID}`],
    ["DELETE", `/memories/${ID}`, `/api/memories/${ID}`],
  ])("%s %s goes to %s with key, user and grant", async (method, path, there) => {
    const { handler, sent } = handlerOf();
    const withBody = method === "POST" || method === "PATCH";
    const init = withBody ? { body: "{}", headers: { "Content-Type": "application/json" } } : {};
    expect((await handler(request(path, { method, ...init }))).status).toBe(200);
    expect(sent).toHaveLength(1);
    expect(sent[0]?.url).toBe(`http://memlane.test${there}`);
    expect(sent[0]?.init.method).toBe(method);
    expect(sent[0]?.init.redirect).toBe("manual");
    expect(sent[0]?.headers.get("authorization")).toBe(`Bearer ${KEY}`);
    expect(sent[0]?.headers.get("x-cpki-user-id")).toBe("ada");
    expect(JSON.parse(sent[0]?.headers.get("x-cpki-memory-grant") ?? "")).toEqual({
      user: "read-write",
      project: "read",
    });
  });

  test("body, Idempotency-Key and X-Request-Id, and nothing else of the browser's headers", async () => {
    const { handler, sent } = handlerOf();
    const headers = { "Idempotency-Key": "k1", "X-Request-Id": "r1", Cookie: "session=1", "X-Cpki-User-Id": "mallory" };
    await handler(post("/memories", '{"content":"A","kind":"topical"}', headers));
    expect(new TextDecoder().decode(sent[0]?.init.body as Uint8Array)).toBe('{"content":"A","kind":"topical"}');
    expect([...(sent[0]?.headers.keys() ?? [])].sort()).toEqual([
      "authorization",
      "content-type",
      "idempotency-key",
      "x-cpki-memory-grant",
      "x-cpki-user-id",
      "x-request-id",
    ]);
    expect(sent[0]?.headers.get("x-cpki-user-id")).toBe("ada");
  });

  test("a user id goes as UTF-8 bytes", async () => {
    const { handler, sent } = handlerOf({ identifyUser: () => ({ id: "żółć-🙂" }) });
    await handler(request("/memories"));
    const bytes = Uint8Array.from(sent[0]?.headers.get("x-cpki-user-id") ?? "", (char) => char.charCodeAt(0));
    expect(new TextDecoder().decode(bytes)).toBe("żółć-🙂");
  });

  test("status, body and Retry-After of the answer, without its other headers, and never to be cached", async () => {
    const body = { error: { code: "RATE_LIMITED", message: "Later.", requestId: "r" } };
    const { handler } = handlerOf({}, () =>
      Response.json(body, { status: 429, headers: { "Retry-After": "7", "Set-Cookie": "x=1", "X-Request-Id": "r" } }),
    );
    const answer = await handler(request("/memories"));
    expect(answer.status).toBe(429);
    expect(answer.headers.get("retry-after")).toBe("7");
    expect(answer.headers.get("set-cookie")).toBeNull();
    expect(answer.headers.get("cache-control")).toBe("no-store");
    expect(await answer.json()).toEqual(body);
  });

  test("a 204 without a body", async () => {
    const { handler } = handlerOf({}, () => new Response(null, { status: 204 }));
    expect((await handler(request(`/memories/${ID}`, { method: "DELETE" }))).status).toBe(204);
  });

  test("the answer to subscribe gains the stream's URL", async () => {
    const { handler } = handlerOf({}, () => Response.json({ joinToken: "t", joinCode: "c" }));
    expect(await (await handler(post("/memories/subscribe", "{}"))).json()).toEqual({
      joinToken: "t",
      joinCode: "c",
      wsUrl: "ws://stream.test/client",
    });
  });

  test("user and grant are found anew for each request", async () => {
    const seen: string[] = [];
    const { handler, sent } = handlerOf({
      identifyUser: (asked) => ({ id: asked.headers.get("x-who") ?? "" }),
      access: ({ user }) => {
        seen.push(user.id);
        return user.id === "ada" ? { user: "read", project: "none" } : { user: "read-write", project: "none" };
      },
    });
    for (const who of ["ada", "bob"]) await handler(request("/memories", { headers: { "x-who": who } }));
    expect(seen).toEqual(["ada", "bob"]);
    expect(sent.map((one) => JSON.parse(one.headers.get("x-cpki-memory-grant") ?? "").user)).toEqual([
      "read",
      "read-write",
    ]);
  });
});

describe("what is denied, without asking the service", () => {
  const boom = () => {
    throw new Error("database password is hunter2");
  };
  const broken = {} as { id: string };

  test.each<[string, Partial<MemoryHandlerOptions>, number, string]>([
    ["nobody is signed in", { identifyUser: () => null }, 401, "UNAUTHENTICATED"],
    ["identifyUser throws", { identifyUser: boom }, 500, "IDENTITY_FAILED"],
    ["identifyUser rejects", { identifyUser: async () => boom() }, 500, "IDENTITY_FAILED"],
    ["identifyUser returns no id", { identifyUser: () => broken }, 500, "IDENTITY_FAILED"],
    ["the id is empty", { identifyUser: () => ({ id: "" }) }, 500, "IDENTITY_FAILED"],
    ["the id has outer white space", { identifyUser: () => ({ id: " ada" }) }, 500, "IDENTITY_FAILED"],
    ["the id would break the header", { identifyUser: () => ({ id: "a\r\nX-Evil: 1" }) }, 500, "IDENTITY_FAILED"],
    ["the id is too long", { identifyUser: () => ({ id: "x".repeat(257) }) }, 500, "IDENTITY_FAILED"],
    ["access throws", { access: boom }, 403, "MEMORY_GRANT_DENIED"],
    ["access rejects", { access: async () => boom() }, 403, "MEMORY_GRANT_DENIED"],
    ["access returns null", { access: () => null }, 403, "MEMORY_GRANT_DENIED"],
    ["access returns nothing", { access: (() => undefined) as never }, 403, "MEMORY_GRANT_DENIED"],
    [
      "access returns another word",
      { access: () => ({ user: "admin", project: "none" }) as never },
      403,
      "MEMORY_GRANT_DENIED",
    ],
  ])("%s", async (_, options, status, code) => {
    const { handler, sent } = handlerOf(options);
    const answer = await handler(request("/memories"));
    const text = await answer.text();
    expect(answer.status).toBe(status);
    expect(JSON.parse(text).error.code).toBe(code);
    expect(text).not.toContain("hunter2");
    expect(sent).toEqual([]);
  });

  test("what was hidden is told to onError", async () => {
    const { handler, errors } = handlerOf({ access: boom });
    await handler(request("/memories"));
    expect(errors).toEqual([new Error("database password is hunter2")]);
  });

  test.each([
    ["PUT", "/memories", 405],
    ["GET", "/memories/recall", 405],
    ["POST", `/memories/${ID}`, 405],
    ["GET", "/other", 404],
    ["POST", "/memories/batch", 404],
    ["GET", "/memories/a/b", 404],
    ["GET", "/memories/..%2Fentitlements%2Fruntime", 404],
  ])("%s %s is %i", async (method, path, status) => {
    const { handler, sent } = handlerOf();
    expect((await handler(request(path, { method }))).status).toBe(status);
    expect(sent).toEqual([]);
  });

  test("a body that is too long, by its header or while it is read", async () => {
    const { handler, sent } = handlerOf();
    const long = JSON.stringify({ content: "x".repeat(600 * 1024), kind: "topical" });
    expect((await handler(post("/memories", long))).status).toBe(413);
    const stream = new Blob([long]).stream();
    const streamed = request("/memories", {
      method: "POST",
      body: stream,
      headers: { "Content-Type": "application/json" },
      duplex: "half",
    } as RequestInit);
    expect((await handler(streamed)).status).toBe(413);
    expect(sent).toEqual([]);
  });

  test("a body that another site's form could send", async () => {
    const { handler, sent } = handlerOf();
    const form = request("/memories", { method: "POST", body: '{"content":"A","kind":"topical"}' });
    expect(await codeOf(await handler(form))).toBe("MEMORY_VALIDATION_ERROR");
    expect(sent).toEqual([]);
  });

  test("a service that does not answer, or sends the key elsewhere, is 502", async () => {
    const unreachable = handlerOf({ fetch: () => Promise.reject(new TypeError(`fetch failed for ${KEY}`)) });
    const answer = await unreachable.handler(request("/memories"));
    expect(answer.status).toBe(502);
    expect(await answer.text()).not.toContain(KEY);
    const redirecting = handlerOf(
      {},
      () => new Response(null, { status: 302, headers: { Location: "https://evil.test" } }),
    );
    expect((await redirecting.handler(request("/memories"))).status).toBe(502);
  });

  test.each([
    [{ apiUrl: "memlane" }, "apiUrl"],
    [{ wsUrl: "http://stream.test/client" }, "wsUrl"],
    [{ apiKey: "secret" }, "apiKey"],
    [{ apiKey: "cpk-a b" }, "apiKey"],
  ])("options that cannot be right are refused at start: %o", (options, name) => {
    expect(() => handlerOf(options)).toThrow(name);
  });

  test("settings that are missing are named with each request, so that a build without them succeeds", async () => {
    const unset = undefined as unknown as string;
    const { handler, errors, sent } = handlerOf({ apiUrl: unset, apiKey: "" });
    const answer = await handler(request("/memories"));
    expect(answer.status).toBe(500);
    expect(await answer.json()).toMatchObject({
      error: { code: "NOT_CONFIGURED", message: "createMemoryHandler was not given apiUrl, apiKey." },
    });
    expect(errors).toHaveLength(1);
    expect(sent).toEqual([]);
  });
});

test("nodeListener serves the handler from node:http and from Express", async () => {
  const { handler, sent } = handlerOf({}, () => Response.json({ joinToken: "t" }));
  const listener = nodeListener(handler);
  const server = createServer((asked, answer) => {
    // As Express does: the mount point is cut off and a parser has read the body.
    if (asked.url?.startsWith("/express/")) {
      Object.assign(asked, {
        originalUrl: asked.url,
        url: asked.url.slice(8),
        body: { content: "B", kind: "topical" },
      });
    }
    void listener(asked, answer);
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const headers = { "Content-Type": "application/json" };
  const plain = await fetch(`http://127.0.0.1:${port}/api/memories/subscribe`, { method: "POST", body: "{}", headers });
  expect(await plain.json()).toEqual({ joinToken: "t", wsUrl: "ws://stream.test/client" });
  await fetch(`http://127.0.0.1:${port}/express/memories`, { method: "POST", body: "{}", headers });
  expect(new TextDecoder().decode(sent[1]?.init.body as Uint8Array)).toBe('{"content":"B","kind":"topical"}');
  const long = await fetch(`http://127.0.0.1:${port}/api/memories`, {
    method: "POST",
    body: "x".repeat(600_000),
    headers,
  });
  expect(long.status).toBe(413);
  server.close();
});
