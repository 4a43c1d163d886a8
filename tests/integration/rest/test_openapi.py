"""The OpenAPI document against the running service, with requests that Hypothesis makes up from it.

No answer is a 5xx, has a status that the document does not name, or a body of another shape. The seed is fixed and
printed; MEMLANE_TEST_SEED tries another, MEMLANE_TEST_EXAMPLES another number of requests for each operation.
"""

import asyncio
import os
from collections.abc import Callable
from typing import Any

import hypothesis
import pytest
import schemathesis
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from integration.rest.house import Shop
from integration.rest.routes import ROUTES

SEED = int(os.environ.get("MEMLANE_TEST_SEED", "20261130"))
EXAMPLES = int(os.environ.get("MEMLANE_TEST_EXAMPLES", "20"))
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]


def run_examples(operation: Any, mode: GenerationMode, url: str, sent: dict[str, str], **fixed: Any) -> dict[int, int]:
    """Call one operation with made-up requests, and count the answers by status."""
    seen: dict[int, int] = {}

    @hypothesis.seed(SEED)
    @hypothesis.settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate, hypothesis.Phase.shrink],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(case=operation.as_strategy(generation_mode=mode, **fixed))
    def try_one(case: Any) -> None:
        answer = case.call(base_url=url, headers=sent, timeout=10)
        seen[answer.status_code] = seen.get(answer.status_code, 0) + 1
        case.validate_response(answer, checks=CHECKS, headers=sent)

    try_one()
    return seen


def sorted_operations(document: dict[str, Any]) -> dict[tuple[str, str], Any]:
    schema = schemathesis.openapi.from_dict(document)
    found = (one.ok() for one in schema.get_all_operations())
    return {(one.method.upper(), one.path): one for one in found}


@pytest.mark.parametrize("route", ROUTES, ids=" ".join)
@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=["sound", "unsound"])
async def test_made_up_requests_get_documented_answers(
    shop: Shop, me: dict[str, Any], route: tuple[str, str], mode: GenerationMode, record_property: Callable[..., None]
) -> None:
    print(f"seed {SEED}")  # noqa: T201 - pytest shows it when the test fails
    record_property("seed", SEED)
    operation = sorted_operations((await shop.client.get("/api/openapi.json")).json())[route]
    by_id = "{id}" in route[1]
    if mode is GenerationMode.NEGATIVE and not (operation.body or operation.query or by_id):
        return  # nothing to get wrong but the credentials, which test_matrix covers
    # The key and the user are sound; what the document says of the grant is a string, and few strings are one.
    sent = {"Authorization": me["Authorization"], "X-Cpki-User-Id": "u1"}
    sent["X-Cpki-Memory-Grant"] = '{"user":"read-write","project":"read-write"}'
    fixed = {}
    if by_id and mode is GenerationMode.POSITIVE:
        fixed["path_parameters"] = {"id": (await shop.save(me, "Likes tea."))["id"]}
    seen = await asyncio.to_thread(run_examples, operation, mode, shop.service.url, sent, **fixed)
    assert seen
    if mode is GenerationMode.POSITIVE:
        assert any(status < 300 for status in seen), seen  # the requests get past the first checks
