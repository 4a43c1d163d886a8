/** One Phoenix socket, opened and closed by hand: it never reconnects by itself, because a new life may need a new token. */
import { Socket, type Channel as PhoenixChannel } from "phoenix";

import type { MemoryScope } from "./types.js";
import type { Credentials, Position } from "./wire.js";

/** The server closes a socket that is silent for 60 s. A dead line is noticed within twice this time. */
const HEARTBEAT_MS = 15_000;
/** The server holds upgrade and join together for at most 8 s. */
const OPEN_TIMEOUT_MS = 12_000;

export interface SocketLife {
  readonly wsUrl: string;
  readonly token: string;
  readonly topics: Credentials["topics"];
  /** Asked at the moment of the join. */
  positionOf(scope: MemoryScope): Position | null;
  onJoined(scope: MemoryScope, asked: Position | null, reply: unknown): void;
  onEvent(scope: MemoryScope, payload: unknown): void;
  /** Once, unless `close` came first. `refused`: it never opened or a join was refused; new credentials may help. */
  onEnd(reason: "lost" | "refused"): void;
}

export interface MemorySocket {
  open(life: SocketLife): void;
  close(): void;
}

type Transport = new (url: string, protocols: string[]) => object;

/**
 * Sends the token as a subprotocol: a browser logs the URL of an upgrade that fails. Phoenix's own `authToken` does the
 * same, but is a text in some of its versions and a function in others.
 */
function withToken(transport: Transport, token: () => string): Transport {
  return function (url: string) {
    return new transport(url, ["phoenix", `base64url.bearer.phx.${btoa(token()).replace(/=+$/, "")}`]);
  } as unknown as Transport;
}

/** Phoenix adds listeners to `window` for each `Socket` and never takes them away, so one is kept for all lives. */
export function createSocket(transport: () => unknown): MemorySocket {
  let socket: Socket | null = null;
  let url = "";
  let token = "";
  let end: (() => void) | null = null;

  function socketTo(wsUrl: string): Socket {
    if (socket === null || url !== wsUrl) {
      url = wsUrl;
      socket = new Socket(wsUrl, {
        transport: withToken(transport() as Transport, () => token) as never,
        heartbeatIntervalMs: HEARTBEAT_MS,
        // Only for long polling, which is never used; reading the real one may throw in a sandboxed frame.
        sessionStorage: { getItem: () => null, setItem: () => undefined } as unknown as Storage,
      });
    }
    return socket;
  }

  return {
    open(life) {
      end?.();
      token = life.token;
      const wire = socketTo(life.wsUrl);
      const channels: PhoenixChannel[] = [];
      let state: "opening" | "open" | "ended" = "opening";
      const timer = setTimeout(() => fail("refused"), OPEN_TIMEOUT_MS);

      const stop = () => {
        state = "ended";
        end = null;
        clearTimeout(timer);
        wire.off(listeners);
        wire.disconnect();
        // After the disconnect, so that a channel is forgotten at once and does not wait for an answer.
        for (const channel of channels) channel.leave();
      };
      const fail = (reason: "lost" | "refused") => {
        if (state === "ended") return;
        stop();
        life.onEnd(reason);
      };
      const ended = () => fail(state === "open" ? "lost" : "refused");

      let waiting = life.topics.length;
      const join = (scope: MemoryScope, topic: string) => {
        const asked = life.positionOf(scope);
        // We compare positions ourselves, so nothing needs to be sent again behind a late answer: no fence.
        const channel = wire.channel(topic, { last: asked, fence: false });
        channels.push(channel);
        channel.on("memory_metadata", (payload: unknown) => {
          if (state !== "ended") life.onEvent(scope, payload);
        });
        channel.onError(ended);
        channel.onClose(ended);
        channel
          .join()
          .receive("ok", (reply: unknown) => {
            if (state === "ended") return;
            waiting -= 1;
            if (waiting === 0) clearTimeout(timer);
            life.onJoined(scope, asked, reply);
          })
          .receive("error", () => fail("refused"))
          .receive("timeout", ended);
      };
      const listeners = [
        wire.onError(ended),
        wire.onClose(ended),
        wire.onOpen(() => {
          if (state !== "opening") return;
          state = "open";
          for (const { scope, topic } of life.topics) join(scope, topic);
        }),
      ];
      end = stop;
      wire.connect();
    },
    close() {
      end?.();
    },
  };
}
