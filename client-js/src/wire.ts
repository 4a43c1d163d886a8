/** Reading what comes from outside: nothing is trusted, what cannot be read is null. */
import type { Memory, MemoryScope, RecalledMemory, WrittenMemory } from "./types.js";

/** A place in a channel's feed: `seq` grows by one with each change; another `epoch` is another history. */
export interface Position {
  readonly epoch: string;
  readonly seq: number;
}

/** One page of a list, with the position of each channel that it shows. */
export interface ListPage {
  readonly memories: readonly Memory[];
  readonly positions: { readonly [scope in MemoryScope]?: Position };
  readonly nextCursor: string | null;
}

/** What a write did to the rows, and at which position. */
export interface Write {
  readonly memory: WrittenMemory;
  readonly position: Position;
}

/** One event of the live stream; `memory` is null when the row was retired. */
export interface Change {
  readonly id: string;
  readonly position: Position;
  readonly memory: Memory | null;
}

/** The answer to a join: everything after `position` will be sent. */
export interface JoinReply {
  readonly position: Position;
  readonly recovered: boolean;
}

/** What opens the live stream. */
export interface Credentials {
  readonly token: string;
  readonly topics: readonly { readonly scope: MemoryScope; readonly topic: string }[];
  readonly wsUrl: string | null;
}

type Fields = Readonly<Record<string, unknown>>;

const KINDS: ReadonlySet<unknown> = new Set(["topical", "episodic", "operational"]);

function fieldsOf(value: unknown): Fields | null {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Fields) : null;
}

function textOrNull(value: unknown): string | null {
  return typeof value === "string" && value !== "" ? value : null;
}

function allOf<T>(values: unknown, read: (value: unknown) => T | null): T[] | null {
  if (!Array.isArray(values)) return null;
  const found = values.map(read);
  return found.includes(null) ? null : (found as T[]);
}

export function readPosition(value: unknown): Position | null {
  const { epoch, seq } = fieldsOf(value) ?? {};
  return typeof epoch === "string" && Number.isSafeInteger(seq) && (seq as number) >= 0
    ? { epoch, seq: seq as number }
    : null;
}

export function readMemory(value: unknown): Memory | null {
  const fields = fieldsOf(value);
  if (fields === null) return null;
  const { id, kind, scope, content, sourceThreadIds, createdAt } = fields;
  if (typeof id !== "string" || typeof content !== "string" || typeof createdAt !== "string") return null;
  if (!KINDS.has(kind) || (scope !== "user" && scope !== "project")) return null;
  return {
    id,
    kind: kind as Memory["kind"],
    scope,
    content,
    sourceThreadIds: Array.isArray(sourceThreadIds) ? sourceThreadIds.map(String) : [],
    invalidatedAt: textOrNull(fields.invalidatedAt),
    createdAt,
    updatedAt: textOrNull(fields.updatedAt) ?? createdAt,
    recalledAt: textOrNull(fields.recalledAt),
  };
}

export function readPage(value: unknown): ListPage | null {
  const fields = fieldsOf(value);
  const memories = allOf(fields?.memories, readMemory);
  const heads = fieldsOf(fields?.positions);
  if (memories === null || heads === null) return null;
  const user = readPosition(heads.user);
  const project = readPosition(heads.project);
  return {
    memories,
    positions: { ...(user && { user }), ...(project && { project }) },
    nextCursor: textOrNull(fields?.nextCursor),
  };
}

export function readWrite(value: unknown): Write | null {
  const memory = readMemory(value);
  const position = readPosition(value);
  if (memory === null || position === null) return null;
  const fields = value as Fields;
  const similar = allOf(fields.similar, (near) => {
    const { id, score } = fieldsOf(near) ?? {};
    return typeof id === "string" && typeof score === "number" ? { id, score } : null;
  });
  return {
    memory: {
      ...memory,
      absorbed: fields.absorbed === true,
      similar: similar ?? [],
      retiredId: textOrNull(fields.retiredId),
    },
    position,
  };
}

export function readRecalled(value: unknown): RecalledMemory | null {
  const memory = readMemory(value);
  const score = fieldsOf(value)?.score;
  return memory === null ? null : { ...memory, score: typeof score === "number" ? score : 0 };
}

export function readRecall(value: unknown): { memories: RecalledMemory[]; degraded: string[] } | null {
  const fields = fieldsOf(value);
  const memories = allOf(fields?.memories, readRecalled);
  const degraded = Array.isArray(fields?.degraded) ? fields.degraded.map(String) : [];
  return memories === null ? null : { memories, degraded };
}

export function readChange(value: unknown): Change | null {
  const fields = fieldsOf(value);
  const position = readPosition(value);
  if (fields === null || position === null) return null;
  if (fields.operation === "invalidated") {
    const id = textOrNull(fieldsOf(fields.invalidated)?.id);
    return id === null ? null : { id, position, memory: null };
  }
  const memory = readMemory(fields.memory);
  if (memory === null) return null;
  return { id: memory.id, position, memory: memory.invalidatedAt === null ? memory : null };
}

export function readJoinReply(value: unknown): JoinReply | null {
  const position = readPosition(value);
  return position === null ? null : { position, recovered: fieldsOf(value)?.recovered === true };
}

/** One token opens all of its user's own topics, so one socket serves both scopes. */
export function readCredentials(value: unknown): Credentials | null {
  const fields = fieldsOf(value) ?? {};
  const token = textOrNull(fields.joinToken) ?? textOrNull(fields.projectJoinToken);
  const user = textOrNull(fields.joinCode);
  const project = textOrNull(fields.projectJoinCode);
  if (token === null || (user === null && project === null)) return null;
  return {
    token,
    topics: [
      ...(user === null ? [] : [{ scope: "user" as const, topic: `user_meta:memories:${user}` }]),
      ...(project === null ? [] : [{ scope: "project" as const, topic: `project_meta:memories:${project}` }]),
    ],
    wsUrl: textOrNull(fields.wsUrl),
  };
}

/** The same memory without what only a write's answer tells. */
export function plainMemory(memory: Memory): Memory {
  const { id, kind, scope, content, sourceThreadIds, invalidatedAt, createdAt, updatedAt, recalledAt } = memory;
  return { id, kind, scope, content, sourceThreadIds, invalidatedAt, createdAt, updatedAt, recalledAt };
}
