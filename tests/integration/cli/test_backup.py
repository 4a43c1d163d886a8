"""`memlane backup` and `memlane restore`: the whole database of one moment, fresh epochs, and proven recall."""

import json
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from integration.cli.shell import Ran, borrowed, memlane
from memlane.cli.backup import connection_words
from memlane.embedded.postgres import EmbeddedPostgres
from memlane.storage.backups import prove_recall
from memlane.storage.migrate import migrate, migrations
from memlane.usecases.ports import Embedder
from support.postgres import drop_database, fresh_database
from support.service import Deployment, Service, headers_of, running_service
from support.stream_client import opened

TOPICS = ("tea", "trains", "rain", "chess", "bread", "maps", "violins", "wool", "rivers", "lamps")


@pytest_asyncio.fixture(loop_scope="session")
async def target(postgres: EmbeddedPostgres) -> AsyncIterator[str]:
    """An empty database on the same server."""
    dsn = await fresh_database(postgres)
    yield dsn
    await drop_database(postgres, dsn)


async def filled(service: Service) -> dict[str, Any]:
    """Memories of two users and of the project, some retired and absorbed; gives the headers of one user."""
    key = await service.deployment.key()
    ada, bob = headers_of(key, "ada"), headers_of(key, "bob")
    for topic in TOPICS:
        await service.save(ada, f"Ada likes {topic}.")
        await service.save(bob, f"Bob has a book on {topic}.")
        await service.save(ada, f"The team meets about {topic}.", scope="project")
    await service.save(ada, "ADA LIKES TEA.")
    gone = await service.save(bob, "Bob lives in Porto.")
    await service.client.delete(f"/api/memories/{gone['id']}", headers=bob)
    return ada


async def back_up(deployment: Deployment, file: Path) -> Ran:
    return await memlane("backup", "--out", str(file), env={"DATABASE_URL": deployment.dsn})


async def restored(target: str, file: Path, *words: str) -> Ran:
    return await memlane("restore", str(file), *words, env={"DATABASE_URL": target})


async def test_a_restored_database_holds_the_moment_of_the_backup_and_proves_its_recall(
    deployment: Deployment, target: str, tmp_path: Path, embedder: Embedder
) -> None:
    file = tmp_path / "memlane.dump"
    async with running_service(deployment, embedder=borrowed(embedder)) as (service, _):
        ada = await filled(service)
        before = await service.list(ada, "?includeInvalidated=true")
        ran = await back_up(deployment, file)
        assert ran.code == 0, ran.said
        await service.save(ada, "Ada came back from the moon.")

    ran = await restored(target, file)
    assert ran.code == 0, ran.said
    assert "30 live_memories".replace("_", " ") in ran.out
    assert "Recall gave 100.00% of what an exact scan gives, for 30 memories of 3 channels." in ran.out

    again = Deployment(target, deployment.signer)
    async with running_service(again, embedder=borrowed(embedder)) as (service, _):
        after = await service.list(ada, "?includeInvalidated=true")
        assert after["memories"] == before["memories"]
        for scope in ("user", "project"):
            assert after["positions"][scope]["seq"] == before["positions"][scope]["seq"]
            assert after["positions"][scope]["epoch"] != before["positions"][scope]["epoch"]
        best = await service.recall(ada, "what does this user like to drink")
        assert best["memories"][0]["content"] == "ADA LIKES TEA."
        saved = await service.save(ada, "Ada likes snow.")
        assert saved["seq"] == before["positions"]["user"]["seq"] + 1
        await _is_told_to_read_anew(service, ada, before["positions"]["user"])


async def _is_told_to_read_anew(service: Service, headers: dict[str, Any], position: dict[str, Any]) -> None:
    """A client that was connected before the restore joins with its old position."""
    tickets = (await service.client.post("/api/memories/subscribe", headers=headers, json={})).json()
    async with opened(service.url, tickets["joinToken"]) as client:
        joined = await client.joined(f"user_meta:memories:{tickets['joinCode']}", {"last": position})
        assert joined["recovered"] is False


async def test_a_backup_is_its_owners_alone_and_no_other_is_overwritten(
    lone_deployment: Deployment, tmp_path: Path
) -> None:
    file = tmp_path / "memlane.dump"
    assert (await back_up(lone_deployment, file)).code == 0
    for path in (file, tmp_path / "memlane.dump.json"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    ran = await back_up(lone_deployment, file)
    assert ran.code == 1
    assert "choose another --out" in ran.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["memlane.dump", "memlane.dump.json"]


async def test_a_restore_refuses_a_database_that_is_not_empty(lone_deployment: Deployment, tmp_path: Path) -> None:
    file = tmp_path / "memlane.dump"
    await back_up(lone_deployment, file)
    ran = await restored(lone_deployment.dsn, file)
    assert ran.code == 1
    assert "not empty" in ran.err


async def test_a_changed_backup_is_refused_before_anything_is_written(
    lone_deployment: Deployment, empty_database: str, tmp_path: Path
) -> None:
    file = tmp_path / "memlane.dump"
    await back_up(lone_deployment, file)
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    ran = await restored(empty_database, file)
    assert ran.code == 1
    assert "checksum" in ran.err
    assert (await Deployment(empty_database).fetch("select to_regclass('memories') as found"))[0]["found"] is None


async def test_a_broken_backup_without_a_checksum_leaves_the_database_empty(
    lone_deployment: Deployment, empty_database: str, tmp_path: Path
) -> None:
    file = tmp_path / "memlane.dump"
    await back_up(lone_deployment, file)
    (tmp_path / "memlane.dump.json").unlink()
    file.write_bytes(file.read_bytes()[:-2000])
    ran = await restored(empty_database, file)
    assert ran.code == 78
    assert "pg_restore: error" in ran.err
    assert (await Deployment(empty_database).fetch("select to_regclass('memories') as found"))[0]["found"] is None


async def test_a_backup_that_lacks_rows_is_found(
    lone_deployment: Deployment, empty_database: str, tmp_path: Path
) -> None:
    file = tmp_path / "memlane.dump"
    await back_up(lone_deployment, file)
    beside = tmp_path / "memlane.dump.json"
    facts = json.loads(beside.read_text())
    facts["counts"]["ledger_rows"] += 1
    beside.write_text(json.dumps(facts))
    ran = await restored(empty_database, file)
    assert ran.code == 1
    assert "is not whole" in ran.err


async def test_a_recall_that_misses_rows_fails_the_proof(lone_deployment: Deployment, embedder: Embedder) -> None:
    """An index that lacks half of the rows, as a broken one would: recall reads it, the scan does not."""
    ready = "update pg_index set indisready = $1 where indexrelid = 'memories_live'::regclass"
    await lone_deployment.execute("drop index memories_changes, memories_one_live_twin")
    key = await lone_deployment.key()
    for indexed, words in ((True, "likes"), (False, "dislikes")):
        await lone_deployment.execute(ready, indexed)
        async with running_service(lone_deployment, embedder=borrowed(embedder)) as (service, _):
            for topic in TOPICS:
                await service.save(headers_of(key, "ada"), f"Ada {words} {topic}.")
    await lone_deployment.execute(ready, True)
    await lone_deployment.execute(
        f"alter database {lone_deployment.dsn.partition('@/')[2].partition('?')[0]} set enable_seqscan = off"
    )
    proof = await prove_recall(lone_deployment.dsn, 200)
    assert (proof.asked, proof.channels) == (20, 1)
    assert 0.2 < proof.recall < 0.8
    assert not proof.good
    await lone_deployment.execute("reindex index memories_live")
    assert (await prove_recall(lone_deployment.dsn, 200)).recall == 1.0


async def test_a_backup_of_an_older_version_is_brought_up_to_date(
    lone_postgres: EmbeddedPostgres, empty_database: str, tmp_path: Path
) -> None:
    old = await fresh_database(lone_postgres)
    await migrate(old, up_to=len(migrations()) - 1)
    file = tmp_path / "memlane.dump"
    assert (await back_up(Deployment(old), file)).code == 0
    assert (await restored(empty_database, file)).code == 0
    applied = await Deployment(empty_database).fetch("select max(number) as newest from schema_migrations")
    assert applied[0]["newest"] == len(migrations())
    await drop_database(lone_postgres, old)


async def test_a_backup_of_a_newer_version_is_refused(
    lone_deployment: Deployment, empty_database: str, tmp_path: Path
) -> None:
    file = tmp_path / "memlane.dump"
    await back_up(lone_deployment, file)
    beside = tmp_path / "memlane.dump.json"
    beside.write_text(json.dumps(json.loads(beside.read_text()) | {"migrations": 9999, "memlane": "9.9.9"}))
    ran = await restored(empty_database, file)
    assert ran.code == 1
    assert "9.9.9" in ran.err


@pytest.mark.parametrize(
    ("url", "place", "secrets"),
    [
        ("postgresql://u:p%40ss@host:5432/db?sslmode=require", "postgresql://u@host:5432/db?sslmode=require", "p@ss"),
        ("postgresql://host/db?user=u&password=secret", "postgresql://host/db?user=u", "secret"),
        ("postgresql://u@/db?host=/run/pg&port=5432", "postgresql://u@/db?host=/run/pg&port=5432", None),
    ],
)
def test_a_password_is_in_no_argument(url: str, place: str, secrets: str | None) -> None:
    assert connection_words(url) == (place, {} if secrets is None else {"PGPASSWORD": secrets})


async def test_an_unreachable_database_is_told_without_its_password(tmp_path: Path) -> None:
    url = "postgresql://memlane:hidden-password@127.0.0.1:1/memlane"
    ran = await memlane("backup", "--out", str(tmp_path / "x"), env={"DATABASE_URL": url})
    assert ran.code == 75
    assert "does not answer" in ran.err
    assert "hidden-password" not in ran.said
