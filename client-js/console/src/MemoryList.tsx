import type { Memory } from "memlane";
import { useMemories } from "memlane/react";
import { useEffect, useRef, useState, type KeyboardEvent, type ReactElement } from "react";

import { MemoryMeta } from "./MemoryMeta.tsx";
import { noticeOf, noticeOfFault, type Notice } from "./notice.ts";

interface MemoryListProps {
  readonly memories: readonly Memory[];
  readonly tell: (notice: Notice) => void;
}

/** The live list, newest first. */
export function MemoryList({ memories, tell }: MemoryListProps): ReactElement {
  if (memories.length === 0) {
    return (
      <div className="blank">
        <p>Nothing is remembered about this user yet.</p>
        <p className="soft">Save a statement above. Then say the same in other capitals, and see it absorbed.</p>
      </div>
    );
  }
  return (
    <ul className="memories">
      {memories.map((memory) => (
        <MemoryItem key={memory.id} memory={memory} tell={tell} />
      ))}
    </ul>
  );
}

function MemoryItem({
  memory,
  tell,
}: {
  readonly memory: Memory;
  readonly tell: (notice: Notice) => void;
}): ReactElement {
  const { removeMemory } = useMemories();
  const [isEditing, setIsEditing] = useState(false);
  const isNew = useChanged(memory.updatedAt);
  const editButton = useRef<HTMLButtonElement>(null);
  const wasEditing = useRef(false);

  useEffect(() => {
    // An edit that is given up puts the focus back where it was.
    if (wasEditing.current && !isEditing) editButton.current?.focus();
    wasEditing.current = isEditing;
  }, [isEditing]);

  const forget = async (): Promise<void> => {
    try {
      await removeMemory(memory.id);
      tell({ tone: "done", text: "Forgotten: the memory is retired. It is shown among the retired ones." });
    } catch (error) {
      tell(noticeOfFault("Forgetting", error));
    }
  };

  return (
    <li className={`memory kind-${memory.kind} ${isNew ? "changed" : ""}`}>
      {isEditing ? (
        <Editor memory={memory} tell={tell} onClose={() => setIsEditing(false)} />
      ) : (
        <>
          <p className="content" dir="auto">
            {memory.content}
          </p>
          <div className="memory-foot">
            <MemoryMeta memory={memory} />
            <span className="acts">
              <button
                ref={editButton}
                type="button"
                onClick={() => setIsEditing(true)}
                aria-label={`Edit: ${memory.content.slice(0, 60)}`}
              >
                Edit
              </button>
              <button type="button" onClick={() => void forget()} aria-label={`Forget: ${memory.content.slice(0, 60)}`}>
                Forget
              </button>
            </span>
          </div>
        </>
      )}
    </li>
  );
}

interface EditorProps {
  readonly memory: Memory;
  readonly tell: (notice: Notice) => void;
  readonly onClose: () => void;
}

function Editor({ memory, tell, onClose }: EditorProps): ReactElement {
  const { updateMemory } = useMemories();
  const [content, setContent] = useState(memory.content);
  const [isSaving, setIsSaving] = useState(false);
  const field = useRef<HTMLTextAreaElement>(null);
  useEffect(() => {
    field.current?.focus();
    field.current?.setSelectionRange(field.current.value.length, field.current.value.length);
  }, []);

  const save = async (): Promise<void> => {
    if (content.trim() === "" || isSaving) return;
    setIsSaving(true);
    try {
      const { kind, scope, sourceThreadIds } = memory;
      tell(noticeOf(await updateMemory(memory.id, { content: content.trim(), kind, scope, sourceThreadIds })));
      onClose();
    } catch (error) {
      tell(noticeOfFault("The edit", error));
      setIsSaving(false);
    }
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.key === "Escape") onClose();
    if (event.key === "Enter" && !event.shiftKey && !event.nativeEvent.isComposing) {
      event.preventDefault();
      void save();
    }
  };

  return (
    <div className="editor">
      <textarea
        ref={field}
        rows={2}
        value={content}
        aria-label="New wording"
        onChange={(event) => setContent(event.target.value)}
        onKeyDown={onKeyDown}
      />
      <div className="composer-row">
        <span className="hint">An edit supersedes: this memory is retired, a new one takes its place.</span>
        <button type="button" onClick={onClose}>
          Cancel
        </button>
        <button
          type="button"
          className="primary"
          disabled={content.trim() === "" || isSaving}
          onClick={() => void save()}
        >
          {isSaving ? "Saving…" : "Supersede"}
        </button>
      </div>
    </div>
  );
}

/** True for a moment after the value changed: the eye is led to what moved. */
function useChanged(value: string): boolean {
  const first = useRef(value);
  const [isChanged, setIsChanged] = useState(() => Date.now() - Date.parse(value) < 3_000);
  useEffect(() => {
    if (first.current !== value) setIsChanged(true);
    first.current = value;
    const timer = setTimeout(() => setIsChanged(false), 2_500);
    return () => clearTimeout(timer);
  }, [value]);
  return isChanged;
}
