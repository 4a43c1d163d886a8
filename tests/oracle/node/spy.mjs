// A WebSocket that tells which client opened it, when, and what came in. The client finds nothing changed.
import { createRequire } from "node:module";

const WebSocket = createRequire(new URL("./phoenix-1.8.16/package.json", import.meta.url))("ws");
const owners = new Map();

/** Remember whose a join token is. */
export const own = (token, client) => owners.set(token, client);

/** Our own client sends its token as a subprotocol. */
const bearerOf = (protocols) => atob([protocols].flat().at(-1).replace("base64url.bearer.phx.", ""));

class SpySocket extends WebSocket {
  /** The position that a topic's join told. */
  told = new Map();

  constructor(url, protocols) {
    super(url, protocols);
    const token = new URL(url).searchParams.get("join_token") ?? bearerOf(protocols);
    const client = owners.get(token);
    const load = client?.load;
    client?.upgrading(token, this);
    this.on("open", () => client?.opened(this));
    this.on("close", (code) => client?.closed(this, code));
    this.on("message", (data) => client?.heard(data.toString(), token, this, load));
  }

  send(data) {
    const [, , topic, event, payload] = JSON.parse(data);
    if (event === "phx_join" && payload.last) this.told.set(topic, payload.last.seq);
    super.send(data);
  }
}

globalThis.WebSocket = SpySocket;
