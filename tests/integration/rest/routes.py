"""What the matrix knows of each route. A new route has no entry here, and `test_matrix` says so."""

from dataclasses import dataclass, fields
from typing import Any, Literal, cast

from memlane.rest.handlers import MemoryHandlers
from memlane.rest.health import EntitlementHandlers, HealthHandlers
from memlane.rest.routes import RouteSpec, health_table, memory_table

Needs = Literal["nothing", "key", "read", "write"]


@dataclass(frozen=True, slots=True)
class Probe:
    """How to call a route so that it succeeds.

    Attributes:
        needs: Which access it asks for.
        status: Its answer on success.
        body: A sound body.
        names_scope: Whether the body says which scope the call is for.
        spares_target: Whether the row in its path, if any, is as before after a success.
    """

    needs: Needs
    status: int
    body: Any = None
    names_scope: bool = False
    spares_target: bool = True


DRAFT = {"content": "The warehouse opens at seven.", "kind": "topical"}
NEWER = {"content": "The warehouse opens at nine.", "kind": "topical"}

MATRIX: dict[tuple[str, str], Probe] = {
    ("GET", "/api/memories"): Probe("read", 200),
    ("POST", "/api/memories"): Probe("write", 201, DRAFT, names_scope=True),
    ("POST", "/api/memories/batch"): Probe("write", 200, {"memories": [DRAFT]}, names_scope=True),
    ("POST", "/api/memories/recall"): Probe("read", 200, {"query": "when does the warehouse open"}, names_scope=True),
    ("POST", "/api/memories/subscribe"): Probe("read", 200, {}),
    ("DELETE", "/api/memories/subscribe"): Probe("read", 204),
    ("GET", "/api/memories/{id}"): Probe("read", 200),
    ("PATCH", "/api/memories/{id}"): Probe("write", 200, NEWER, names_scope=True, spares_target=False),
    ("DELETE", "/api/memories/{id}"): Probe("write", 204, spares_target=False),
    ("POST", "/api/memories/{id}/restore"): Probe("write", 200),
    ("GET", "/api/memories/{id}/provenance"): Probe("read", 200),
    ("GET", "/api/entitlements/runtime"): Probe("key", 200),
    ("GET", "/api/live"): Probe("nothing", 200),
    ("GET", "/api/accepting"): Probe("nothing", 200),
    ("GET", "/api/health"): Probe("nothing", 200),
    ("GET", "/api/ready"): Probe("nothing", 200),
}


def table() -> tuple[RouteSpec, ...]:
    """The service's own route table; its handlers are never called here."""
    nothing = cast("Any", None)
    entitlements = EntitlementHandlers(**dict.fromkeys(fields_of(EntitlementHandlers), nothing))
    health = HealthHandlers(**dict.fromkeys(fields_of(HealthHandlers), nothing))
    return (*memory_table(MemoryHandlers(nothing, nothing), entitlements), *health_table(health))


def fields_of(kind: type[Any]) -> list[str]:
    return [field.name for field in fields(kind)]


ROUTES = [(spec.method, spec.path) for spec in table()]
KEYED = [route for route in MATRIX if MATRIX[route].needs != "nothing"]
GUARDED = [route for route in MATRIX if MATRIX[route].needs in {"read", "write"}]
BY_ID = [route for route in GUARDED if "{id}" in route[1]]
WITH_BODY = [route for route in GUARDED if MATRIX[route].body is not None]


def body_for(route: tuple[str, str], scope: str) -> Any:
    """The route's sound body, for a scope."""
    probe = MATRIX[route]
    if not probe.names_scope:
        return probe.body
    if route[1].endswith("/batch"):
        return {"memories": [{**one, "scope": scope} for one in probe.body["memories"]]}
    return {**probe.body, "scope": scope}
