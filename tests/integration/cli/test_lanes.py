"""`memlane lanes create|set|list`."""

import asyncio
import json
from typing import Any

import httpx
import pytest
import pytest_asyncio

from integration.cli.shell import Ran, memlane
from support.service import Deployment, api_process, headers_of


@pytest_asyncio.fixture(loop_scope="session")
async def env(lone_deployment: Deployment) -> dict[str, str]:
    await lone_deployment.project("shop")
    return {"DATABASE_URL": lone_deployment.dsn}


async def lanes(env: dict[str, str], *arguments: str) -> Ran:
    return await memlane("lanes", *arguments, "--project", "shop", env=env)


async def listed(env: dict[str, str]) -> dict[str, Any]:
    rows = json.loads((await lanes(env, "list", "--json")).out)
    return {row["name"]: row for row in rows}


async def test_a_lane_is_created_with_note_and_owner_and_holds_keys(env: dict[str, str]) -> None:
    ran = await lanes(env, "create", "mail", "--trust", "trusted", "--note", "Reads mail.", "--owner", "ops")
    assert ran.code == 0, ran.said
    key = await memlane("keys", "create", "--project", "shop", "--lane", "mail", env=env)
    assert key.code == 0, key.said
    row = (await listed(env))["mail"]
    expected = {"trust": "trusted", "mode": "read-write", "note": "Reads mail.", "owner": "ops", "active_keys": 1}
    assert {name: row[name] for name in expected} == expected
    again = await lanes(env, "create", "mail")
    assert again.code == 1
    assert "already" in again.err
    table = await lanes(env, "list")
    assert "mail" in table.out
    assert "Reads mail." in table.out


async def test_an_untrusted_lane_writes_only_when_that_is_accepted_and_it_is_logged(env: dict[str, str]) -> None:
    assert "read-only" in (await lanes(env, "create", "web", "--trust", "untrusted")).out
    for arguments in (
        ("set", "web", "--mode", "read-write"),
        ("create", "feed", "--trust", "untrusted", "--mode", "read-write"),
        ("set", "default", "--trust", "untrusted"),
    ):
        refused = await lanes(env, *arguments)
        assert refused.code == 1
        assert "--accept-untrusted-writes" in refused.err
        assert "untrusted_writes_accepted" not in refused.err
    assert {name: (row["trust"], row["mode"]) for name, row in (await listed(env)).items()} == {
        "default": ("internal", "read-write"),
        "web": ("untrusted", "read-only"),
    }
    accepted = await lanes(env, "set", "web", "--mode", "read-write", "--accept-untrusted-writes")
    assert accepted.code == 0, accepted.said
    logged = json.loads(next(line for line in accepted.err.splitlines() if "untrusted_writes_accepted" in line))
    assert (logged["project"], logged["lane"]) == ("shop", "web")
    assert (await listed(env))["web"]["untrusted_writes_accepted_at"] is not None
    # Another change keeps the acceptance; closing the lane ends it.
    assert (await lanes(env, "set", "web", "--note", "x")).code == 0
    assert (await listed(env))["web"]["untrusted_writes_accepted_at"] is not None
    assert (await lanes(env, "set", "web", "--mode", "off")).code == 0
    assert (await listed(env))["web"]["untrusted_writes_accepted_at"] is None


@pytest.mark.parametrize(
    "arguments",
    [
        ("create", "Mail"),
        ("create", "mail", "--trust", "good"),
        ("create", "mail", "--note", "x" * 501),
        ("set", "none", "--mode", "off"),
        ("set", "default"),
    ],
)
async def test_what_is_wrong_is_refused_with_a_reason(env: dict[str, str], arguments: tuple[str, ...]) -> None:
    ran = await lanes(env, *arguments)
    assert ran.code in {1, 2}
    assert "Error: " in ran.err
    assert list(await listed(env)) == ["default"]


async def test_a_change_holds_within_5_s_in_every_process(lone_deployment: Deployment, env: dict[str, str]) -> None:
    key = await lone_deployment.key("shop")
    environment = lone_deployment.environment()
    draft = {"content": "Likes tea.", "kind": "topical"}
    async with (
        api_process(environment) as first,
        api_process(environment) as second,
        httpx.AsyncClient(headers=headers_of(key)) as client,
    ):
        urls = [f"{served.url}/api/memories" for served in (first, second)]

        async def answers(write: bool) -> set[tuple[int, str | None]]:
            found = set()
            for url in urls:
                answer = await (client.post(url, json=draft) if write else client.get(url))
                found.add((answer.status_code, answer.json().get("error", {}).get("code")))
            return found

        async def turns(write: bool, *expected: tuple[int, str | None]) -> None:
            async with asyncio.timeout(5):
                while True:
                    if await answers(write) == set(expected):
                        return
                    await asyncio.sleep(0.1)

        assert await answers(write=True) == {(201, None)}
        assert (await lanes(env, "set", "default", "--mode", "read-only")).code == 0
        await turns(True, (403, "LANE_READ_ONLY"))
        assert await answers(write=False) == {(200, None)}
        assert (await lanes(env, "set", "default", "--mode", "off")).code == 0
        await turns(False, (403, "LANE_OFF"))
        assert (await lanes(env, "set", "default", "--mode", "read-write")).code == 0
        await turns(True, (201, None))
