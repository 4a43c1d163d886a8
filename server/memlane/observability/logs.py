"""Structured logs: one JSON object a line, on standard error.

A line never holds a key's secret, a token, a memory's text or a query string. `log` takes named values only;
callers pass ids, codes, counts and times.
"""

import logging
import re
import sys
from typing import Any, TextIO

import orjson
import structlog

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("memlane")

_CREDENTIAL = re.compile(r"(cpk-[a-z0-9-]+_[A-Za-z0-9]+_)[A-Za-z0-9]+|(\?)\S+")
_TRACEBACK = "Traceback (most recent call last)"


class _Redact(logging.Filter):
    """Takes keys and query strings out of what other libraries log (uvicorn writes the whole URL)."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Rewrite the record in place; always let it pass."""
        text = _CREDENTIAL.sub(lambda match: f"{match[1] or match[2]}[redacted]", record.getMessage())
        # Starlette hands a failed start over as a traceback in the message: only the fault's kind is kept.
        record.msg = f"failed: {_kind_of(text)}" if _TRACEBACK in text else text
        record.args = ()
        # A traceback of a driver or a parser can quote what it was given.
        record.exc_info = None
        record.exc_text = None
        return True


def _kind_of(traceback: str) -> str:
    # The first line after the frames is `kind: message`; the message may go on over more lines.
    lines = traceback.partition(_TRACEBACK)[2].splitlines()[1:]
    return next((line for line in lines if line[:1].strip()), "a group of faults").partition(":")[0]


def _line(event: dict[str, Any], **_: Any) -> str:
    return orjson.dumps(event, default=str).decode()


def set_up_logs(level: str = "INFO", stream: TextIO | None = None) -> None:
    """Route our own logs and those of the libraries to one stream as JSON lines."""
    target = stream or sys.stderr
    numeric = logging.getLevelNamesMapping()[level]
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.JSONRenderer(serializer=_line),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(numeric),
        logger_factory=structlog.PrintLoggerFactory(target),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(target)
    handler.addFilter(_Redact())
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[
                structlog.processors.add_log_level,
                structlog.stdlib.add_logger_name,
                structlog.processors.TimeStamper(fmt="iso", utc=True),
            ],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.JSONRenderer(serializer=_line),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(max(numeric, logging.WARNING))
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        library = logging.getLogger(name)
        library.handlers.clear()
        library.propagate = True
    # Every request is already logged by the door, with its route and never with its query string.
    logging.getLogger("uvicorn.access").disabled = True
