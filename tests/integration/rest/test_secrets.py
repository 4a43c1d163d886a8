"""A text that holds a credential is refused in every door, and stands nowhere afterwards."""

import asyncio
import io
import json
from pathlib import Path
from typing import Any

from integration.cli.shell import memlane
from integration.mcp.house import mcp_client, refused, text_of
from integration.rest.house import Shop, error_of
from memlane.observability.metrics import REGISTRY

PASSWORD = "hunter2-of-the-warehouse"
SECRET = f"The database is postgres://app:{PASSWORD}@db/shop"


def counted() -> float:
    return REGISTRY.get_sample_value("memlane_secrets_refused_total", {"kind": "Basic Auth Credentials"}) or 0.0


async def test_rest_refuses_it_names_the_kind_and_stores_and_logs_nothing(
    shop: Shop, me: dict[str, Any], logged: io.StringIO
) -> None:
    mine = await shop.save(me, "Likes tea.")
    before = counted()
    answers = [
        await shop.post(me, {"content": SECRET, "kind": "topical"}),
        await shop.supersede(me, mine["id"], SECRET),
        await shop.post(me, {"memories": [{"content": SECRET, "kind": "topical"}]}, "/api/memories/batch"),
    ]
    for answer in answers:
        assert error_of(answer) == (400, "SECRET_DETECTED")
        assert "Basic Auth Credentials" in answer.json()["error"]["message"]
        assert PASSWORD not in answer.text
    assert answers[2].json()["error"]["details"][0]["path"] == "memories.0.content"
    assert counted() == before + 3
    assert await shop.listed(me) == ["Likes tea."]
    assert PASSWORD not in logged.getvalue()


async def test_it_is_told_before_any_other_fault_of_the_body(shop: Shop, me: dict[str, Any]) -> None:
    for body in (
        {"content": SECRET, "kind": "opinion"},
        {"content": SECRET},
        {"content": SECRET + "x" * 9000, "kind": "topical"},
        {"content": SECRET, "kind": "topical", "color": 1},
    ):
        assert error_of(await shop.post(me, body)) == (400, "SECRET_DETECTED")
    assert error_of(await shop.post(me, {"content": 1, "kind": "topical"})) == (400, "MEMORY_VALIDATION_ERROR")


async def test_one_secret_refuses_its_whole_batch(shop: Shop, me: dict[str, Any]) -> None:
    drafts = [{"content": f"Shelf {number} is full.", "kind": "topical"} for number in range(40)]
    drafts[39]["content"] = SECRET
    answer = await shop.post(me, {"memories": drafts}, "/api/memories/batch")
    assert error_of(answer) == (400, "SECRET_DETECTED")
    assert await shop.listed(me) == []


async def test_mcp_refuses_it(shop: Shop, me: dict[str, Any]) -> None:
    async with mcp_client(shop.service.url, me) as client:
        assert await refused(client, "save_memory", content=SECRET, kind="topical") == "SECRET_DETECTED"
        assert await refused(client, "save_memory", content=SECRET) == "SECRET_DETECTED"
        result = await client.call_tool("save_memory", {"content": SECRET, "kind": "topical"})
        assert "Basic Auth Credentials" in text_of(result)
        assert PASSWORD not in text_of(result)
    assert await shop.listed(me) == []


async def test_an_operator_can_switch_it_off_for_one_project_which_is_logged(
    shop: Shop, me: dict[str, Any], tmp_path: Path
) -> None:
    env = shop.deployment.environment()
    line = {
        "id": "0193b6f0-0000-7000-8000-000000000001", "userId": "u1", "scope": "user", "kind": "topical",
        "content": SECRET, "sourceThreadIds": [], "createdAt": "2026-01-01T00:00:00Z",
        "updatedAt": "2026-01-01T00:00:00Z", "invalidatedAt": None,
    }  # fmt: skip
    file = tmp_path / "export.jsonl"
    file.write_text(json.dumps(line) + "\n")
    refused_import = await memlane("import", "--project", shop.slug, str(file), env=env)
    assert refused_import.code == 1
    assert "line 1: holds a credential (Basic Auth Credentials)" in refused_import.err
    assert PASSWORD not in refused_import.said
    assert await shop.listed(me) == []

    off = await memlane("projects", "set", shop.slug, "--secret-screening", "off", env=env)
    assert off.code == 0, off.said
    assert "secret_screening_off" in off.err
    assert (await memlane("import", "--project", shop.slug, str(file), env=env)).code == 0
    await asyncio.sleep(5)
    assert (await shop.post(me, {"content": SECRET, "kind": "topical"})).status_code == 201
    other = Shop(shop.service)
    answer = await other.post(await other.headers(), {"content": SECRET, "kind": "topical"})
    assert error_of(answer) == (400, "SECRET_DETECTED"), "only in that project"
