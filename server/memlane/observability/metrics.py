"""Every metric of the service, in one table. Names follow Prometheus' conventions; no label holds user data."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector

from memlane import __version__

REGISTRY = CollectorRegistry()
ProcessCollector(registry=REGISTRY)
BUILD = Gauge("memlane_build_info", "1, with the program's version.", ["version"], registry=REGISTRY)
BUILD.labels(__version__).set(1)
LICENSE_ENDS = Gauge(
    "memlane_license_ends_timestamp_seconds",
    "When the license ends, in seconds since 1970; 0 when it is rejected or the deployment is managed.",
    registry=REGISTRY,
)

_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)

REQUESTS = Counter(
    "memlane_http_requests_total", "Answered requests.", ["route", "method", "status"], registry=REGISTRY
)
REQUEST_SECONDS = Histogram(
    "memlane_http_request_seconds",
    "Time from the request's head to the end of the answer.",
    ["route", "method"],
    buckets=_SECONDS,
    registry=REGISTRY,
)
DENIALS = Counter("memlane_denials_total", "Refused requests by error code.", ["code"], registry=REGISTRY)
WRITES = Counter("memlane_writes_total", "Acknowledged writes by what they did.", ["operation"], registry=REGISTRY)
MCP_CALLS = Counter(
    "memlane_mcp_calls_total", "MCP tool calls by what they came to: ok or an error code.", ["tool", "outcome"],
    registry=REGISTRY,
)  # fmt: skip
SECRETS_REFUSED = Counter(
    "memlane_secrets_refused_total", "Texts that held a credential, by its kind.", ["kind"], registry=REGISTRY
)
RATE_FALLBACKS = Counter(
    "memlane_rate_fallbacks_total", "Times that Redis kept no rates and this process's own held.", registry=REGISTRY
)
POOL_SIZE = Gauge("memlane_db_pool_connections", "Open database connections.", registry=REGISTRY)
POOL_IN_USE = Gauge("memlane_db_pool_in_use", "Lent database connections.", registry=REGISTRY)
STORAGE_FAULTS = Counter(
    "memlane_db_faults_total", "Database faults by kind, before any retry.", ["kind"], registry=REGISTRY
)
STORAGE_RETRIES = Counter(
    "memlane_db_retries_total", "Transactions that ran again, by the fault.", ["kind"], registry=REGISTRY
)
EMBED_SECONDS = Histogram(
    "memlane_embedder_seconds",
    "Time of one embedder call, retries included.",
    ["outcome"],
    buckets=_SECONDS,
    registry=REGISTRY,
)
EMBED_TEXTS = Counter("memlane_embedder_texts_total", "Texts that were embedded.", registry=REGISTRY)
JUDGED = Counter(
    "memlane_judged_total",
    "Questions to the judge by its verdict: same, different, slow.",
    ["verdict"],
    registry=REGISTRY,
)
MODEL_FAULTS = Counter(
    "memlane_model_faults_total", "Unusable answers of the judge or the reranker.", ["model"], registry=REGISTRY
)
REKEYED = Counter(
    "memlane_rekeyed_rows_total", "Rows that got the absorb key and the terms of a newer version.", registry=REGISTRY
)
RECALLS_DROPPED = Counter(
    "memlane_recall_marks_dropped_total",
    "Recall marks (recalledAt) that were dropped because their queue was full.",
    registry=REGISTRY,
)
TASK_RESTARTS = Counter(
    "memlane_task_restarts_total",
    "Background tasks that died and were restarted.",
    ["task"],
    registry=REGISTRY,
)
TASKS_UP = Gauge(
    "memlane_task_up",
    "1 while a background task runs, 0 while it waits for its restart.",
    ["task"],
    registry=REGISTRY,
)

STREAM_SOCKETS = Gauge("memlane_stream_sockets", "Open stream sockets.", registry=REGISTRY)
STREAM_CHANNELS = Gauge("memlane_stream_channels", "Joined topics of all sockets.", registry=REGISTRY)
STREAM_EVENTS = Counter(
    "memlane_stream_events_total", "Events handed to sockets for the first time.", registry=REGISTRY
)
STREAM_RESENT = Counter("memlane_stream_resent_total", "Events sent again because of a fence.", registry=REGISTRY)
STREAM_UNSOUND = Counter(
    "memlane_stream_unsound_total", "Events that failed their schema and were not sent.", registry=REGISTRY
)
STREAM_RESYNCS = Counter("memlane_stream_resyncs_total", "Reads of the table, by cause.", ["cause"], registry=REGISTRY)
STREAM_OVERFLOWS = Counter("memlane_stream_queue_overflows_total", "Sockets whose queue was full.", registry=REGISTRY)
STREAM_HELD = Gauge("memlane_stream_held_upgrades", "Upgrades that are being held.", registry=REGISTRY)
STREAM_REFUSALS = Counter(
    "memlane_stream_refusals_total", "Refused upgrades, by reason.", ["reason"], registry=REGISTRY
)
STREAM_ENDED = Counter(
    "memlane_stream_ended_total", "Open sessions that were ended, by reason.", ["reason"], registry=REGISTRY
)
STREAM_DELIVERY_SECONDS = Histogram(
    "memlane_stream_delivery_seconds",
    "Time from a write's commit to the sockets of its channel, by hint.",
    buckets=_SECONDS,
    registry=REGISTRY,
)
HINT_LAG_SECONDS = Histogram(
    "memlane_hint_lag_seconds", "Time from a write's commit to its hint's arrival.", buckets=_SECONDS, registry=REGISTRY
)
HINTS_DROPPED = Counter(
    "memlane_hints_dropped_total", "Hints that were not published because their queue was full.", registry=REGISTRY
)
HINT_RETRIES = Counter("memlane_hint_retries_total", "Times that Redis took no hints.", registry=REGISTRY)
HINT_RECONNECTS = Counter("memlane_hint_reconnects_total", "Times the hints' subscription broke.", registry=REGISTRY)


def observe_embedding(outcome: str, seconds: float, texts: int) -> None:
    """Count one embedder call; handed to the embedder by `app`."""
    EMBED_SECONDS.labels(outcome).observe(seconds)
    if outcome == "ok":
        EMBED_TEXTS.inc(texts)
