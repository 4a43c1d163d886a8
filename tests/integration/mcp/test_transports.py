"""Where the tools are reached: `/mcp` of any process, the published middleware, and stdio."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import pytest_asyncio
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp_types import INVALID_REQUEST

from integration.mcp.house import MODES, call, mcp_client, names, refused, text_of
from integration.rest.house import Shop
from memlane.domain.lane import LaneMode
from memlane.embedded.postgres import EmbeddedPostgres
from memlane.observability.metrics import REGISTRY
from memlane.storage.migrate import migrate
from oracle.balancer import Backend, Balancer
from support.postgres import drop_database, fresh_database, template_database
from support.service import ApiProcess, Deployment, api_process, headers_of

NODE = Path(__file__).parent / "node"
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
ACCEPT = {"Accept": "application/json, text/event-stream"}


async def _migrate(dsn: str) -> None:
    await migrate(dsn)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def pair(lone_postgres: EmbeddedPostgres) -> AsyncIterator[tuple[Deployment, list[ApiProcess]]]:
    """Two API processes on one database."""
    dsn = await fresh_database(lone_postgres, await template_database(lone_postgres, "migrated", _migrate))
    deployment = Deployment(dsn)
    environment = deployment.environment()
    async with api_process(environment) as first, api_process(environment) as second:
        yield deployment, [first, second]
    await drop_database(lone_postgres, dsn)


@pytest.mark.parametrize("mode", MODES)
async def test_two_processes_behind_one_port_serve_one_client_in_turn(
    pair: tuple[Deployment, list[ApiProcess]], mode: Any
) -> None:
    deployment, processes = pair
    key = await deployment.key(f"turns-{mode}")
    before = [served.log.count('"route":"/mcp"') for served in processes]
    # No connection is kept, so that the balancer gives each request to the next process.
    fresh = httpx2.Limits(max_keepalive_connections=0)
    async with Balancer() as balancer:
        balancer.backends = [Backend(int(served.url.rpartition(":")[2])) for served in processes]
        url = balancer.url.replace("ws://", "http://").removesuffix("/client")
        async with (
            httpx2.AsyncClient(headers=headers_of(key), limits=fresh) as http,
            Client(streamable_http_client(f"{url}/mcp", http_client=http), mode=mode, cache=None) as client,
        ):
            ids = [
                (await call(client, "save_memory", content=f"Shelf {number} is full.", kind="topical"))["id"]
                for number in range(4)
            ]
            assert len(await names(client)) == 3
            found = await call(client, "recall_memory", query="which shelf is full", limit=10)
            assert {one["id"] for one in found["memories"]} == set(ids)
    served = [one.log.count('"route":"/mcp"') - was for one, was in zip(processes, before, strict=True)]
    assert min(served) >= 2, "both took part"


async def run_middleware(url: str, headers: dict[str, str], *calls: tuple[str, dict[str, Any]]) -> Any:
    """One run of an agent under the published middleware."""
    asked = {
        "url": f"{url}/mcp",
        "headers": headers,
        "serverId": "memlane",
        "calls": [{"name": name, "arguments": arguments} for name, arguments in calls],
    }
    process = await asyncio.create_subprocess_exec(
        "node", NODE / "run.mjs", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(60):
        out, _ = await process.communicate(json.dumps(asked).encode())
    assert process.returncode == 0
    return json.loads(out)


async def test_the_published_middleware_lists_and_calls_the_tools(shop: Shop) -> None:
    key = await shop.key()
    headers = {"Authorization": f"Bearer {key}", "X-Cpki-User-Id": "ada"}
    ran = await run_middleware(
        shop.service.url,
        headers,
        ("save_memory", {"content": "Prefers metric units.", "kind": "operational", "sourceThreadIds": '["t1"]'}),
        ("recall_memory", {"query": "which units does the user want"}),
        ("forget_memory", {"id": "0193b6f0-0000-7000-8000-000000000000"}),
    )
    assert [tool["name"] for tool in ran["tools"]] == [
        "mcp__memlane__save_memory",
        "mcp__memlane__recall_memory",
        "mcp__memlane__forget_memory",
    ]
    (memory,) = (await shop.page(headers))["memories"]
    saved, recalled, forgotten = ran["results"]
    assert memory["id"] in saved
    assert memory["sourceThreadIds"] == ["t1"]
    assert memory["id"] in recalled
    assert "Prefers metric units." in recalled
    assert forgotten.startswith("ERROR MEMORY_NOT_FOUND: ")


async def test_the_published_middleware_sees_only_recall_in_a_read_only_lane(shop: Shop) -> None:
    key = await shop.key(lane="readers", mode=LaneMode.READ_ONLY)
    ran = await run_middleware(shop.service.url, {"Authorization": f"Bearer {key}", "X-Cpki-User-Id": "ada"})
    assert [tool["name"] for tool in ran["tools"]] == ["mcp__memlane__recall_memory"]


@pytest.mark.parametrize("mode", MODES)
async def test_the_same_tools_are_served_over_stdio(shop: Shop, mode: Any) -> None:
    key = await shop.key()
    program = StdioServerParameters(
        command=sys.executable,
        args=["-m", "memlane", "mcp"],
        env={"MEMLANE_API_URL": shop.service.url, "MEMLANE_API_KEY": key, "MEMLANE_USER_ID": "ada"},
    )
    async with Client(program, mode=mode, cache=None) as client:
        assert await names(client) == ["save_memory", "recall_memory", "forget_memory"]
        saved = await call(client, "save_memory", content="Likes tea.", kind="topical")
        assert await shop.listed(headers_of(key, "ada")) == ["Likes tea."]
        assert await refused(client, "save_memory", content="", kind="topical") == "MEMORY_VALIDATION_ERROR"
        assert await call(client, "forget_memory", id=saved["id"]) == {"id": saved["id"], "forgotten": True}


async def test_stdio_tells_a_service_that_does_not_answer_or_a_key_that_is_unknown(shop: Shop) -> None:
    def program(url: str) -> StdioServerParameters:
        environment = {"MEMLANE_API_URL": url, "MEMLANE_API_KEY": "cpk-x", "MEMLANE_USER_ID": "ada"}
        return StdioServerParameters(command=sys.executable, args=["-m", "memlane", "mcp"], env=environment)

    async with Client(program("http://127.0.0.1:9"), cache=None) as client:
        result = await client.call_tool("recall_memory", {"query": "tea"})
        assert result.is_error
        assert text_of(result).startswith("ERROR API_UNREACHABLE: ")
    async with Client(program(shop.service.url), cache=None) as client:
        assert await refused(client, "recall_memory", query="tea") == "UNAUTHENTICATED"
        with pytest.raises(MCPError, match="UNAUTHENTICATED"):
            await client.list_tools()


async def test_a_host_that_is_not_ours_and_a_foreign_origin_are_refused(shop: Shop) -> None:
    me = {**await shop.headers(), **ACCEPT}
    answer = await shop.client.post("/mcp", headers=me, json=PING)
    assert (answer.status_code, answer.json()["result"]) == (200, {})
    foreign = await shop.client.post("/mcp", headers={**me, "Host": "evil.example"}, json=PING)
    assert foreign.status_code == 421
    page = await shop.client.post("/mcp", headers={**me, "Origin": "https://evil.example"}, json=PING)
    assert page.status_code == 403


async def test_what_is_no_post_or_no_key_is_answered_as_rest_does(shop: Shop) -> None:
    me = {**await shop.headers(), **ACCEPT}
    for method in ("GET", "DELETE"):
        answer = await shop.client.request(method, "/mcp", headers=me)
        assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    unknown = await shop.client.post("/mcp", headers=ACCEPT, json=PING)
    assert unknown.status_code == 401
    assert unknown.json()["error"]["code"] == "UNAUTHENTICATED"
    assert unknown.headers["www-authenticate"] == "Bearer"
    broken = await shop.client.post("/mcp", headers={**me, "Content-Type": "application/json"}, content=b"{")
    assert broken.status_code == 400
    assert answer.headers["x-request-id"]


LONG = "y" * (512 * 1024)


@pytest.mark.parametrize("announced", [True, False])
async def test_a_message_that_is_too_long_is_an_error_of_the_protocol(shop: Shop, announced: bool) -> None:
    me = {**await shop.headers(), **ACCEPT, "Content-Type": "application/json"}
    body = json.dumps({**PING, "params": {"x": LONG}}).encode()

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(body), 100_000):
            yield body[start : start + 100_000]

    denials = {"code": "PAYLOAD_TOO_LARGE"}
    before = REGISTRY.get_sample_value("memlane_denials_total", denials) or 0
    answer = await shop.client.post("/mcp", headers=me, content=body if announced else pieces())
    assert (answer.status_code, answer.headers["content-type"]) == (413, "application/json")
    told = answer.json()
    message = "The body is over 512 KiB."
    assert (told["jsonrpc"], told["id"], told["error"]["code"]) == ("2.0", None, INVALID_REQUEST)
    assert told["error"]["message"] == f"PAYLOAD_TOO_LARGE: {message}"
    assert told["error"]["data"] == {
        "code": "PAYLOAD_TOO_LARGE", "message": message, "requestId": answer.headers["x-request-id"]
    }  # fmt: skip
    assert REGISTRY.get_sample_value("memlane_denials_total", denials) == before + 1


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("times", [1, 16])
async def test_a_call_that_is_too_long_fails_by_its_code_and_the_session_goes_on(
    shop: Shop, mode: Any, times: int
) -> None:
    async with mcp_client(shop.service.url, await shop.headers(), mode) as client:
        with pytest.raises(MCPError, match=r"^PAYLOAD_TOO_LARGE: ") as fault:
            await client.call_tool("save_memory", {"content": LONG * times, "kind": "topical"})
        assert fault.value.error.data["code"] == "PAYLOAD_TOO_LARGE"
        await call(client, "save_memory", content="Likes tea.", kind="topical")


async def test_a_call_that_is_too_long_fails_by_its_code_over_stdio_too(shop: Shop) -> None:
    program = StdioServerParameters(
        command=sys.executable,
        args=["-m", "memlane", "mcp"],
        env={"MEMLANE_API_URL": shop.service.url, "MEMLANE_API_KEY": await shop.key(), "MEMLANE_USER_ID": "ada"},
    )
    async with Client(program, cache=None) as client:
        with pytest.raises(MCPError, match=r"^PAYLOAD_TOO_LARGE: "):
            await client.call_tool("save_memory", {"content": LONG, "kind": "topical"})
        await call(client, "save_memory", content="Likes tea.", kind="topical")


async def test_the_published_middleware_tells_a_model_that_a_call_was_too_long(shop: Shop) -> None:
    key = await shop.key()
    ran = await run_middleware(
        shop.service.url,
        {"Authorization": f"Bearer {key}", "X-Cpki-User-Id": "ada"},
        ("save_memory", {"content": LONG, "kind": "topical"}),
        ("save_memory", {"content": "Likes tea.", "kind": "topical"}),
    )
    long, _ = ran["results"]
    assert "PAYLOAD_TOO_LARGE: The body is over 512 KiB." in long
    assert await shop.listed(headers_of(key, "ada")) == ["Likes tea."]
