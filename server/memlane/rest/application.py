"""The REST application: the route table, the OpenAPI document and its page, as Starlette routes."""

from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from memlane.rest.bodies import encode
from memlane.rest.docs_page import docs_page
from memlane.rest.door import Operation, PathDoor
from memlane.rest.handlers import MemoryHandlers
from memlane.rest.health import EntitlementHandlers, HealthHandlers
from memlane.rest.openapi import openapi_document
from memlane.rest.routes import health_table, memory_table, router_of


def health_routes(health: HealthHandlers, extra: Sequence[BaseRoute] = ()) -> list[BaseRoute]:
    """The routes of a role that has no REST; the last one answers every other path."""
    return router_of(health_table(health), extra)


def rest_routes(
    memories: MemoryHandlers,
    entitlements: EntitlementHandlers,
    health: HealthHandlers,
    extra: Sequence[BaseRoute] = (),
) -> list[BaseRoute]:
    """All routes; the last one answers every path that is not in the table."""
    table = (*memory_table(memories, entitlements), *health_table(health))
    document = openapi_document(table)
    as_json, as_page = encode(document), docs_page(document).encode()

    async def serve_json(_request: Request) -> Response:
        return Response(as_json, media_type="application/json")

    async def serve_page(_request: Request) -> Response:
        # The page has no script; a policy says so to the browser.
        policy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'"
        return Response(as_page, media_type="text/html", headers={"Content-Security-Policy": policy})

    described = [
        *extra,
        Route("/api/openapi.json", PathDoor("/api/openapi.json", {"GET": Operation(serve_json)})),
        Route("/api/docs", PathDoor("/api/docs", {"GET": Operation(serve_page)})),
    ]
    return router_of(table, described)
