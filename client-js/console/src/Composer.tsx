import type { MemoryKind, MemoryScope } from "memlane";
import { useMemories } from "memlane/react";
import { useEffect, useRef, useState, type FormEvent, type KeyboardEvent, type ReactElement } from "react";

import { noticeOf, noticeOfFault, type Notice } from "./notice.ts";

const CONTENT_MAX = 8192;
const KINDS: readonly { readonly value: MemoryKind; readonly hint: string }[] = [
  { value: "topical", hint: "a durable fact" },
  { value: "episodic", hint: "something that happened" },
  { value: "operational", hint: "a preference or instruction" },
];

/** Saves a new memory. Enter saves; Shift and Enter begin a new line. */
export function Composer({ tell }: { readonly tell: (notice: Notice) => void }): ReactElement {
  const { addMemory } = useMemories();
  const [content, setContent] = useState("");
  const [kind, setKind] = useState<MemoryKind>("operational");
  const [scope, setScope] = useState<MemoryScope>("user");
  const [pending, setPending] = useState(0);
  const form = useRef<HTMLFormElement>(null);
  const field = useRef<HTMLTextAreaElement>(null);
  const length = [...content].length;

  useEffect(() => {
    const focus = (event: globalThis.KeyboardEvent): void => {
      const typing = event.target instanceof HTMLElement && event.target.closest("input, textarea, select") !== null;
      if (event.key === "n" && !typing && !event.metaKey && !event.ctrlKey && !event.altKey) {
        event.preventDefault();
        field.current?.focus();
      }
    };
    addEventListener("keydown", focus);
    return () => removeEventListener("keydown", focus);
  }, []);

  /** The field is free at once for the next one; what could not be saved comes back unless something stands there. */
  const save = async (): Promise<void> => {
    const saved = content.trim();
    if (saved === "") return;
    setContent("");
    setPending((count) => count + 1);
    try {
      tell(noticeOf(await addMemory({ content: saved, kind, scope })));
    } catch (error) {
      tell(noticeOfFault("The save", error));
      setContent((typed) => (typed === "" ? saved : typed));
    } finally {
      setPending((count) => count - 1);
      // Whoever went on to another field meanwhile stays there.
      const { activeElement } = document;
      if (activeElement === document.body || form.current?.contains(activeElement)) field.current?.focus();
    }
  };
  const onSubmit = (event: FormEvent): void => {
    event.preventDefault();
    void save();
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.key === "Enter" && !event.shiftKey && !event.nativeEvent.isComposing) {
      event.preventDefault();
      void save();
    }
  };

  return (
    <form ref={form} className="composer" onSubmit={onSubmit}>
      <label htmlFor="content" className="visually-hidden">
        New memory
      </label>
      <textarea
        id="content"
        ref={field}
        rows={2}
        value={content}
        placeholder="A statement to remember. Enter saves it; press n to come here."
        aria-describedby="content-hint"
        onChange={(event) => setContent(event.target.value)}
        onKeyDown={onKeyDown}
      />
      <div className="composer-row">
        <select aria-label="Kind" value={kind} onChange={(event) => setKind(event.target.value as MemoryKind)}>
          {KINDS.map(({ value }) => (
            <option key={value} value={value}>
              {value}
            </option>
          ))}
        </select>
        <select aria-label="Scope" value={scope} onChange={(event) => setScope(event.target.value as MemoryScope)}>
          <option value="user">this user</option>
          <option value="project">whole project</option>
        </select>
        <span id="content-hint" className={length > CONTENT_MAX ? "hint over" : "hint"}>
          {length > CONTENT_MAX * 0.9 ? `${length} of ${CONTENT_MAX}` : KINDS.find(({ value }) => value === kind)?.hint}
        </span>
        <button type="submit" className="primary" disabled={content.trim() === "" || length > CONTENT_MAX}>
          {pending > 0 ? "Saving…" : "Save"}
        </button>
      </div>
    </form>
  );
}
