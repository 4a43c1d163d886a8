import { useMemories } from "memlane/react";
import { useCallback, useEffect, useState, type ReactElement, type ReactNode } from "react";

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

/** A fault stays until it is dismissed or the next notice comes. */
const NOTICE_MS = 8_000;

interface WorkbenchProps {
  readonly user: string;
  readonly userSwitch: ReactNode;
}

/** Everything about one user. */
export function Workbench({ user, userSwitch }: WorkbenchProps): ReactElement {
  const { memories, isLoading, error, isAvailable, realtimeStatus, refresh } = useMemories();
  const [notice, setNotice] = useState<Notice | null>(null);
  const [showRetired, setShowRetired] = useState(false);
  const [told, setTold] = useState<unknown>(null);
  const tell = useCallback((next: Notice) => {
    setNotice(next);
    if (next.fault !== undefined) setTold(next.fault);
  }, []);
  const listFault = error === told ? null : error;
  // An empty list that could not be fetched says nothing about the user.
  const isUnknown = isLoading || (error !== null && memories.length === 0);

  useEffect(() => {
    if (notice === null || notice.tone === "fault") return;
    const timer = setTimeout(() => setNotice(null), NOTICE_MS);
    return () => clearTimeout(timer);
  }, [notice]);

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

      {!isAvailable ? (
        <section className="panel blank" aria-labelledby="not-entitled">
          <h2 id="not-entitled">Memory is not available here</h2>
          <p>
            The organization is not entitled to memory: its license may have ended, or may not carry the feature.{" "}
            <code>memlane doctor</code> says which.
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
                Memories <span className="count">{isUnknown ? "" : memories.length}</span>
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
            {listFault !== null && (
              <div className="fault" role="alert">
                <p>{listFault.message}</p>
                <button type="button" onClick={() => void refresh().catch(() => undefined)}>
                  Try again
                </button>
              </div>
            )}
            {isLoading && <Skeleton />}
            {!isUnknown && <MemoryList memories={memories} tell={tell} />}
            {showRetired && <RetiredList user={user} liveIds={memories} tell={tell} />}
          </section>
          <RecallPanel />
        </main>
      )}

      <div className="notices" role="status" aria-live="polite">
        {notice !== null && (
          <p className={`notice notice-${notice.tone}`}>
            {notice.text}
            <button type="button" aria-label="Dismiss" onClick={() => setNotice(null)}>
              ×
            </button>
          </p>
        )}
      </div>
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
