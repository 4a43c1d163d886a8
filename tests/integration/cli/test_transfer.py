"""`memlane export` and `memlane import`: a project's memories as JSON lines, whole, resumable, idempotent."""

import asyncio
import json
import os
import pty
import signal
import stat
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from integration.cli.shell import Ran, borrowed, memlane, started
from memlane.usecases.ports import Embedder
from memlane.usecases.wording import EMBED_MAX
from support.embedding_server import EmbeddingServer
from support.service import Deployment, Service, headers_of, running_service

Rows = list[dict[str, Any]]


class Shop:
    """Two users' memories, live, retired, superseded and shared, in the project `shop`."""

    def __init__(self, deployment: Deployment, folder: Path) -> None:
        self.deployment = deployment
        self.file = folder / "shop.jsonl"

    async def export(self, project: str = "shop", *more: str, out: Path | None = None) -> Ran:
        return await memlane("export", "--project", project, "--out", str(out or self.file), *more, env=self._env)

    async def load(self, project: str, *more: str) -> Ran:
        return await memlane("import", "--project", project, str(self.file), *more, env=self._env)

    @property
    def _env(self) -> dict[str, str]:
        return self.deployment.environment()

    @property
    def lines(self) -> Rows:
        """The memories; the first and the last line are the export's marks."""
        return [json.loads(line) for line in self.file.read_text().splitlines()[1:-1]]

    async def rows(self, project: str) -> Rows:
        rows = await self.deployment.fetch(
            "select m.id::text, c.user_id, m.scope, m.kind, m.content, m.source_thread_ids, m.created_at,"
            " m.retired_at is not null as retired from memories m"
            " join channels c on c.project_id = m.project_id and c.id = m.channel_id"
            " join projects p on p.id = m.project_id where p.slug = $1 order by m.id",
            project,
        )
        return [dict(row) for row in rows]


@pytest_asyncio.fixture(loop_scope="session")
async def shop(lone_deployment: Deployment, tmp_path: Path, embedder: Embedder) -> Shop:
    key = await lone_deployment.key("shop")
    ada, bob = headers_of(key, "ada"), headers_of(key, "bob & söhne 🙂")
    async with running_service(lone_deployment, embedder=borrowed(embedder)) as (service, _):
        await service.save(ada, 'Says "hello"\nand\t<|endoftext|> 🙂 مرحبا 你好', sourceThreadIds=["t-1", "t-2"])
        await service.save(ada, "The office is closed on Fridays.", scope="project")
        await service.save(bob, "Prefers tea to coffee.", "operational")
        await service.save(bob, "The office is closed on Fridays.")
        gone = await service.save(ada, "Lives in Lisbon.", "topical")
        await service.client.delete(f"/api/memories/{gone['id']}", headers=ada)
        await _supersede(service, ada, (await service.save(ada, "Lives in Porto."))["id"], "Lives in Faro.")
    return Shop(lone_deployment, tmp_path)


async def _supersede(service: Service, headers: dict[str, Any], memory_id: str, content: str) -> None:
    body = {"content": content, "kind": "topical"}
    assert (await service.client.patch(f"/api/memories/{memory_id}", headers=headers, json=body)).status_code == 200


async def test_an_export_and_import_keep_ids_dates_users_scopes_threads_and_what_is_retired(shop: Shop) -> None:
    exported = await shop.export()
    assert exported.code == 0, exported.said
    assert "7 memories" in exported.err
    assert exported.out == ""
    assert len(shop.lines) == 7
    assert stat.S_IMODE(shop.file.stat().st_mode) == 0o600
    assert {line["userId"] for line in shop.lines} == {"ada", "bob & söhne 🙂", ""}
    assert sum(line["invalidatedAt"] is not None for line in shop.lines) == 2

    # Ids are a project's own, so that one database can hold the copy beside the original.
    await shop.deployment.project("copy")
    first = await shop.load("copy")
    assert first.code == 0, first.said
    assert "7 written, 0 absorbed, 0 already there" in first.err
    assert await shop.rows("copy") == await shop.rows("shop")

    second = await shop.load("copy")
    assert "0 written, 0 absorbed, 7 already there" in second.err
    ledger = "select count(*) from write_ledger l join projects p on p.id = l.project_id where p.slug = 'copy'"
    assert (await shop.deployment.fetch(ledger))[0][0] == 9, "one line for each row, one more for each retired one"


async def test_an_imported_memory_is_recalled_and_tells_where_it_came_from(shop: Shop, embedder: Embedder) -> None:
    await shop.export()
    await shop.deployment.project("copy")
    assert (await shop.load("copy")).code == 0
    me = headers_of(await shop.deployment.key("copy"), "ada")
    async with running_service(shop.deployment, embedder=borrowed(embedder)) as (service, _):
        found = (await service.recall(me, "which town does this person live in"))["memories"][0]
        assert found["content"] == "Lives in Faro."
        told = (await service.client.get(f"/api/memories/{found['id']}/provenance", headers=me)).json()["writes"]
        assert (told[0]["lane"], told[0]["sourceType"], told[0]["keyId"]) == ("operator", "cli", None)
        # Its absorb key came along: saving the same again makes no second row.
        assert (await service.save(me, "Lives in Faro"))["absorbed"] is True


async def test_an_import_into_a_project_that_already_says_so_absorbs(shop: Shop, embedder: Embedder) -> None:
    await shop.export()
    me = headers_of(await shop.deployment.key("other"), "ada")
    async with running_service(shop.deployment, embedder=borrowed(embedder)) as (service, _):
        await service.save(me, "Lives in Faro.")
    ran = await shop.load("other")
    assert "6 written, 1 absorbed, 0 already there" in ran.err
    again = await shop.load("other")
    assert "0 written, 1 absorbed, 6 already there" in again.err


async def test_an_export_is_scoped_to_its_project_and_a_missing_one_is_told(shop: Shop) -> None:
    await shop.deployment.project("empty")
    assert "0 memories" in (await shop.export("empty")).err
    missing = await shop.export("nowhere")
    assert (missing.code, "there is no project nowhere" in missing.err) == (1, True)
    assert (await shop.load("nowhere")).code == 1


async def test_an_export_that_broke_off_is_continued_and_never_written_twice(shop: Shop) -> None:
    await shop.export()
    whole = shop.file.read_bytes()
    lines = whole.splitlines(keepends=True)
    assert len(lines) == 9
    for broken in (
        b"",
        lines[0][:5],
        lines[0],
        b"".join(lines[:3]),
        b"".join(lines[:3]) + lines[3][:20],
        b"".join(lines[:8]),
        b"".join(lines[:8]) + lines[8][:5],
        whole[:-1],
    ):
        shop.file.write_bytes(broken)
        shop.file.chmod(0o644)
        ran = await shop.export()
        assert ran.code == 0, ran.said
        assert shop.file.read_bytes() == whole
        assert stat.S_IMODE(shop.file.stat().st_mode) == 0o600, "one that others could read is closed"


async def test_a_whole_export_is_written_anew_only_when_asked_so(shop: Shop) -> None:
    await shop.export()
    whole = shop.file.read_bytes()
    await shop.deployment.execute("update memories set retired_at = now() where retired_at is null")
    again = await shop.export()
    assert (again.code, "--replace" in again.err, "whole export" in again.err) == (1, True, True)
    assert shop.file.read_bytes() == whole
    anew = await shop.export("shop", "--replace")
    assert anew.code == 0, anew.said
    assert all(line["invalidatedAt"] is not None for line in shop.lines)
    assert len(shop.lines) == 7
    assert [one.name for one in shop.file.parent.iterdir()] == [shop.file.name], "no part is left"


async def test_an_export_of_another_project_is_not_taken_for_this_ones(shop: Shop) -> None:
    await shop.export()
    whole = shop.file.read_bytes()
    await shop.deployment.project("other")
    for left in (whole, b"".join(whole.splitlines(keepends=True)[:4])):
        shop.file.write_bytes(left)
        ran = await shop.export("other")
        assert (ran.code, "another project" in ran.err, "--replace" in ran.err) == (1, True, True)
        assert shop.file.read_bytes() == left
    # A project of the same name in another database is another project.
    await shop.deployment.execute("update projects set slug = 'was-shop' where slug = 'shop'")
    await shop.deployment.execute("update projects set slug = 'shop' where slug = 'other'")
    assert "another project" in (await shop.export()).err


@pytest.mark.parametrize(
    "content",
    [
        b"my notes\nof this week\n",
        b"important notes without newline",
        b"\n",
        b"\xff\xfe\0",
        b'{"id":"01890000-0000-7000-8000-000000000001","userId":"ada"}\n',
        b'{"memlane":"export"}\n',
    ],
    ids=["notes", "no-newline", "blank", "binary", "without-marks", "half-a-mark"],
)
async def test_a_file_that_is_no_export_is_not_overwritten(shop: Shop, content: bytes) -> None:
    shop.file.write_bytes(content)
    shop.file.chmod(0o644)
    ran = await shop.export()
    assert (ran.code, "choose another file" in ran.err) == (1, True)
    assert shop.file.read_bytes() == content
    assert stat.S_IMODE(shop.file.stat().st_mode) == 0o644


async def test_what_somebody_added_to_an_export_is_not_cut(shop: Shop) -> None:
    await shop.export()
    part = b"".join(shop.file.read_bytes().splitlines(keepends=True)[:4])
    for added in (b"a note without newline", b"a note\n", b'{"id":"no id"}\n'):
        shop.file.write_bytes(part + added)
        ran = await shop.export()
        assert (ran.code, "line 5" in ran.err) == (1, True)
        assert shop.file.read_bytes() == part + added


async def test_a_place_that_cannot_be_written_is_told(shop: Shop, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for place, said in (
        (tmp_path / "nope" / "x", "No such file or directory"),
        (tmp_path / "pipe", "no regular file"),
        (Path("/dev/stdout"), "no regular file"),
        (Path("/dev/full"), "no regular file"),
    ):
        ran = await shop.export("shop", out=place)
        assert (ran.code, said in ran.err, str(place) in ran.err) == (1, True, True), (place, ran.said)
        assert ran.out == ""


async def test_a_disk_that_is_full_ends_the_export_with_its_reason_and_the_rest_is_added_later(shop: Shop) -> None:
    # A limit of the file's size stands in for the disk's: 1 KiB is less than the seven memories.
    process = await started(
        "-c", f"ulimit -f 1; exec {sys.executable} -m memlane export --project shop --out {shop.file}",
        env=shop.deployment.environment(), program=("bash",),
    )  # fmt: skip
    _, err = await process.communicate()
    assert (process.returncode, b"cannot be written (File too large)" in err) == (1, True), err
    assert b"Traceback" not in err
    assert shop.file.stat().st_size == 1024
    assert (await shop.export()).code == 0
    assert len(shop.lines) == 7


async def test_an_import_that_was_killed_in_the_middle_is_simply_run_again(shop: Shop) -> None:
    lines = [_line(number) for number in range(400)]
    shop.file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    await shop.deployment.project("big")
    process = await started("import", "--project", "big", str(shop.file), env=shop.deployment.environment())
    while len(await shop.rows("big")) < 40:
        assert process.returncode is None, "it ended before it could be killed"
        await asyncio.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    await process.communicate()
    there = len(await shop.rows("big"))
    assert 40 <= there < len(lines)
    ran = await shop.load("big")
    assert f"{len(lines) - there} written, 0 absorbed, {there} already there" in ran.err
    assert [row["id"] for row in await shop.rows("big")] == [line["id"] for line in lines]


async def test_bad_lines_are_all_found_before_anything_is_written_and_are_never_quoted(shop: Shop) -> None:
    secret = "the vault opens at midnight"
    good = _line(1)
    bad: list[Any] = [
        {**good, "kind": secret},
        {**good, "content": "x" * 8193},
        {**good, "id": secret},
        {**good, "createdAt": "2026-01-01T00:00:00"},
        {**good, "extra": secret},
        {**good, "scope": "project"},
        {**good, "userId": ""},
        [secret],
    ]
    shop.file.write_text("".join(json.dumps(line) + "\n" for line in [good, *bad]) + f'{{"content": "{secret}\n')
    await shop.deployment.project("copy")
    ran = await shop.load("copy")
    assert ran.code == 1
    assert "nothing was imported" in ran.err
    assert "line 2: kind" in ran.err
    assert "and 4 more" in ran.err
    assert secret not in ran.said
    assert await shop.rows("copy") == []


ADA, BOB = "01890000-0000-7000-8000-000000000001", "01890000-0000-7000-8000-000000000002"


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"createdAt": "0001-01-01T00:00:00+14:00"}, "createdAt"),
        ({"createdAt": "9999-12-31T23:59:59-10:00"}, "createdAt"),
        # These two would be stored as infinity.
        ({"createdAt": "0001-01-01T00:00:00Z"}, "createdAt"),
        ({"createdAt": "9999-12-31T23:59:59.999999Z"}, "createdAt"),
        ({"updatedAt": "9999-12-31T23:59:59-10:00"}, "updatedAt"),
        ({"invalidatedAt": "0001-01-01T00:00:00+14:00"}, "invalidatedAt"),
        ({"userId": "a\0da"}, "userId"),
        ({"userId": "   "}, "userId"),
        ({"userId": " ada"}, "userId"),
        ({"userId": "ada\u3000"}, "userId"),
        ({"userId": "a\nda"}, "userId"),
        ({"userId": "x" * 257}, "userId"),
        ({"content": "a\0b"}, "content"),
        ({"sourceThreadIds": ["a\0b"]}, "sourceThreadIds"),
        ({"id": ADA, "userId": "bob"}, "id"),
        ({"id": ADA, "userId": "", "scope": "project"}, "id"),
    ],
)
async def test_what_the_database_would_not_take_is_found_in_the_check_and_nothing_is_written(
    shop: Shop, changes: dict[str, Any], field: str
) -> None:
    good = _line(1) | {"id": ADA, "userId": "ada"}
    shop.file.write_text("".join(json.dumps(line) + "\n" for line in (good, good | {"id": BOB} | changes)))
    await shop.deployment.project("copy")
    ran = await shop.load("copy")
    assert (ran.code, "nothing was imported" in ran.err, f"line 2: {field}" in ran.err) == (1, True, True), ran.said
    assert await shop.rows("copy") == []


async def test_the_ends_of_what_can_be_imported_are_imported(shop: Shop) -> None:
    lines = [
        _line(1) | {"createdAt": "0001-01-01T00:00:01Z", "userId": "x" * 256},
        _line(2) | {"createdAt": "9999-12-31T23:59:59Z", "userId": "bob & söhne\u3000🙂"},
        _line(3) | {"createdAt": "9999-12-31T13:59:59-10:00"},
        _line(3) | {"createdAt": "9999-12-31T13:59:59-10:00"},
    ]
    shop.file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    await shop.deployment.project("copy")
    ran = await shop.load("copy")
    assert "3 written, 0 absorbed, 1 already there" in ran.err, ran.said
    ends = datetime(1, 1, 1, 0, 0, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
    assert [row["created_at"] for row in await shop.rows("copy")] == [ends[0], ends[1], ends[1]]


async def test_an_export_that_is_not_whole_is_imported_only_when_asked_so(shop: Shop) -> None:
    await shop.export()
    lines = shop.file.read_bytes().splitlines(keepends=True)
    await shop.deployment.project("copy")
    for number, (left, said) in enumerate(
        (
            (lines[:4], "broke off"),
            ([*lines[:3], *lines[4:]], "had 7 memories, and the file has 6"),
            (lines[1:], "first line of the export is missing"),
        )
    ):
        shop.file.write_bytes(b"".join(left))
        ran = await shop.load("copy")
        assert (ran.code, said in ran.err, "--incomplete" in ran.err) == (1, True, True), ran.said
        assert len(await shop.rows("copy")) == (0, 3, 7)[number]
        ran = await shop.load("copy", "--incomplete")
        assert ran.code == 0, ran.said
    assert await shop.rows("copy") == await shop.rows("shop")
    # A line after the end, or half of one, is a bad line in any case.
    for added, line in ((lines[1], 10), (b"\n", 10), (lines[0], 10)):
        shop.file.write_bytes(b"".join(lines) + added)
        ran = await shop.load("copy", "--incomplete")
        assert (ran.code, f"line {line}" in ran.err) == (1, True)


async def test_a_file_without_marks_is_imported_as_it_is(shop: Shop) -> None:
    await shop.export()
    shop.file.write_bytes(b"".join(shop.file.read_bytes().splitlines(keepends=True)[1:-1]))
    await shop.deployment.project("copy")
    assert "7 written" in (await shop.load("copy")).err
    assert await shop.rows("copy") == await shop.rows("shop")


async def test_a_pipe_is_not_imported_as_it_can_be_read_only_once(shop: Shop) -> None:
    await shop.deployment.project("copy")
    ran = await memlane(
        "import", "--project", "copy", "/dev/stdin",
        env=shop.deployment.environment(), stdin=json.dumps(_line(1)).encode() + b"\n",
    )  # fmt: skip
    assert (ran.code, "no regular file" in ran.err) == (1, True)


async def test_a_truncated_last_line_is_a_bad_line_by_its_number(shop: Shop) -> None:
    await shop.export()
    lines = shop.file.read_bytes().splitlines(keepends=True)
    await shop.deployment.project("copy")
    for cut, number in ((b"".join(lines[:8])[:-30], 8), (b"".join(lines)[:-5], 9)):
        shop.file.write_bytes(cut)
        ran = await shop.load("copy", "--incomplete")
        assert (ran.code, f"line {number}" in ran.err) == (1, True)
    assert await shop.rows("copy") == []


async def test_an_import_with_an_embedder_that_is_down_says_to_try_again(shop: Shop) -> None:
    await shop.export()
    await shop.deployment.project("copy")
    environment = shop.deployment.environment(MEMORY_EMBEDDINGS_URL="http://127.0.0.1:9")
    ran = await memlane("import", "--project", "copy", str(shop.file), env=environment)
    assert ran.code == 75
    assert await shop.rows("copy") == []


async def test_an_import_embeds_few_enough_at_once_that_the_longest_are_done_in_time(shop: Shop) -> None:
    # Of one user: the texts of each are embedded together.
    lines = [{**_line(number), "userId": "ada"} for number in range(40)]
    shop.file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    await shop.deployment.project("many")
    async with EmbeddingServer("tei") as provider:
        environment = shop.deployment.environment(
            MEMORY_EMBEDDINGS_URL=provider.url, MEMORY_EMBEDDING_MODEL=provider.model
        )
        ran = await memlane("import", "--project", "many", str(shop.file), env=environment)
    assert "40 written" in ran.err
    sizes = [len(call.texts) for call in provider.calls if call.texts and call.texts != ["probe"]]
    assert sizes == [EMBED_MAX, EMBED_MAX, 8]


async def test_an_import_without_settings_names_them_all(shop: Shop) -> None:
    shop.file.write_text("")
    ran = await memlane("import", "--project", "copy", str(shop.file), env={"DATABASE_URL": shop.deployment.dsn})
    assert ran.code == 78
    assert "MEMORY_EMBEDDINGS_URL" in ran.err


async def test_a_terminal_sees_a_progress_bar_and_a_pipe_does_not(shop: Shop) -> None:
    piped = await shop.export()
    assert "\x1b" not in piped.said
    assert "exporting" not in piped.said
    shop.file.unlink()
    ours, theirs = pty.openpty()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "memlane", "export", "--project", "shop", "--out", str(shop.file),
        env={**shop.deployment.environment(), "TERM": "xterm"}, stderr=theirs,
    )  # fmt: skip
    os.close(theirs)
    shown = await asyncio.to_thread(_drain, ours)
    assert await process.wait() == 0
    assert "exporting" in shown


def _drain(terminal: int) -> str:
    shown = b""
    try:
        while chunk := os.read(terminal, 4096):
            shown += chunk
    except OSError:
        pass  # the other side of a pty closes with an error
    finally:
        os.close(terminal)
    return shown.decode(errors="replace")


def _line(number: int) -> dict[str, Any]:
    return {
        "id": f"01890000-0000-7000-8000-{number:012x}",
        "userId": f"u{number % 5}",
        "scope": "user",
        "kind": "episodic",
        "content": f"Visited the museum number {number} on the island.",
        "sourceThreadIds": [],
        "createdAt": "2026-01-01T10:00:00Z",
        "updatedAt": "2026-01-01T10:00:00Z",
        "invalidatedAt": None,
    }


async def test_a_person_gets_all_that_is_kept_of_them_and_nothing_of_others(
    lone_deployment: Deployment, embedder: Embedder, tmp_path: Path
) -> None:
    key = await lone_deployment.key()
    ada, bob = headers_of(key, "ada"), headers_of(key, "bob")
    async with running_service(lone_deployment, embedder=borrowed(embedder)) as (service, _):
        first = await service.save({**ada, "X-Memlane-Source": "mail:m1"}, "Likes tea.", sourceThreadIds=["t1"])
        await service.save(ada, "likes tea")
        second = await service.save(ada, "Likes rye.")
        await service.client.delete(f"/api/memories/{second['id']}", headers=ada)
        await service.save(bob, "Likes walks.")
        await service.save(ada, "We ship on Fridays.", scope="project")
    out = tmp_path / "ada.jsonl"
    env = {"DATABASE_URL": lone_deployment.dsn}
    ran = await memlane("export", "user", "ada", "--project", "shop", "--out", str(out), env=env)
    assert ran.code == 0, ran.said
    assert "2 memories of ada" in ran.err
    lines = {line["id"]: line for line in map(json.loads, out.read_text().splitlines())}
    assert lines.keys() == {first["id"], second["id"]}
    one = lines[first["id"]]
    assert (one["content"], [old["content"] for old in one["earlierWordings"]]) == ("likes tea", ["Likes tea."])
    assert [(write["operation"], write["sourceType"]) for write in one["writes"]] == [
        ("created", "mail"),
        ("absorbed", "unknown"),
    ]
    assert lines[second["id"]]["invalidatedAt"] is not None
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    again = await memlane("export", "user", "ada", "--project", "shop", "--out", str(out), env=env)
    assert again.code == 1
    assert "there already" in again.err
    assert (await memlane("export", "--project", "shop", env=env)).code == 2
