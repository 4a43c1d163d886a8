import type { Memory } from "memlane";
import { useEffect, useState, type ReactElement } from "react";

import { MemoryMeta } from "./MemoryMeta.tsx";
import { fetchRetired, restoreMemory } from "./bff.ts";
import { noticeOfFault, type Notice } from "./notice.ts";

interface RetiredListProps {
  readonly user: string;
  /** The live list: whenever it changes, a row may have been retired or restored. */
  readonly liveIds: readonly Memory[];
  readonly tell: (notice: Notice) => void;
}

/** The retired rows: history stays readable, and a row can come back. */
export function RetiredList({ user, liveIds, tell }: RetiredListProps): ReactElement {
  const [retired, setRetired] = useState<readonly Memory[] | null>(null);

  useEffect(() => {
    const abort = new AbortController();
    fetchRetired(user, abort.signal).then(setRetired, (error: unknown) => {
      if (!abort.signal.aborted) tell(noticeOfFault("The list of retired memories", error));
    });
    return () => abort.abort();
  }, [user, liveIds, tell]);

  const restore = async (memory: Memory): Promise<void> => {
    try {
      const { absorbed } = await restoreMemory(user, memory.id);
      tell(
        absorbed
          ? { tone: "absorbed", text: "Not restored: a live memory says the same." }
          : { tone: "done", text: "Restored: the memory is live again." },
      );
    } catch (error) {
      tell(noticeOfFault("The restore", error));
    }
  };

  return (
    <div className="retired">
      <h3>
        Retired <span className="count">{retired?.length ?? "…"}</span>
      </h3>
      {retired?.length === 0 && <p className="soft">Nothing was retired yet.</p>}
      <ul className="memories">
        {retired?.map((memory) => (
          <li key={memory.id} className={`memory kind-${memory.kind} is-retired`}>
            <p className="content" dir="auto">
              {memory.content}
            </p>
            <div className="memory-foot">
              <MemoryMeta memory={memory} />
              <span className="acts">
                <button
                  type="button"
                  onClick={() => void restore(memory)}
                  aria-label={`Restore: ${memory.content.slice(0, 60)}`}
                >
                  Restore
                </button>
              </span>
            </div>
          </li>
        ))}
      </ul>
    </div>
  );
}
