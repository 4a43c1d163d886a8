"""The tools as an agent meets them, through the official client, on both protocols."""

import asyncio
from typing import Any

import pytest
from mcp import MCPError

from integration.mcp.house import MODES, call, mcp_client, names, refused, text_of
from integration.rest.house import Shop
from memlane.domain.grant import Access, Grant
from memlane.domain.lane import LaneMode
from memlane.observability.metrics import REGISTRY
from support.service import headers_of

ALL = ["save_memory", "recall_memory", "forget_memory"]
GONE = "0193b6f0-0000-7000-8000-000000000000"


def counted(metric: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(metric, labels) or 0.0


@pytest.mark.parametrize("mode", MODES)
async def test_a_statement_is_saved_recalled_in_other_words_and_forgotten(shop: Shop, mode: str) -> None:
    me = await shop.headers("ada")
    async with mcp_client(shop.service.url, me, mode) as client:
        assert await names(client) == ALL
        saved = await call(client, "save_memory", content="Prefers concise status updates.", kind="operational")
        again = await call(client, "save_memory", content="prefers concise status updates", kind="operational")
        assert (saved["absorbed"], again["absorbed"], again["id"]) == (False, True, saved["id"])
        found = await call(client, "recall_memory", query="how does this user like updates")
        assert [one["id"] for one in found["memories"]] == [saved["id"]]
        assert await call(client, "forget_memory", id=saved["id"]) == {"id": saved["id"], "forgotten": True}
        assert await call(client, "recall_memory", query="status updates") == {"memories": []}
    assert await shop.listed(me) == []


async def test_the_text_alone_carries_ids_contents_and_scores(shop: Shop) -> None:
    async with mcp_client(shop.service.url, await shop.headers()) as client:
        result = await client.call_tool("save_memory", {"content": "Ships on Fridays.", "kind": "topical"})
        memory_id = result.structured_content["id"]
        assert memory_id in text_of(result)
        assert "Ships on Fridays." in text_of(result)
        absorbed = await client.call_tool("save_memory", {"content": "Ships on Fridays", "kind": "topical"})
        assert text_of(absorbed).startswith(f"Already known: the live memory {memory_id}")
        found = text_of(await client.call_tool("recall_memory", {"query": "when do they ship"}))
        assert memory_id in found
        assert "Ships on Fridays" in found
        assert "score" in found
        nothing = text_of(await client.call_tool("recall_memory", {"query": "quantum physics", "minScore": 0.99}))
        assert nothing == "No memory matches."
        assert memory_id in text_of(await client.call_tool("forget_memory", {"id": memory_id}))


async def test_descriptions_teach_when_what_and_never_secrets(shop: Shop) -> None:
    async with mcp_client(shop.service.url, await shop.headers()) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    save = tools["save_memory"].description or ""
    for word in ("Recall first", "operational", "topical", "episodic", "`user`", "`project`", "Never save secrets"):
        assert word in save
    assert "before saving" in (tools["recall_memory"].description or "")
    schema = tools["save_memory"].input_schema
    assert schema["required"] == ["content", "kind"]
    assert schema["properties"]["scope"]["enum"] == ["user", "project"]
    assert set(tools["recall_memory"].input_schema["properties"]) == {"query", "limit", "scope", "kind", "minScore"}
    assert max(len(f"mcp__memlane-project-memory__{name}") for name in tools) <= 64


@pytest.mark.parametrize(
    ("grant", "listed"),
    [
        (Grant(Access.READ, Access.READ), ["recall_memory"]),
        (Grant(Access.NONE, Access.READ_WRITE), ALL),
        (Grant(Access.NONE, Access.NONE), []),
    ],
)
async def test_a_tool_that_the_grant_forbids_is_not_listed(shop: Shop, grant: Grant, listed: list[str]) -> None:
    async with mcp_client(shop.service.url, await shop.headers(grant=grant)) as client:
        assert await names(client) == listed


async def test_a_read_only_lane_lists_only_recall_and_a_write_tried_all_the_same_is_denied(shop: Shop) -> None:
    me = await shop.headers()
    kept = await shop.save(me, "Likes tea.")
    readers = await shop.headers(lane="readers", mode=LaneMode.READ_ONLY)
    denials = counted("memlane_denials_total", code="LANE_READ_ONLY")
    saves = counted("memlane_mcp_calls_total", tool="save_memory", outcome="LANE_READ_ONLY")
    async with mcp_client(shop.service.url, readers) as client:
        assert await names(client) == ["recall_memory"]
        assert await refused(client, "save_memory", content="Likes coffee.", kind="topical") == "LANE_READ_ONLY"
        assert await refused(client, "forget_memory", id=kept["id"]) == "LANE_READ_ONLY"
        assert counted("memlane_denials_total", code="LANE_READ_ONLY") == denials + 2
        assert counted("memlane_mcp_calls_total", tool="save_memory", outcome="LANE_READ_ONLY") == saves + 1
        assert [one["id"] for one in (await call(client, "recall_memory", query="tea"))["memories"]] == [kept["id"]]
    off = await shop.headers(lane="silenced", mode=LaneMode.OFF)
    async with mcp_client(shop.service.url, off) as client:
        assert await names(client) == []
        assert await refused(client, "recall_memory", query="tea") == "LANE_OFF"


async def test_without_a_user_only_a_grant_that_reaches_no_user_is_served(shop: Shop) -> None:
    key = await shop.key(grant=Grant(Access.NONE, Access.READ_WRITE))
    async with mcp_client(shop.service.url, {"Authorization": f"Bearer {key}"}) as client:
        save = (await client.list_tools()).tools[0]
        assert save.input_schema["properties"]["scope"]["enum"] == ["project"]
        assert "scope" in save.input_schema["required"]
        saved = await call(client, "save_memory", content="We ship on Fridays.", kind="topical", scope="project")
        assert await refused(client, "save_memory", content="Mine.", kind="topical") == "MEMORY_GRANT_DENIED"
        found = await call(client, "recall_memory", query="shipping day")
        assert [one["id"] for one in found["memories"]] == [saved["id"]]
    full = {"Authorization": f"Bearer {await shop.key()}"}
    async with mcp_client(shop.service.url, full) as client:
        assert await refused(client, "recall_memory", query="tea") == "MEMORY_VALIDATION_ERROR"
        with pytest.raises(MCPError, match="X-Cpki-User-Id"):
            await client.list_tools()
    # The header may narrow a wide key to the project as well.
    narrowed = {**full, "X-Cpki-Memory-Grant": '{"project":"read"}'}
    async with mcp_client(shop.service.url, narrowed) as client:
        assert await names(client) == ["recall_memory"]


@pytest.mark.parametrize("mode", MODES)
async def test_a_key_that_is_revoked_meanwhile_fails_the_call_and_not_the_session(shop: Shop, mode: str) -> None:
    key = await shop.key()
    async with mcp_client(shop.service.url, headers_of(key), mode) as client:
        await call(client, "recall_memory", query="tea")
        await shop.deployment.execute("update runtime_keys set revoked_at = now() where short = $1", key.split("_")[1])
        failed = False
        async with asyncio.timeout(5):
            while not failed:
                failed = (await client.call_tool("recall_memory", {"query": "tea"})).is_error
        assert await refused(client, "recall_memory", query="tea") == "UNAUTHENTICATED"
        with pytest.raises(MCPError, match="UNAUTHENTICATED"):
            await client.list_tools()


@pytest.mark.parametrize("mode", MODES)
async def test_a_conversation_without_a_key_does_not_open(shop: Shop, mode: str) -> None:
    with pytest.raises((MCPError, ExceptionGroup)):
        async with mcp_client(shop.service.url, headers_of("cpk-shop_unknownunkno_" + "x" * 43), mode):
            pass


async def test_an_unentitled_organization_sees_no_memory_tools(shop: Shop, managed_house: Any) -> None:
    key = await shop.deployment.key("of-initech", organization="initech")
    async with mcp_client(managed_house.url, headers_of(key)) as client:
        assert await names(client) == []
        assert await refused(client, "recall_memory", query="tea") == "MEMORY_NOT_ENTITLED"
        assert await refused(client, "save_memory", content="Likes tea.", kind="topical") == "MEMORY_NOT_ENTITLED"


async def test_arguments_pass_the_models_of_rest_and_each_bad_field_is_named(shop: Shop) -> None:
    async with mcp_client(shop.service.url, await shop.headers()) as client:
        for arguments, path in (
            ({"content": " ", "kind": "topical"}, "content"),
            ({"content": "Likes tea.", "kind": "opinion"}, "kind"),
            ({"content": "Likes tea."}, "kind"),
            ({"content": "Likes tea.", "kind": "topical", "color": "red"}, "color"),
            ({"content": "x" * 8193, "kind": "topical"}, "content"),
        ):
            result = await client.call_tool("save_memory", arguments)
            assert result.is_error
            assert result.meta is not None
            assert result.meta["memlane/error"]["code"] == "MEMORY_VALIDATION_ERROR"
            assert f"\n- {path}: " in text_of(result)
        assert await refused(client, "forget_memory", id=GONE) == "MEMORY_NOT_FOUND"
        assert await refused(client, "forget_memory", id="7") == "MEMORY_NOT_FOUND"
        with pytest.raises(MCPError, match="no such tool"):
            await client.call_tool("drop_memory", {})


async def test_json_inside_strings_is_understood_where_it_is_safe(shop: Shop) -> None:
    me = await shop.headers()
    async with mcp_client(shop.service.url, me) as client:
        saved = await call(
            client, "save_memory", content='["a"]', kind='"topical"', scope="null", sourceThreadIds='["t1", "t2"]'
        )
        assert (saved["content"], saved["scope"], saved["sourceThreadIds"]) == ('["a"]', "user", ["t1", "t2"])
        found = await call(client, "recall_memory", query="null", limit="3", minScore="null", kind=None)
        assert len(found["memories"]) <= 3
        assert (
            await refused(client, "save_memory", content="Tea.", kind="topical", sourceThreadIds='{"a": 1}')
            == "MEMORY_VALIDATION_ERROR"
        )


async def test_another_tenants_memory_is_as_if_it_were_not_there(shop: Shop) -> None:
    mine = await shop.save(await shop.headers("ada"), "Likes tea.")
    for stranger in (await shop.headers("bob"), await Shop(shop.service).headers("ada")):
        async with mcp_client(shop.service.url, stranger) as client:
            assert await call(client, "recall_memory", query="tea") == {"memories": []}
            assert await refused(client, "forget_memory", id=mine["id"]) == "MEMORY_NOT_FOUND"


async def test_run_and_source_come_from_meta_or_headers_and_trust_never(shop: Shop) -> None:
    me = {**await shop.headers(), "X-Memlane-Run": "run-of-header", "X-Memlane-Trust": "trusted"}
    meta = {"memlane/source": "ticket:4711", "memlane/triggeredBy": "cron", "memlane/trust": "trusted"}
    async with mcp_client(shop.service.url, me) as client:
        await client.call_tool("save_memory", {"content": "Likes tea.", "kind": "topical"}, meta=meta)
        await client.call_tool("save_memory", {"content": "Likes rye.", "kind": "topical"}, meta={"memlane/run": "r2"})
        bad = await client.call_tool("save_memory", {"content": "Hm.", "kind": "topical"}, meta={"memlane/source": "x"})
        assert bad.is_error
        assert "memlane/source" in text_of(bad)
    rows = await shop.rows(
        "select run, source_type, source_id, triggered_by, source_trust from write_ledger"
        " where project_id = $1 order by id"
    )
    assert [tuple(row) for row in rows] == [
        ("run-of-header", "ticket", "4711", "cron", "internal"),
        ("r2", "unknown", "unknown", "unknown", "internal"),
    ]
