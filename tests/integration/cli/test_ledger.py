"""`memlane ledger tail|show|verify|heads`, and what the three doors write."""

import json
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from integration.cli.shell import Ran, borrowed, memlane
from integration.mcp.house import call, mcp_client
from memlane.domain.lane import LaneMode
from memlane.usecases.ports import Embedder
from support.service import Deployment, Service, headers_of, running_service


@pytest_asyncio.fixture(loop_scope="session")
async def env(lone_deployment: Deployment) -> dict[str, str]:
    return lone_deployment.environment()


async def ledger(env: dict[str, str], *arguments: str) -> Ran:
    return await memlane("ledger", *arguments, env=env)


async def tail(env: dict[str, str], *arguments: str) -> list[Any]:
    ran = await ledger(env, "tail", "--project", "shop", "--json", *arguments)
    assert ran.code == 0, ran.said
    return [json.loads(line) for line in ran.out.splitlines()]


async def seeded(service: Service, deployment: Deployment) -> dict[str, Any]:
    """A few writes of two users and the project."""
    me = headers_of(await deployment.key(), "ada")
    first = await service.save(me, "Likes tea.")
    await service.save(me, "likes tea")
    await service.save(me, "We ship on Fridays.", scope="project")
    await service.save(headers_of(await deployment.key(), "bob"), "Likes rye.")
    await service.client.delete(f"/api/memories/{first['id']}", headers=me)
    await service.client.post(f"/api/memories/{first['id']}/restore", headers=me)
    await service.client.patch(
        f"/api/memories/{first['id']}", headers=me, json={"content": "Likes coffee.", "kind": "topical"}
    )
    return me


async def test_a_save_through_rest_mcp_and_the_command_line_names_three_lanes(
    lone_deployment: Deployment, embedder: Embedder, env: dict[str, str], tmp_path: Path
) -> None:
    rest = await lone_deployment.key(lane="website", mode=LaneMode.READ_WRITE)
    mcp = await lone_deployment.key(lane="agents", mode=LaneMode.READ_WRITE)
    forged = {"X-Memlane-Trust": "trusted", "X-Memlane-Lane": "operator", "X-Memlane-Source-Trust": "trusted"}
    async with running_service(lone_deployment, embedder=borrowed(embedder)) as (service, _):
        sent = {**headers_of(rest, "ada"), **forged, "X-Memlane-Run": "run-1", "X-Memlane-Source": "thread:t1"}
        await service.save(sent, "Likes tea.")
        async with mcp_client(service.url, {**headers_of(mcp, "ada"), **forged}) as client:
            meta: Any = {"memlane/run": "run-2", "memlane/trust": "trusted"}
            await client.call_tool("save_memory", {"content": "Likes rye.", "kind": "topical"}, meta=meta)
            await call(client, "recall_memory", query="tea")
    export = tmp_path / "one.jsonl"
    assert (await memlane("export", "--project", "shop", "--out", str(export), env=env)).code == 0
    line = json.loads(export.read_text().splitlines()[1]) | {"id": "0193b6f0-0000-7000-8000-000000000000"}
    export.write_text(json.dumps(line | {"content": "Likes coffee."}) + "\n")
    why = ("--source", "file:one.jsonl", "--triggered-by", "the migration")
    assert (await memlane("import", "--project", "shop", *why, str(export), env=env)).code == 0

    rows = await tail(env)
    assert [(row["lane"], row["source_trust"], row["source_type"]) for row in rows] == [
        ("website", "internal", "thread"),
        ("agents", "internal", "unknown"),
        ("operator", "trusted", "file"),
    ]
    assert [row["run"] for row in rows][:2] == ["run-1", "run-2"]
    assert (rows[2]["source_id"], rows[2]["triggered_by"]) == ("one.jsonl", "the migration")
    assert [row["key"] for row in rows] == [rest.split("_")[1], mcp.split("_")[1], None]
    assert [row["lane"] for row in await tail(env, "--lane", "agents")] == ["agents"]
    assert [row["lane"] for row in await tail(env, "--limit", "1")] == ["operator"]
    shown = await ledger(env, "show", "--project", "shop", rows[0]["memory_id"], "--json")
    assert [json.loads(one)["operation"] for one in shown.out.splitlines()] == ["created"]
    table = await ledger(env, "tail", "--project", "shop")
    assert "thread:t1" in table.out
    assert rows[0]["memory_id"] in table.out


async def test_verify_holds_and_finds_one_flipped_byte_anywhere(
    lone_deployment: Deployment, embedder: Embedder, env: dict[str, str]
) -> None:
    async with running_service(lone_deployment, embedder=borrowed(embedder)) as (service, _):
        await seeded(service, lone_deployment)
    sound = await ledger(env, "verify")
    assert sound.code == 0, sound.said
    assert "3 channels, 8 chained rows, 0 faults" in sound.err
    places = {
        "after_sha256": "set_byte(after_sha256, 5, get_byte(after_sha256, 5) # 1)",
        "before_sha256": "set_byte(before_sha256, 31, get_byte(before_sha256, 31) # 128)",
        "chain_sha256": "set_byte(chain_sha256, 0, get_byte(chain_sha256, 0) # 1)",
        "source_trust": "overlay(source_trust placing 'I' from 1 for 1)",
        "written_at": "written_at + interval '1 microsecond'",
        "memory_id": "overlay(memory_id::text placing '9' from 1 for 1)::uuid",
    }
    for column, flipped in places.items():
        read = f"select project_id, id, {column} as value, channel_id from write_ledger"  # noqa: S608
        write = "update write_ledger set {} = {} where project_id = $1 and id = $2"
        row = (await lone_deployment.fetch(f"{read} where {column} is not null order by seq desc limit 1"))[0]
        names = (row["project_id"], row["id"])
        await lone_deployment.execute(write.format(column, flipped), *names)
        found = await ledger(env, "verify")
        assert found.code == 1, column
        assert f"shop channel {row['channel_id']} seq " in found.out
        await lone_deployment.execute(write.format(column, "$3"), *names, row["value"])
    assert (await ledger(env, "verify")).code == 0


async def test_a_missing_row_is_found_and_a_cut_tail_by_an_exported_head(
    lone_deployment: Deployment, embedder: Embedder, env: dict[str, str], tmp_path: Path
) -> None:
    async with running_service(lone_deployment, embedder=borrowed(embedder)) as (service, _):
        me = await seeded(service, lone_deployment)
        heads = tmp_path / "heads.jsonl"
        assert (await ledger(env, "heads", "--out", str(heads))).code == 0
        assert len(heads.read_text().splitlines()) == 3
        await service.save(me, "Likes walks.")
    assert (await ledger(env, "verify", "--heads", str(heads))).code == 0, "writes since the export are fine"

    # The last rows of a channel go, and its head is made to fit.
    (channel,) = await lone_deployment.fetch("select id from channels where user_id = 'ada'")
    await lone_deployment.execute("delete from write_ledger where channel_id = $1 and seq >= 4", channel["id"])
    assert (await ledger(env, "verify")).code == 1
    await lone_deployment.execute(
        "update channels c set seq = 3, ledger_rows = 3, ledger_sha256 = (select chain_sha256 from write_ledger l"
        " where l.channel_id = c.id and l.seq = 3) where id = $1",
        channel["id"],
    )
    assert (await ledger(env, "verify")).code == 0
    found = await ledger(env, "verify", "--heads", str(heads))
    assert found.code == 1
    assert "exported" in found.out


_PUT_IN = """
insert into write_ledger (project_id, channel_id, seq, memory_id, operation, lane_id, lane_name, source_trust,
                          request_id)
select project_id, channel_id, $1, memory_id, 'absorbed', lane_id, 'innocent', 'trusted', 'forged'
  from write_ledger where channel_id = $2 and seq = 1
"""


@pytest.mark.parametrize("seq", [0, -3, 8, 1_000_000])
async def test_a_row_that_was_put_in_outside_of_the_chain_is_found(
    lone_deployment: Deployment, embedder: Embedder, env: dict[str, str], seq: int
) -> None:
    async with running_service(lone_deployment, embedder=borrowed(embedder)) as (service, _):
        await seeded(service, lone_deployment)
    (channel,) = await lone_deployment.fetch("select id, seq from channels where user_id = 'ada'")
    assert channel["seq"] == 6
    await lone_deployment.execute(_PUT_IN, seq, channel["id"])
    found = await ledger(env, "verify")
    assert found.code == 1
    assert f"shop channel {channel['id']} seq {seq}: the row was put in" in found.out
    await lone_deployment.execute("delete from write_ledger where request_id = 'forged'")
    assert (await ledger(env, "verify")).code == 0


async def test_a_row_of_a_channel_that_was_never_written_to_is_found(
    lone_deployment: Deployment, embedder: Embedder, env: dict[str, str]
) -> None:
    async with running_service(lone_deployment, embedder=borrowed(embedder)) as (service, _):
        await seeded(service, lone_deployment)
        await service.client.get("/api/memories", headers=headers_of(await lone_deployment.key(), "cyd"))
    (ada,) = await lone_deployment.fetch("select id from channels where user_id = 'ada'")
    (cyd,) = await lone_deployment.fetch("select id, seq from channels where user_id = 'cyd'")
    assert cyd["seq"] == 0
    await lone_deployment.execute(
        _PUT_IN.replace("select project_id, channel_id", "select project_id, $3"), 1, ada["id"], cyd["id"]
    )
    found = await ledger(env, "verify")
    assert found.code == 1
    assert f"channel {cyd['id']} seq 1: the row was put in" in found.out


async def test_a_channel_that_was_emptied_is_found_by_its_exported_head(
    lone_deployment: Deployment, embedder: Embedder, env: dict[str, str], tmp_path: Path
) -> None:
    async with running_service(lone_deployment, embedder=borrowed(embedder)) as (service, _):
        await seeded(service, lone_deployment)
    heads = tmp_path / "heads.jsonl"
    assert (await ledger(env, "heads", "--out", str(heads))).code == 0
    (bob,) = await lone_deployment.fetch("select id from channels where user_id = 'bob'")
    await lone_deployment.execute("delete from write_ledger where channel_id = $1", bob["id"])
    await lone_deployment.execute(
        "update channels set seq = 0, ledger_rows = 0, ledger_sha256 = null where id = $1", bob["id"]
    )
    for whose in ((), ("--project", "shop")):
        found = await ledger(env, "verify", *whose, "--heads", str(heads))
        assert found.code == 1, whose
        assert f"channel {bob['id']}: its head was exported" in found.out


async def test_heads_of_other_projects_are_not_missed_in_one_project(
    lone_deployment: Deployment, embedder: Embedder, env: dict[str, str], tmp_path: Path
) -> None:
    async with running_service(lone_deployment, embedder=borrowed(embedder)) as (service, _):
        await seeded(service, lone_deployment)
        await service.save(headers_of(await lone_deployment.key(project="other"), "ada"), "Likes rye.")
    heads = tmp_path / "heads.jsonl"
    assert (await ledger(env, "heads", "--out", str(heads))).code == 0
    found = await ledger(env, "verify", "--project", "shop", "--heads", str(heads))
    assert found.code == 0, found.said


@pytest.mark.parametrize("line", ["{}", "no json", '{"channelId": 1, "seq": "x", "sha256": "zz"}'])
async def test_a_file_that_holds_no_heads_is_told(env: dict[str, str], tmp_path: Path, line: str) -> None:
    heads = tmp_path / "heads.jsonl"
    heads.write_text(line + "\n")
    ran = await ledger(env, "verify", "--heads", str(heads))
    assert ran.code == 1
    assert "line 1" in ran.err
