"""The health routes, the OpenAPI document and its page: open to everybody, and honest."""

from typing import Any

from integration.rest.house import Shop
from integration.rest.routes import ROUTES


async def test_a_healthy_process_says_ok_on_each_route(shop: Shop) -> None:
    for path in ("live", "accepting", "health"):
        answer = await shop.client.get(f"/api/{path}")
        assert (answer.status_code, answer.json()) == (200, {"status": "ok"})


async def test_readiness_has_a_line_for_each_dependency(shop: Shop) -> None:
    ready = (await shop.client.get("/api/ready")).json()
    assert ready["status"] == "ok"
    assert {"database", "migrations", "embedder", "tasks"} <= ready["checks"].keys()
    assert set(ready["checks"].values()) == {"ok"}


async def test_the_document_describes_every_route(shop: Shop) -> None:
    document = (await shop.client.get("/api/openapi.json")).json()
    described = {(method.upper(), path) for path, operations in document["paths"].items() for method in operations}
    assert described == set(ROUTES)
    assert document["openapi"].startswith("3.1")


async def test_every_operation_has_an_id_of_its_own(shop: Shop) -> None:
    document = (await shop.client.get("/api/openapi.json")).json()
    ids = [operation["operationId"] for operations in document["paths"].values() for operation in operations.values()]
    assert len(set(ids)) == len(ids)


def references(part: Any) -> set[str]:
    if isinstance(part, dict):
        own = {part["$ref"]} if "$ref" in part else set()
        return own.union(*map(references, part.values()))
    return set().union(*map(references, part)) if isinstance(part, list) else set()


async def test_every_reference_of_the_document_leads_somewhere(shop: Shop) -> None:
    document = (await shop.client.get("/api/openapi.json")).json()
    names = {reference.removeprefix("#/components/schemas/") for reference in references(document)}
    assert names <= document["components"]["schemas"].keys()


async def test_the_page_names_every_route_and_loads_nothing_from_elsewhere(shop: Shop) -> None:
    answer = await shop.client.get("/api/docs")
    assert answer.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    for _, path in ROUTES:
        assert path in answer.text
    for loader in ("<script", "src=", "@import", "url(", "<link"):
        assert loader not in answer.text
