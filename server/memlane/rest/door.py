"""What surrounds every request: its id, its deadline, its log line, its metrics, and the errors' form."""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import uuid_utils
from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from memlane.domain.errors import MemlaneError, StorageUnavailable
from memlane.observability import metrics
from memlane.observability.logs import log
from memlane.observability.tracing import Span, SpanKind, span
from memlane.rest.errors import MethodNotAllowed, NoSuchRoute, error_response

DEADLINE_SECONDS = 4.8
"""Longest work on one request: a caller has its answer within 5 s."""
REQUEST_ID_HEADER = "X-Request-Id"
_REQUEST_ID = re.compile(r"[\w.:-]{1,128}", re.ASCII)

Handler = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Operation:
    """A handler and the longest time that it may take."""

    handler: Handler
    deadline_seconds: float = DEADLINE_SECONDS


class PathDoor:
    """The ASGI endpoint of one path: picks the method's handler and answers whatever happens."""

    def __init__(self, template: str, operations: dict[str, Operation]) -> None:
        self._template = template
        self._operations = operations
        self._allowed = tuple(sorted({*operations, "HEAD"} if "GET" in operations else operations))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        request = Request(scope, receive)
        method = "GET" if request.method == "HEAD" else request.method
        operation = self._operations.get(method)
        if operation is None:
            allowed = self._allowed

            async def refuse(_request: Request) -> Response:
                raise MethodNotAllowed(allowed)

            operation = Operation(refuse)
        await answer(request, operation, self._template, scope, receive, send)


class NoDoor:
    """Serves every path that is not in the table."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 404, a websocket's upgrade too."""
        if scope["type"] == "websocket":
            await _refuse_upgrade(scope, receive, send)
            return

        async def refuse(_request: Request) -> Response:
            raise NoSuchRoute

        await answer(Request(scope, receive), Operation(refuse), "unknown", scope, receive, send)


async def _refuse_upgrade(scope: Scope, receive: Receive, send: Send) -> None:
    request_id = _request_id(HTTPConnection(scope))
    response = error_response(NoSuchRoute(), request_id)
    response.headers[REQUEST_ID_HEADER] = request_id
    log.info("upgrade_refused", route="unknown", status=response.status_code, request_id=request_id)
    # Starlette sends it with the events of a refused upgrade.
    await response(scope, receive, send)


async def answer(
    request: Request, operation: Operation, template: str, scope: Scope, receive: Receive, send: Send
) -> None:
    """Trace a request, run its handler within its deadline; log and count what came of it."""
    method = request.method if request.method in _METHODS else "other"
    request.state.request_id = _request_id(request)
    request.state.key_id = None
    with span(
        f"{method} {template}",
        kind=SpanKind.SERVER,
        headers=request.headers,
        http_route=template,
        http_request_method=method,
        memlane_request_id=request.state.request_id,
    ) as current:
        await _answer(request, operation, template, method, current, scope, receive, send)


async def _answer(
    request: Request,
    operation: Operation,
    template: str,
    method: str,
    current: Span,
    scope: Scope,
    receive: Receive,
    send: Send,
) -> None:
    began = time.perf_counter()
    request_id = request.state.request_id
    try:
        async with asyncio.timeout(operation.deadline_seconds):
            response = await operation.handler(request)
    except MemlaneError as fault:
        response = error_response(fault, request_id)
    except TimeoutError:
        response = error_response(StorageUnavailable("The request took too long; try again."), request_id)
    except ClientDisconnect:
        log.info("client_left", route=template, method=request.method, request_id=request_id)
        return
    except Exception as fault:  # noqa: BLE001 - the last line of defence: an answer without a trace of the inside
        log.error("internal_error", route=template, request_id=request_id, **_where(fault))
        response = error_response(MemlaneError("Something went wrong on our side."), request_id)
    response.headers[REQUEST_ID_HEADER] = request_id
    try:
        await response(scope, receive, send)
        # The loop sends what was written at the end of its turn: the answer goes out before it is counted and logged.
        await asyncio.sleep(0)
    finally:
        seconds = time.perf_counter() - began
        current.set_attribute("http.response.status_code", response.status_code)
        if request.state.key_id is not None:
            current.set_attribute("memlane.key.id", request.state.key_id)
        metrics.REQUESTS.labels(template, method, str(response.status_code)).inc()
        metrics.REQUEST_SECONDS.labels(template, method).observe(seconds)
        log.info(
            "request",
            route=template,
            method=method,
            status=response.status_code,
            ms=round(seconds * 1000, 2),
            key_id=request.state.key_id,
            request_id=request_id,
        )


_METHODS = frozenset({"GET", "HEAD", "POST", "PATCH", "DELETE", "PUT", "OPTIONS"})


def _request_id(request: HTTPConnection) -> str:
    sent = request.headers.get(REQUEST_ID_HEADER, "")
    return sent if _REQUEST_ID.fullmatch(sent) else uuid_utils.uuid4().hex


def _where(fault: Exception) -> dict[str, object]:
    # The kind and the place, never the message: it can quote what the caller sent.
    trace = fault.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = f"{trace.tb_frame.f_code.co_filename.rsplit('/', 1)[-1]}:{trace.tb_lineno}" if trace else "unknown"
    return {"kind": type(fault).__name__, "place": place}
