"""`memlane keys create|list|revoke`."""

import json
import re
from typing import Any

import pytest_asyncio

from integration.cli.shell import Ran, borrowed, memlane
from memlane.usecases.ports import Embedder
from support.service import Deployment, headers_of, running_service


@pytest_asyncio.fixture(loop_scope="session")
async def env(lone_deployment: Deployment) -> dict[str, str]:
    return {"DATABASE_URL": lone_deployment.dsn}


async def create(env: dict[str, str], *more: str, project: str = "shop") -> Ran:
    return await memlane("keys", "create", "--organization", "acme", "--project", project, *more, env=env)


async def listed(env: dict[str, str], project: str = "shop") -> list[dict[str, Any]]:
    ran = await memlane("keys", "list", "--project", project, "--json", env=env)
    assert ran.code == 0, ran.said
    rows: list[dict[str, Any]] = json.loads(ran.out)
    return rows


async def test_a_created_key_is_alone_on_stdout_and_works_until_it_is_revoked(
    env: dict[str, str], lone_deployment: Deployment, embedder: Embedder
) -> None:
    made = await create(env, "--label", "nightly import")
    assert made.code == 0, made.said
    key = made.out.strip()
    assert re.fullmatch(r"cpk-shop_[0-9A-Za-z]{12}_[0-9A-Za-z]{43}", key)
    assert "not shown again" in made.err
    async with running_service(lone_deployment, embedder=borrowed(embedder)) as (service, _):
        assert (await service.client.get("/api/memories", headers=headers_of(key))).status_code == 200
    # A whole key is understood in place of its id, and is not printed again.
    revoked = await memlane("keys", "revoke", key, env=env)
    assert revoked.code == 0, revoked.said
    assert key.split("_")[1] in revoked.out
    assert key.rpartition("_")[2] not in revoked.said
    async with running_service(lone_deployment, embedder=borrowed(embedder)) as (service, _):
        assert (await service.client.get("/api/memories", headers=headers_of(key))).status_code == 401
    (row,) = await listed(env)
    assert row["revoked_at"] is not None
    again = await memlane("keys", "revoke", row["short"], env=env)
    assert again.out == revoked.out, "revoking twice keeps the first time"


async def test_what_is_stored_and_listed_of_a_key_never_holds_its_secret(
    env: dict[str, str], lone_deployment: Deployment
) -> None:
    made = json.loads((await create(env, "--json", "--label", "ci")).out)
    assert made.keys() == {"key", "id", "project"}
    secret = made["key"].rpartition("_")[2]
    (row,) = await listed(env)
    assert (row["short"], row["label"]) == (made["id"], "ci")
    table = await memlane("keys", "list", "--project", "shop", env=env)
    assert made["id"] in table.out
    assert "active" in table.out
    stored = await lone_deployment.fetch("select k::text as row from runtime_keys k")
    for told in (json.dumps(row), table.said, stored[0]["row"]):
        assert secret not in told


async def test_a_key_carries_the_grant_lane_and_expiry_that_were_asked_for(env: dict[str, str]) -> None:
    options = ("--user-access", "read", "--project-access", "none", "--expires-in-days", "7")
    assert (await create(env, *options)).code == 0
    (row,) = await listed(env)
    assert (row["user_access"], row["project_access"], row["lane"]) == ("read", "none", "default")
    assert row["expires_at"] > row["created_at"]


async def test_each_wrong_use_says_what_to_do_and_makes_nothing(env: dict[str, str]) -> None:
    for arguments, code, said in (
        (("create", "--project", "shop"), 1, "--organization"),
        (("create", "--organization", "acme", "--project", "Not A Slug"), 2, "--project"),
        (("create", "--organization", "Not A Slug", "--project", "shop"), 2, "--organization"),
        (("list", "--project", "nowhere"), 1, "there is no project nowhere"),
        (("revoke", "nosuchkey"), 1, "memlane keys list"),
    ):
        ran = await memlane("keys", *arguments, env=env)
        assert (ran.code, said in ran.err) == (code, True), (arguments, ran.said)
        assert ran.out == ""


async def test_a_whole_key_revokes_only_the_key_that_it_is(env: dict[str, str]) -> None:
    key = (await create(env)).out.strip()
    project, short, secret = key.removeprefix("cpk-").split("_")
    assert (await create(env, project="other")).code == 0
    for another in (f"cpk-other_{short}_{secret}", f"cpk-{project}_{short}_{'a' * len(secret)}"):
        ran = await memlane("keys", "revoke", another, env=env)
        assert (ran.code, f"memlane keys revoke {short}" in ran.err, ran.out) == (1, True, "")
        assert another not in ran.said
    unknown = await memlane("keys", "revoke", f"cpk-{project}_{'b' * len(short)}_{secret}", env=env)
    assert (unknown.code, "there is no key of that id" in unknown.err) == (1, True)
    assert [row["revoked_at"] for row in await listed(env)] == [None]
    assert (await memlane("keys", "revoke", key, env=env)).code == 0


async def test_a_text_that_cannot_be_stored_or_shown_is_refused_by_its_options_name(env: dict[str, str]) -> None:
    assert (await create(env, "--label", "grüße 🙂 👩‍👩‍👧")).code == 0
    for arguments, name, why in (
        (("revoke", "\udcff"), "KEY_ID", "UTF-8"),
        (("list", "--project", "a\udcff"), "--project", "UTF-8"),
        (("create", "--project", "shop", "--label", "\udcff\udcfe"), "--label", "UTF-8"),
        (("create", "--project", "shop", "--label", "a\x1b[31mb"), "--label", "control character"),
        (("create", "--project", "shop", "--label", "two\nlines"), "--label", "control character"),
        (("create", "--project", "shop", "--lane", "a\tb"), "--lane", "control character"),
        (("create", "--project", "shop", "--label", "x" * 201), "--label", "200"),
    ):
        ran = await memlane("keys", *arguments, env=env)
        assert (ran.code, name in ran.err, why in ran.err) == (2, True, True), (arguments, ran.said)
        assert ran.out == ""
    assert (await create(env, "--label", "x" * 200)).code == 0
    assert [row["label"] for row in await listed(env)] == ["grüße 🙂 👩‍👩‍👧", "x" * 200]


async def test_a_database_url_that_is_wrong_exits_78_and_is_not_quoted(env: dict[str, str]) -> None:
    good = env["DATABASE_URL"]
    for wrong in (
        "postgresql://u:hunter2@127.0.0.1:9/d?target_session_attrs=bogus",
        "postgresql://u:hunter2@127.0.0.1:9/d\udcff",
        good.replace("/t", "/hunter2"),
        good.replace("memlane@/", "hunter2@/"),
    ):
        ran = await memlane("keys", "list", "--project", "shop", env={"DATABASE_URL": wrong})
        assert (ran.code, "DATABASE_URL" in ran.err, "hunter2" in ran.said) == (78, True, False), (wrong, ran.said)


async def test_a_lane_that_does_not_exist_and_a_project_of_another_organization_are_refused(
    env: dict[str, str],
) -> None:
    assert (await create(env)).code == 0
    lane = await create(env, "--lane", "nowhere")
    assert (lane.code, "no lane named nowhere" in lane.err) == (1, True)
    other = await memlane("keys", "create", "--organization", "globex", "--project", "shop", env=env)
    assert (other.code, "belongs to another organization" in other.err) == (1, True)
    assert len(await listed(env)) == 1


async def test_without_a_database_the_reason_is_told_and_the_exit_code_says_whether_to_try_again() -> None:
    missing = await memlane("keys", "list", "--project", "shop")
    assert (missing.code, "DATABASE_URL" in missing.err) == (78, True)
    down = await memlane(
        "keys", "list", "--project", "shop", env={"DATABASE_URL": "postgresql://u:hunter2@127.0.0.1:9/d"}
    )
    assert (down.code, "hunter2" in down.said) == (75, False)
    wrong = await memlane("keys", "list", "--project", "shop", env={"DATABASE_URL": "mysql://u:hunter2@h/d"})
    assert (wrong.code, "hunter2" in wrong.said, "DATABASE_URL" in wrong.err) == (78, False, True)


async def test_a_database_without_the_schema_says_to_migrate(empty_database: str) -> None:
    ran = await memlane("keys", "list", "--project", "shop", env={"DATABASE_URL": empty_database})
    assert ran.code != 0
    assert "memlane migrate" in ran.err
