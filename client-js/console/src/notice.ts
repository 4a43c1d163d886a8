import { MemoryError, type WrittenMemory } from "memlane";

/** What the last act came to, for the line below the masthead. */
export interface Notice {
  readonly tone: "done" | "absorbed" | "fault";
  readonly text: string;
  /** What failed: it is told here and needs no second place. */
  readonly fault?: unknown;
}

/** Tells what a save did, as the service tells it. */
export function noticeOf(written: WrittenMemory): Notice {
  if (written.absorbed) {
    return { tone: "absorbed", text: "A memory already said so: it took this wording, and no second one was made." };
  }
  if (written.retiredId !== null) {
    return { tone: "done", text: "Superseded: the earlier memory is retired and this one took its place." };
  }
  const close = written.similar.length;
  return {
    tone: "done",
    text: close === 0 ? "Saved." : `Saved. ${close === 1 ? "One memory is" : `${close} memories are`} close to it.`,
  };
}

export function noticeOfFault(act: string, error: unknown): Notice {
  const why = error instanceof Error ? error.message : "";
  const again = error instanceof MemoryError && error.retryable ? " Try again." : "";
  return { tone: "fault", text: `${act} failed. ${why}${again}`, fault: error };
}
