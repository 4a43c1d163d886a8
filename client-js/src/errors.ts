/** The service is not there for this caller: shown as `isAvailable: false`, not as an error. */
const NOT_HERE = new Set([404, 501]);

/** A request that failed. `code` is stable; `retryable` says whether the same request may succeed later. */
export class MemoryError extends Error {
  override readonly name = "MemoryError";
  /** A code of the service such as `SECRET_DETECTED`, or `NETWORK_ERROR`, `TIMEOUT`, `BAD_ANSWER`, `CLOSED`, `HTTP_<status>`. */
  readonly code: string;
  readonly retryable: boolean;
  /** The HTTP status; 0 when there was no answer. */
  readonly status: number;
  /** Seconds to wait before a retry, when the service said so. */
  readonly retryAfter: number | null;
  readonly requestId: string | null;

  constructor(
    code: string,
    message: string,
    options: {
      readonly retryable: boolean;
      readonly status?: number;
      readonly retryAfter?: number | null;
      readonly requestId?: string | null;
      readonly cause?: unknown;
    },
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.retryable = options.retryable;
    this.status = options.status ?? 0;
    this.retryAfter = options.retryAfter ?? null;
    this.requestId = options.requestId ?? null;
  }
}

/** The error that an answer carries. Behind a CopilotKit runtime the body is a plain text, so only the status counts. */
export function errorOfAnswer(status: number, body: unknown, retryAfter: string | null): MemoryError {
  const told = (body as { error?: unknown } | null)?.error;
  const fields = typeof told === "object" && told !== null ? (told as Record<string, unknown>) : {};
  const text = (name: string): string | null => (typeof fields[name] === "string" ? fields[name] : null);
  const seconds = retryAfter === null ? Number.NaN : Number(retryAfter);
  return new MemoryError(
    text("code") ?? `HTTP_${status}`,
    text("message") ?? (typeof told === "string" ? told : `The request failed with status ${status}.`),
    {
      retryable: status >= 500 || status === 429 || status === 408,
      status,
      retryAfter: Number.isFinite(seconds) ? seconds : null,
      requestId: text("requestId"),
    },
  );
}

/** Whether the error means that there is no memory service for this caller. */
export function meansNotHere(error: unknown): boolean {
  return error instanceof MemoryError && NOT_HERE.has(error.status) && error.code !== "MEMORY_NOT_FOUND";
}
