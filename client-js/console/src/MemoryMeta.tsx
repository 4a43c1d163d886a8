import type { Memory } from "memlane";
import { useEffect, useState, type ReactElement } from "react";

const UNITS: readonly (readonly [Intl.RelativeTimeFormatUnit, number])[] = [
  ["day", 86_400],
  ["hour", 3_600],
  ["minute", 60],
];
const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto", style: "short" });

/** "2 min. ago"; "just now" under a minute. */
export function ageOf(moment: string, now: number): string {
  const seconds = Math.max(0, (now - Date.parse(moment)) / 1_000);
  for (const [unit, size] of UNITS) {
    if (seconds >= size) return relative.format(-Math.floor(seconds / size), unit);
  }
  return "just now";
}

/** Kind, scope, age and source threads of a memory. */
export function MemoryMeta({ memory }: { readonly memory: Memory }): ReactElement {
  const now = useNow();
  return (
    <span className="meta">
      <b className="kind">{memory.kind}</b>
      {memory.scope === "project" && <span className="scope">project</span>}
      <time dateTime={memory.updatedAt} title={new Date(memory.updatedAt).toLocaleString()}>
        {ageOf(memory.updatedAt, now)}
      </time>
      {memory.sourceThreadIds.map((thread) => (
        <span className="thread" key={thread} title={`Source thread ${thread}`}>
          {thread}
        </span>
      ))}
    </span>
  );
}

function useNow(): number {
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 20_000);
    return () => clearInterval(timer);
  }, []);
  return now;
}
