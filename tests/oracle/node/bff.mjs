// Stands for @copilotkit/runtime between the page and our API: same routes, same statuses (a 4xx is handed on,
// a 5xx becomes 502), bodies and no headers. It delays answers after the API has given them.
import { sleep } from "./random.mjs";

const KINDS = { GET: "list", POST: "add", PATCH: "update", DELETE: "remove" };

export class Bff {
  /** @param apis base URLs of the API processes; @param key the runtime key */
  constructor(apis, key, random, slow) {
    this.apis = apis;
    this.key = key;
    this.random = random;
    this.slow = slow;
    this.turn = 0;
  }

  /** One call of the API as a user, as a device of theirs that is none of our clients would make it. */
  async call(user, method, path, body) {
    const api = this.apis[this.turn++ % this.apis.length];
    const headers = { Authorization: `Bearer ${this.key}`, "X-Cpki-User-Id": user };
    if (body !== undefined) headers["Content-Type"] = "application/json";
    const answer = await fetch(`${api}/api${path}`, { method, headers, body });
    return { status: answer.status, text: await answer.text() };
  }

  /** The `fetch` of one client's store. The store may give up; the request has then been made all the same. */
  fetchOf(client) {
    return (url, init) => {
      const answer = this.serve(client, new URL(url), init);
      if (!init.signal) return answer;
      return new Promise((resolve, reject) => {
        init.signal.addEventListener("abort", () => reject(init.signal.reason));
        answer.then(resolve, reject);
      });
    };
  }

  async serve(client, url, { method, body }) {
    const path = url.pathname;
    const kind = path === "/memories/subscribe" ? "subscribe" : path === "/memories/recall" ? "recall" : KINDS[method];
    const load = client.load;
    let answer;
    try {
      answer = await this.call(client.user, method, path + url.search, kind === "subscribe" ? undefined : body);
    } catch {
      answer = { status: 500, text: "" };
    }
    const ok = answer.status >= 200 && answer.status < 300;
    if (kind === "subscribe") client.subscribed(ok, ok ? JSON.parse(answer.text) : null);
    const wait = this.delayOf(client, kind);
    client.note("api", { kind, status: answer.status, wait, ...summary(kind, ok, answer.text, path) });
    await sleep(wait);
    client.answered(kind, ok, load);
    client.note("answer", { kind, status: answer.status, ...summary(kind, ok, answer.text, path) });
    if (answer.status === 204) return new Response(null, { status: 204 });
    const status = ok ? (kind === "add" ? 201 : 200) : answer.status < 500 ? answer.status : answer.status === 500 && !answer.text ? 500 : 502;
    return new Response(ok ? answer.text : JSON.stringify({ error: "failed" }), { status });
  }

  delayOf(client, kind) {
    if (client.holds[kind]?.length) return client.holds[kind].shift();
    if (!this.slow) return 0;
    if (kind === "subscribe") return this.random.below(1000);
    return this.random.next() < 0.15 ? 3000 + this.random.below(7000) : this.random.below(3000);
  }
}

function summary(kind, ok, text, path) {
  if (!ok) return { path };
  if (kind === "list") {
    const body = JSON.parse(text);
    const heads = Object.fromEntries(Object.entries(body.positions).map(([scope, { seq }]) => [scope, seq]));
    return { heads, ids: body.memories.map((memory) => memory.id) };
  }
  if (kind === "add" || kind === "update") {
    const { id, seq, retiredId, scope } = JSON.parse(text);
    return { id, seq, scope, retiredId };
  }
  return { id: path.split("/").pop() };
}
