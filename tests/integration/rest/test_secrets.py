"""A text that holds a credential is refused in every door, and stands nowhere afterwards."""

import asyncio
import io
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from integration.cli.shell import memlane
from integration.mcp.house import call, mcp_client, names, refused, text_of
from integration.rest.house import Shop, error_of
from memlane.observability.metrics import REGISTRY

PASSWORD = "hunter2-of-the-warehouse"
SECRET = f"The database is postgres://app:{PASSWORD}@db/shop"
URL = f"postgres://app:{PASSWORD}@db"
TEA = {"content": "Likes tea.", "kind": "topical"}


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


def path_of(answer: httpx.Response) -> str:
    """Where a refused secret stands; nothing of the answer tells it."""
    assert error_of(answer) == (400, "SECRET_DETECTED"), answer.text
    assert PASSWORD not in answer.text
    (fault,) = answer.json()["error"]["details"]
    path: str = fault["path"]
    return path


async def test_rest_refuses_it_among_source_threads(shop: Shop, me: dict[str, Any]) -> None:
    mine = await shop.save(me, "Likes rye.", sourceThreadIds=["t1"])
    threads = ["t1", "t1", "t2", URL]
    for answer in (
        await shop.post(me, {**TEA, "sourceThreadIds": threads}),
        await shop.post(me, {"content": 5, "sourceThreadIds": threads}),
        await shop.supersede(me, mine["id"], "Likes tea.", sourceThreadIds=threads),
    ):
        assert path_of(answer) == "sourceThreadIds.3"
    batch = {"memories": [TEA, TEA, {**TEA, "sourceThreadIds": [URL]}]}
    assert path_of(await shop.post(me, batch, "/api/memories/batch")) == "memories.2.sourceThreadIds.0"
    assert await shop.listed(me) == ["Likes rye."]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("X-Memlane-Run", URL),
        ("X-Memlane-Source", URL),
        ("X-Memlane-Source", f"url:{URL}"),
        ("X-Memlane-Triggered-By", URL),
    ],
)
async def test_every_write_refuses_it_in_a_header_of_its_origin(
    shop: Shop, me: dict[str, Any], name: str, value: str, logged: io.StringIO
) -> None:
    live, retired = await shop.save(me, "Likes rye."), await shop.save(me, "Likes oats.")
    await shop.retire(me, retired["id"])
    ledger = "select count(*) from write_ledger where project_id = $1"
    (before,) = await shop.rows(ledger)
    sent = {**me, name: value}
    for answer in (
        await shop.post(sent, TEA),
        await shop.post(sent, {"content": 5}),
        await shop.post(sent, {"memories": [TEA]}, "/api/memories/batch"),
        await shop.supersede(sent, live["id"], "Likes tea."),
        await shop.retire(sent, live["id"]),
        await shop.restore(sent, retired["id"]),
    ):
        assert path_of(answer) == name
    assert await shop.rows(ledger) == [before]
    assert await shop.listed(me) == ["Likes rye."]
    assert PASSWORD not in logged.getvalue()


async def test_what_only_reads_is_not_refused_for_its_origin(shop: Shop, me: dict[str, Any]) -> None:
    mine = await shop.save(me, "Likes tea.")
    sent = {**me, "X-Memlane-Run": URL}
    assert await shop.listed(sent) == await shop.recalled(sent, "tea") == ["Likes tea."]
    assert (await shop.read(sent, mine["id"])).status_code == 200
    async with mcp_client(shop.service.url, sent) as client:
        assert len(await names(client)) == 3
        assert (await call(client, "recall_memory", query="tea"))["memories"]


async def test_random_ids_are_no_secrets(shop: Shop, me: dict[str, Any]) -> None:
    # Each of these would be one within a text.
    ids = ["9f86d081884c7d659a2feaa0c55ad015", "Zx81kQp09LmNvT4rYbE2", "n8Pq2_Xv-Zr7Lk0Wd9Tf3Bs6Gh1Jm4Cy5Ae8Uo"]
    sent = {**me, "X-Memlane-Run": ids[0], "X-Memlane-Source": f"key:{ids[1]}", "X-Memlane-Triggered-By": ids[2]}
    saved = await shop.save(sent, "Likes tea.", sourceThreadIds=ids)
    assert saved["sourceThreadIds"] == ids


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


async def test_mcp_refuses_it_among_source_threads_and_in_meta(shop: Shop, me: dict[str, Any]) -> None:
    mine = await shop.save(me, "Likes rye.")
    async with mcp_client(shop.service.url, {**me, "X-Memlane-Triggered-By": URL}) as client:
        assert await refused(client, "save_memory", **TEA, sourceThreadIds=["t1", URL]) == "SECRET_DETECTED"
        assert await refused(client, "forget_memory", id=mine["id"]) == "SECRET_DETECTED"
        for tool, arguments in (("save_memory", TEA), ("forget_memory", {"id": mine["id"]})):
            for name in ("memlane/run", "memlane/source", "memlane/triggeredBy"):
                meta: Any = {"memlane/triggeredBy": "cron", name: URL}
                result = await client.call_tool(tool, arguments, meta=meta)
                assert text_of(result).startswith(f"ERROR SECRET_DETECTED: {name} holds a credential")
                assert PASSWORD not in text_of(result)
            overruled = await client.call_tool(tool, arguments, meta={"memlane/triggeredBy": "cron"})
            assert not overruled.is_error, "the header is not what the ledger keeps"
    assert await shop.listed(me) == ["Likes tea."]


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
    assert "line 1: content holds a credential (Basic Auth Credentials)" in refused_import.err
    assert PASSWORD not in refused_import.said
    threads = tmp_path / "threads.jsonl"
    threads.write_text(json.dumps(line | {"content": "Likes tea.", "sourceThreadIds": ["t1", "t1", URL]}) + "\n")
    refused_import = await memlane("import", "--project", shop.slug, str(threads), env=env)
    assert refused_import.code == 1
    assert "line 1: sourceThreadIds.2 holds a credential (Basic Auth Credentials)" in refused_import.err
    assert PASSWORD not in refused_import.said
    assert await shop.listed(me) == []

    off = await memlane("projects", "set", shop.slug, "--secret-screening", "off", env=env)
    assert off.code == 0, off.said
    assert "secret_screening_off" in off.err
    assert (await memlane("import", "--project", shop.slug, str(file), env=env)).code == 0
    await asyncio.sleep(5)
    leaky = {**me, "X-Memlane-Run": URL}
    saved = await shop.post(leaky, {"content": SECRET, "kind": "topical", "sourceThreadIds": [URL]})
    assert saved.status_code == 201
    other = Shop(shop.service)
    answer = await other.post(await other.headers(), {"content": SECRET, "kind": "topical"})
    assert error_of(answer) == (400, "SECRET_DETECTED"), "only in that project"
