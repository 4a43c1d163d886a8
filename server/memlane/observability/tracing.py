"""Traces by OpenTelemetry, when an endpoint is configured; else nothing of it is done.

A span holds a route's template, a status, counts, times, request and key ids: never a text, a secret or a query
string, and no exception's message. What else the SDK lets be set (OTEL_EXPORTER_OTLP_HEADERS, OTEL_SERVICE_NAME,
OTEL_TRACES_SAMPLER, ...) it reads from the environment itself.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.propagate import extract, inject
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, SpanKind, Status, StatusCode

__all__ = ["Span", "SpanKind", "outgoing_headers", "span", "traces"]

EXPORT_SECONDS = 2
"""Longest export of a batch; a collector that does not answer delays the end of the process by no more."""

Attribute = str | int | float | bool


class _Tracing:
    """Whether this process traces."""

    tracer: trace.Tracer | None = None


@contextmanager
def traces(endpoint: str | None, service: str) -> Iterator[None]:
    """Send spans to a collector until the block ends; do nothing without an endpoint.

    Args:
        endpoint: OTLP over HTTP, such as `http://collector:4318`; `/v1/traces` is added.
        service: Names the process, unless OTEL_SERVICE_NAME does.
    """
    if endpoint is None:
        yield
        return
    named = {} if os.environ.get("OTEL_SERVICE_NAME") else {SERVICE_NAME: service}
    exporter = OTLPSpanExporter(f"{endpoint.rstrip('/').removesuffix('/v1/traces')}/v1/traces", timeout=EXPORT_SECONDS)
    provider = TracerProvider(resource=Resource.create(named), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(exporter, export_timeout_millis=EXPORT_SECONDS * 1000))
    _Tracing.tracer = provider.get_tracer("memlane")
    try:
        yield
    finally:
        _Tracing.tracer = None
        provider.shutdown()


@contextmanager
def span(
    name: str,
    *,
    kind: SpanKind = SpanKind.INTERNAL,
    headers: Mapping[str, str] | None = None,
    **attributes: Attribute,
) -> Iterator[Span]:
    """One step of a trace.

    Args:
        name: Of few different values.
        kind: SERVER for what a caller asked, CLIENT for what we ask.
        headers: The caller's, which may name the trace that this belongs to.
        attributes: What is known of the step; an underscore in a name becomes a dot.
    """
    if _Tracing.tracer is None:
        yield trace.INVALID_SPAN
        return
    with _Tracing.tracer.start_as_current_span(
        name,
        context=None if headers is None else extract(headers),
        kind=kind,
        attributes={key.replace("_", "."): value for key, value in attributes.items()},
        # An exception's message may quote what a caller sent.
        record_exception=False,
        set_status_on_exception=False,
    ) as current:
        try:
            yield current
        except BaseException as fault:
            current.set_attribute("error.type", type(fault).__name__)
            current.set_status(Status(StatusCode.ERROR))
            raise


def outgoing_headers() -> dict[str, str]:
    """What tells a service that we ask which trace this belongs to; empty without one."""
    carrier: dict[str, str] = {}
    if _Tracing.tracer is not None:
        inject(carrier)
    return carrier
