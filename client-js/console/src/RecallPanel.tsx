import { useMemoryRecall } from "memlane/react";
import { useEffect, useRef, useState, type ReactElement } from "react";

import { MemoryMeta } from "./MemoryMeta.tsx";

/** Recall while you type, with each score as a bar. */
export function RecallPanel(): ReactElement {
  const [query, setQuery] = useState("");
  const { memories, degraded, isLoading, error } = useMemoryRecall(query, { limit: 8 });
  const field = useRef<HTMLInputElement>(null);
  const isAsked = query.trim() !== "";

  useEffect(() => {
    const focus = (event: KeyboardEvent): void => {
      const typing = event.target instanceof HTMLElement && event.target.closest("input, textarea, select") !== null;
      if (event.key === "/" && !typing) {
        event.preventDefault();
        field.current?.focus();
      }
    };
    addEventListener("keydown", focus);
    return () => removeEventListener("keydown", focus);
  }, []);

  return (
    <section className="panel recall" aria-labelledby="recall-heading">
      <div className="panel-head">
        <h2 id="recall-heading">Recall</h2>
        <span className="hint">press /</span>
      </div>
      <input
        ref={field}
        type="search"
        value={query}
        maxLength={8192}
        aria-label="What to recall"
        placeholder="how does this user like updates"
        onChange={(event) => setQuery(event.target.value)}
      />
      {degraded.length > 0 && (
        <p className="fault" role="alert">
          The embedder does not answer: only words are compared.
        </p>
      )}
      {error !== null && (
        <p className="fault" role="alert">
          {error.message}
        </p>
      )}
      <div aria-live="polite" aria-busy={isLoading} className={isLoading ? "results waiting" : "results"}>
        {!isAsked && <p className="soft">Ask in your own words: memories are found by meaning and by words.</p>}
        {isAsked && !isLoading && error === null && memories.length === 0 && (
          <p className="soft">Nothing answers that.</p>
        )}
        {isAsked && memories.length > 0 && (
          <ol>
            {memories.map((memory) => (
              <li key={memory.id} className={`kind-${memory.kind}`}>
                <p className="content" dir="auto">
                  {memory.content}
                </p>
                <div className="score">
                  <meter min={0} max={1} value={memory.score} aria-label="Score" />
                  <output>{memory.score.toFixed(2)}</output>
                </div>
                <MemoryMeta memory={memory} />
              </li>
            ))}
          </ol>
        )}
      </div>
    </section>
  );
}
