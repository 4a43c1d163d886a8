"""`memlane doctor` checks what `memlane api` needs, and more."""

import json
from datetime import timedelta
from typing import Any

import asyncpg
from redis.asyncio import Redis

from integration.cli.shell import Ran, memlane
from memlane.usecases.ports import Embedder
from support.embedding_server import EmbeddingServer, Fault
from support.redis import redis_server
from support.service import JOIN_SECRET, Deployment, free_port


def found(ran: Ran) -> dict[str, dict[str, str]]:
    """The findings by check."""
    report: dict[str, Any] = json.loads(ran.out)
    return {finding["check"]: finding for finding in report["findings"]}


def states(ran: Ran) -> dict[str, str]:
    return {name: finding["state"] for name, finding in found(ran).items()}


async def test_a_sound_deployment_passes_every_check(lone_deployment: Deployment) -> None:
    ran = await memlane("doctor", "--json", env=lone_deployment.environment(MEMLANE_LICENSE=_long(lone_deployment)))
    assert ran.code == 0, ran.said
    assert json.loads(ran.out)["ok"] is True
    assert states(ran) == dict.fromkeys(("settings", "license", "database", "pgvector", "migrations", "embedder"), "ok")
    assert found(ran)["database"]["detail"].startswith("Postgres ")
    assert "384" in found(ran)["embedder"]["detail"]


async def test_the_table_shows_the_same_and_no_secret(lone_deployment: Deployment) -> None:
    environment = lone_deployment.environment()
    ran = await memlane("doctor", env=environment)
    assert ran.code == 0, ran.said
    for word in ("check", "state", "detail", "database", "pgvector", "migrations", "embedder", "license"):
        assert word in ran.out
    for secret in (JOIN_SECRET, environment["MEMLANE_LICENSE"]):
        assert secret not in ran.said


async def test_wrong_settings_are_all_told_and_exit_78() -> None:
    ran = await memlane("doctor", "--json", env={"DATABASE_URL": "mysql://u:hunter2@h/d"})
    assert ran.code == 78
    assert json.loads(ran.out)["ok"] is False
    assert set(states(ran).values()) == {"failed"}
    assert {"DATABASE_URL", "MEMLANE_JOIN_SECRETS", "MEMORY_EMBEDDINGS_URL"} <= states(ran).keys()
    assert "hunter2" not in ran.said


async def test_only_the_settings_are_checked_when_asked_so(lone_deployment: Deployment) -> None:
    environment = lone_deployment.environment(
        DATABASE_URL="postgresql://nobody@127.0.0.1:9/none", MEMORY_EMBEDDINGS_URL="http://127.0.0.1:9"
    )
    ran = await memlane("doctor", "--config-only", "--json", env=environment)
    assert ran.code == 0, ran.said
    assert states(ran).keys() == {"settings", "license"}


async def test_a_database_that_does_not_answer_fails_that_check_and_exits_1(lone_deployment: Deployment) -> None:
    environment = lone_deployment.environment(DATABASE_URL="postgresql://u:hunter2@127.0.0.1:9/none")
    ran = await memlane("doctor", "--json", env=environment)
    assert ran.code == 1
    assert states(ran)["database"] == "failed"
    assert "DATABASE_URL" in found(ran)["database"]["detail"]
    assert states(ran)["embedder"] == "ok", "one failure hides no other check"
    assert "hunter2" not in ran.said


async def test_a_database_without_migrations_says_what_to_run(lone_deployment: Deployment, empty_database: str) -> None:
    ran = await memlane("doctor", "--json", env=lone_deployment.environment(DATABASE_URL=empty_database))
    assert ran.code == 1
    assert states(ran) | {"pgvector": "failed", "migrations": "failed"} == states(ran)
    assert "memlane migrate" in found(ran)["pgvector"]["detail"]
    assert "memlane migrate" in found(ran)["migrations"]["detail"]


async def test_a_database_that_is_newer_than_the_program_fails(lone_deployment: Deployment) -> None:
    await lone_deployment.execute("insert into schema_migrations values (999, 'later.sql', 'x')")
    ran = await memlane("doctor", "--json", env=lone_deployment.environment())
    assert ran.code == 1
    assert "newer version" in found(ran)["migrations"]["detail"]


async def test_a_role_that_may_not_read_the_migrations_fails_that_check(lone_deployment: Deployment) -> None:
    connection = await asyncpg.connect(lone_deployment.dsn, timeout=5)
    await connection.execute("create role doctor_without_rights login")
    await connection.close()
    dsn = lone_deployment.dsn.replace("memlane@/", "doctor_without_rights@/")
    ran = await memlane("doctor", "--json", env=lone_deployment.environment(DATABASE_URL=dsn))
    assert ran.code == 1
    assert states(ran)["migrations"] == "failed"


async def test_an_embedder_that_does_not_answer_or_has_another_dimension_fails_that_check(
    lone_deployment: Deployment, embedder: Embedder
) -> None:
    await embedder.probe()
    with EmbeddingServer("tei") as provider:
        provider.fault = Fault.DOWN
        ran = await memlane("doctor", "--json", env=_asking(lone_deployment, provider))
        assert ran.code == 1
        assert states(ran)["embedder"] == "failed"

        provider.fault = Fault.NONE
        environment = _asking(lone_deployment, provider) | {"MEMORY_EMBEDDING_DIMENSIONS": "768"}
        ran = await memlane("doctor", "--json", env=environment)
        assert ran.code == 1
        detail = found(ran)["embedder"]["detail"]
        assert "384" in detail
        assert "768" in detail


async def test_redis_is_checked_where_one_is_set_by_what_a_service_does_with_it(lone_deployment: Deployment) -> None:
    async def looked(url: str) -> tuple[int, str, str]:
        ran = await memlane("doctor", "--json", env=lone_deployment.environment(REDIS_URL=url))
        assert "hunter2" not in ran.said
        return ran.code, states(ran)["redis"], found(ran)["redis"]["detail"]

    async with redis_server() as redis:
        assert (await looked(redis.url))[:2] == (0, "ok")
        client = Redis.from_url(redis.url)
        # A user who may do all but reach the hints' channel is of no use.
        await client.acl_setuser("doctor", enabled=True, passwords=["+hunter2"], keys=["*"], categories=["+@all"])
        await client.aclose()
        code, state, detail = await looked(redis.url.replace("//", "//doctor:hunter2@"))
        assert (code, state, "NoPermissionError" in detail) == (1, "failed", True), detail
        code, state, detail = await looked(redis.url.replace("//", "//doctor:hunter2-not@"))
        assert (code, state, "AuthenticationError" in detail) == (1, "failed", True), detail
        redis.freeze()
        assert (await looked(redis.url))[:2] == (1, "failed")
    code, state, detail = await looked(f"redis://u:hunter2@127.0.0.1:{free_port()}/0")
    assert (code, state, "REDIS_URL" in detail) == (1, "failed", True), detail


def _long(deployment: Deployment) -> str:
    return deployment.license(ends_in=timedelta(days=300))


def _asking(deployment: Deployment, provider: EmbeddingServer) -> dict[str, str]:
    return deployment.environment(
        MEMORY_EMBEDDINGS_URL=provider.url,
        MEMORY_EMBEDDING_MODEL=provider.model,
        MEMORY_EMBEDDING_DIMENSIONS=str(provider.dimensions),
    )
