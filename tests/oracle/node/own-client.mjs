// One store of our own package (client-js, as built), with the journal and the checks of the published one.
import { createMemoryStore } from "../../../client-js/dist/index.js";
import { StockClient } from "./client.mjs";

export class OwnClient extends StockClient {
  /** One socket serves both channels. */
  socketsWanted = 1;
  /** Changes that came though they lie before the position that the join told. */
  replays = 0;

  open() {
    this.store?.stop();
    this.forget();
    const store = createMemoryStore({
      runtimeUrl: "http://bff",
      wsUrl: this.wsUrl,
      fetch: this.bff.fetchOf(this),
      WebSocket: globalThis.WebSocket,
    });
    let shown = [];
    let status = null;
    const look = () => {
      const snapshot = store.getSnapshot();
      this.noteRows(snapshot.memories, shown);
      shown = snapshot.memories;
      if (snapshot.realtimeStatus === status) return;
      status = snapshot.realtimeStatus;
      if (status === "connected") this.everConnected = true;
      // It says so after 10 s and goes on: only how it ends counts.
      this.statuses.push({ at: this.now(), status, excused: true });
      this.note("status", { status });
    };
    const end = store.subscribe(look);
    this.store = {
      getState: () => {
        const { memories, isLoading, error, isAvailable, realtimeStatus } = store.getSnapshot();
        return { memories, isLoading, error, available: isAvailable, realtimeStatus, inFlightMutationCount: 0 };
      },
      addMemory: store.addMemory,
      updateMemory: store.updateMemory,
      removeMemory: store.removeMemory,
      refresh: store.refresh,
      stop: () => {
        end();
        store.close();
      },
    };
    look();
  }

  /** It mends itself. */
  mend() {}

  heard(text, token, socket, load) {
    // What comes after the client has hung up does not reach it.
    if (socket.readyState !== socket.OPEN) return;
    const [, , topic, event, payload] = JSON.parse(text);
    const isCurrent = load === this.load && this.sockets.get(token) === socket;
    if (isCurrent && event === "memory_metadata" && payload.seq <= (socket.told.get(topic) ?? -1)) {
      this.replays += 1;
      this.note("replay", { seq: payload.seq, topic });
    }
    super.heard(text, token, socket, load);
  }

  report() {
    return { ...super.report(), replays: this.replays };
  }
}
