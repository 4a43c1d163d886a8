import { useMemories } from "memlane/react";
import { useCallback, useState, type ReactElement, type ReactNode } from "react";

import { Composer } from "./Composer.tsx";
import { MemoryList } from "./MemoryList.tsx";
import { RecallPanel } from "./RecallPanel.tsx";
import { RetiredList } from "./RetiredList.tsx";
import type { Notice } from "./notice.ts";

const STATUS = {
  connecting: "Connecting",
  connected: "Live",
  unavailable: "Not live: the list is asked for now and then",
} as const;

interface WorkbenchProps {
  readonly user: string;
  readonly userSwitch: ReactNode;
}

/** Everything about one user. */
export function Workbench({ user, userSwitch }: WorkbenchProps): ReactElement {
  const { memories, isLoading, error, isAvailable, realtimeStatus, refresh } = useMemories();
  const [notice, setNotice] = useState<Notice | null>(null);
  const [showRetired, setShowRetired] = useState(false);
  const tell = useCallback((next: Notice) => setNotice(next), []);

  return (
    <div className="page">
      <header className="masthead">
        <h1>
          Memlane <span>console</span>
        </h1>
        <p className={`status status-${realtimeStatus}`} role="status">
          <i aria-hidden="true" />
          {STATUS[realtimeStatus]}
        </p>
        {userSwitch}
      </header>

      <p className={`notice ${notice === null ? "" : `notice-${notice.tone}`}`} role="status" aria-live="polite">
        {notice?.text}
      </p>

      {!isAvailable ? (
        <section className="panel blank" aria-labelledby="not-entitled">
          <h2 id="not-entitled">Memory is not available here</h2>
          <p>
            The organization is not entitled to memory: its license may have ended, or may not carry the feature. Run{" "}
            <code>memlane doctor</code> to see which, then
          </p>
          <button type="button" onClick={() => void refresh().catch(() => undefined)}>
            Ask again
          </button>
        </section>
      ) : (
        <main className="columns">
          <section className="panel" aria-labelledby="memories-heading">
            <div className="panel-head">
              <h2 id="memories-heading">
                Memories <span className="count">{memories.length}</span>
              </h2>
              <label className="toggle">
                <input
                  type="checkbox"
                  checked={showRetired}
                  onChange={(event) => setShowRetired(event.target.checked)}
                />
                Show retired
              </label>
            </div>
            <Composer tell={tell} />
            {error !== null && (
              <div className="fault" role="alert">
                <p>{error.message}</p>
                <button type="button" onClick={() => void refresh().catch(() => undefined)}>
                  Try again
                </button>
              </div>
            )}
            {isLoading ? <Skeleton /> : <MemoryList memories={memories} tell={tell} />}
            {showRetired && <RetiredList user={user} liveIds={memories} tell={tell} />}
          </section>
          <RecallPanel />
        </main>
      )}
    </div>
  );
}

function Skeleton(): ReactElement {
  return (
    <div className="skeleton" aria-busy="true" aria-label="Loading the memories">
      <i />
      <i />
      <i />
    </div>
  );
}
