"""Absorb, supersede, retire and restore: what each answers, keeps and writes into the ledger."""

import asyncio
from hashlib import sha256
from typing import Any

import pytest

from integration.rest.house import NO_SUCH_ID, Shop, error_of
from memlane.domain.lane import LaneMode

MEMORY = ("id", "kind", "scope", "content", "sourceThreadIds", "invalidatedAt", "createdAt", "updatedAt", "recalledAt")


def digest(salt: bytes, text: str) -> bytes:
    return sha256(salt + text.encode()).digest()


async def ledger(shop: Shop, columns: str = "operation") -> list[Any]:
    """The project's ledger, oldest row first."""
    rows = await shop.rows(f"select {columns} from write_ledger where project_id = $1 order by id")  # noqa: S608
    return [row[0] if len(row) == 1 else tuple(row) for row in rows]


async def live(shop: Shop) -> list[str]:
    rows = await shop.rows(
        "select content from memories where project_id = $1 and retired_at is null order by created_at, id"
    )
    return [row["content"] for row in rows]


# --- Save


async def test_a_save_answers_201_with_what_it_did(shop: Shop, me: dict[str, Any]) -> None:
    saved = await shop.save(me, "Likes tea.")
    assert saved.keys() == {*MEMORY, "absorbed", "similar", "epoch", "seq"}
    assert (saved["absorbed"], saved["similar"], saved["seq"], saved["scope"]) == (False, [], 1, "user")


async def test_a_close_neighbour_is_told_and_not_absorbed(shop: Shop, me: dict[str, Any]) -> None:
    first = await shop.save(me, "The user prefers tea to coffee.")
    second = await shop.save(me, "The user prefers coffee to tea.")
    assert second["absorbed"] is False
    ((near),) = second["similar"]
    assert near["id"] == first["id"]
    assert 0.9 < near["score"] <= 1


async def test_at_most_three_neighbours_are_told_nearest_first(shop: Shop, me: dict[str, Any]) -> None:
    for hour in range(5):
        await shop.save(me, f"The warehouse opens at {hour} o'clock.")
    scores = [near["score"] for near in (await shop.save(me, "The warehouse opens at 9 o'clock."))["similar"]]
    assert len(scores) == 3
    assert scores == sorted(scores, reverse=True)


async def test_neighbours_are_live_and_of_the_same_scope_and_kind(shop: Shop, me: dict[str, Any]) -> None:
    gone = await shop.save(me, "The user prefers tea to coffee.")
    await shop.retire(me, gone["id"])
    await shop.save(me, "The user prefers tea to coffee.", "operational")
    await shop.save(me, "The user prefers tea to coffee.", scope="project")
    assert (await shop.save(me, "The user prefers coffee to tea."))["similar"] == []


# --- Absorb


async def test_the_same_statement_is_absorbed(shop: Shop, me: dict[str, Any]) -> None:
    first = await shop.save(me, "Likes green tea.", sourceThreadIds=["a", "b"])
    again = await shop.save(me, "likes  green tea", sourceThreadIds=["c", "a"])
    assert again.keys() == {*MEMORY, "absorbed", "absorbedBy", "epoch", "seq"}
    assert (again["id"], again["absorbed"], again["absorbedBy"]) == (first["id"], True, "form")
    assert (again["content"], again["createdAt"]) == ("likes  green tea", first["createdAt"])
    assert again["updatedAt"] > first["updatedAt"]
    assert again["seq"] == first["seq"] + 1


async def test_absorbing_unites_the_source_threads(shop: Shop, me: dict[str, Any]) -> None:
    await shop.save(me, "Likes tea.", sourceThreadIds=["a", "b"])
    again = await shop.save(me, "Likes tea.", sourceThreadIds=["c", "a"])
    assert again["sourceThreadIds"] == ["b", "c", "a"]


async def test_of_more_than_100_united_threads_the_newest_stay(shop: Shop, me: dict[str, Any]) -> None:
    await shop.save(me, "Likes tea.", sourceThreadIds=[f"old-{number}" for number in range(100)])
    again = await shop.save(me, "Likes tea.", sourceThreadIds=["new-1", "new-2"])
    assert again["sourceThreadIds"] == [*(f"old-{number}" for number in range(2, 100)), "new-1", "new-2"]


async def test_the_earlier_wording_stays_as_a_revision(shop: Shop, me: dict[str, Any]) -> None:
    first = await shop.save(me, "Likes tea.", sourceThreadIds=["a"])
    await shop.save(me, "likes tea", sourceThreadIds=["b"])
    rows = await shop.rows(
        "select memory_id::text, seq, content, source_thread_ids from memory_revisions where project_id = $1"
    )
    assert [tuple(row) for row in rows] == [(first["id"], first["seq"], "Likes tea.", ["a"])]


async def test_the_same_wording_again_makes_no_revision(shop: Shop, me: dict[str, Any]) -> None:
    for _ in range(3):
        await shop.save(me, "Likes tea.")
    assert await shop.rows("select 1 from memory_revisions where project_id = $1") == []


@pytest.mark.parametrize(
    "change",
    [{"kind": "operational"}, {"scope": "project"}],
    ids=["another kind", "another scope"],
)
async def test_another_kind_or_scope_is_never_absorbed(shop: Shop, me: dict[str, Any], change: dict[str, str]) -> None:
    await shop.save(me, "Tea is good.")
    assert (await shop.save(me, "Tea is good.", **change))["absorbed"] is False


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Likes tea.", "Does not like tea."),
        ("Has 2 cats.", "Has 3 cats."),
        ("Born on 3 May.", "Born on 4 May."),
        ("Lives in Bern.", "Lives in Basel."),
        ("Runs 5 km.", "Runs 5 miles."),
        ("Uses C++.", "Uses C#."),
        ("It was -5 degrees.", "It was 5 degrees."),
        ("Version 1.5 is out.", "Version 15 is out."),
        ("👍", "👎"),
        ("!!!", "!!!"),
    ],
)
async def test_a_statement_that_says_something_else_is_never_absorbed(
    shop: Shop, me: dict[str, Any], one: str, other: str
) -> None:
    await shop.save(me, one)
    assert (await shop.save(me, other))["absorbed"] is False


async def test_a_retired_row_absorbs_nothing(shop: Shop, me: dict[str, Any]) -> None:
    gone = await shop.save(me, "Likes tea.")
    await shop.retire(me, gone["id"])
    assert (await shop.save(me, "Likes tea."))["absorbed"] is False


async def test_another_users_shared_statement_absorbs_what_is_not_about_its_writer(
    shop: Shop, me: dict[str, Any]
) -> None:
    colleague = {**me, "X-Cpki-User-Id": "u2"}
    first = await shop.save(me, "The staging server is called heron.", scope="project")
    again = await shop.save(colleague, "The staging server is called heron.", scope="project")
    mine = await shop.save(me, "I like tea.", scope="project")
    theirs = await shop.save(colleague, "I like tea.", scope="project")
    assert again["id"] == first["id"]
    assert theirs["id"] != mine["id"]


async def test_identical_saves_at_once_end_as_one_live_row(shop: Shop, me: dict[str, Any]) -> None:
    saved = await asyncio.gather(*(shop.save(me, "Likes tea.") for _ in range(20)))
    assert sorted(one["absorbed"] for one in saved) == [False] + [True] * 19
    assert sorted(one["seq"] for one in saved) == list(range(1, 21))
    assert await live(shop) == ["Likes tea."]


# --- Supersede


async def test_superseding_answers_the_new_memory_and_retires_the_old_one(shop: Shop, me: dict[str, Any]) -> None:
    old = await shop.save(me, "Likes tea.", sourceThreadIds=["a"])
    answer = await shop.supersede(me, old["id"], "Likes coffee.", sourceThreadIds=["b"])
    assert answer.status_code == 200
    new = answer.json()
    assert new.keys() == {*MEMORY, "absorbed", "similar", "retiredId", "epoch", "seq"}
    assert (new["retiredId"], new["absorbed"], new["sourceThreadIds"]) == (old["id"], False, ["b"])
    assert new["id"] != old["id"]
    retired = (await shop.read(me, old["id"])).json()
    assert retired["invalidatedAt"] is not None
    assert await shop.listed(me) == ["Likes coffee."]


async def test_the_old_row_names_its_successor(shop: Shop, me: dict[str, Any]) -> None:
    old = await shop.save(me, "Likes tea.")
    new = (await shop.supersede(me, old["id"], "Likes coffee.")).json()
    rows = await shop.rows("select superseded_by::text from memories where project_id = $1 order by created_at")
    assert [row[0] for row in rows] == [new["id"], None]


async def test_an_omitted_list_of_threads_becomes_empty(shop: Shop, me: dict[str, Any]) -> None:
    old = await shop.save(me, "Likes tea.", sourceThreadIds=["a"])
    assert (await shop.supersede(me, old["id"], "Likes coffee.")).json()["sourceThreadIds"] == []


async def test_an_omitted_scope_means_user(shop: Shop, me: dict[str, Any]) -> None:
    shared = await shop.save(me, "The team meets on Mondays.", scope="project")
    answer = await shop.supersede(me, shared["id"], "The team meets on Fridays.")
    assert error_of(answer) == (404, "MEMORY_NOT_FOUND")
    answer = await shop.supersede(me, shared["id"], "The team meets on Fridays.", scope="project")
    assert (answer.status_code, answer.json()["scope"]) == (200, "project")


async def test_another_scope_than_the_targets_is_404(shop: Shop, me: dict[str, Any]) -> None:
    mine = await shop.save(me, "Likes tea.")
    assert error_of(await shop.supersede(me, mine["id"], "x", scope="project")) == (404, "MEMORY_NOT_FOUND")


async def test_another_kind_than_the_targets_is_409_and_changes_nothing(shop: Shop, me: dict[str, Any]) -> None:
    old = await shop.save(me, "Likes tea.")
    answer = await shop.supersede(me, old["id"], "Likes coffee.", kind="episodic")
    assert error_of(answer) == (409, "MEMORY_KIND_MISMATCH")
    assert await live(shop) == ["Likes tea."]


async def test_a_retired_target_is_404_whatever_the_kind(shop: Shop, me: dict[str, Any]) -> None:
    old = await shop.save(me, "Likes tea.")
    await shop.retire(me, old["id"])
    for kind in ("topical", "episodic"):
        answer = await shop.supersede(me, old["id"], "Likes coffee.", kind=kind)
        assert error_of(answer) == (404, "MEMORY_NOT_FOUND")


async def test_superseding_twice_is_404(shop: Shop, me: dict[str, Any]) -> None:
    old = await shop.save(me, "Likes tea.")
    await shop.supersede(me, old["id"], "Likes coffee.")
    assert error_of(await shop.supersede(me, old["id"], "Likes cocoa.")) == (404, "MEMORY_NOT_FOUND")
    assert await live(shop) == ["Likes coffee."]


async def test_of_two_supersedes_at_once_one_is_404(shop: Shop, me: dict[str, Any]) -> None:
    old = await shop.save(me, "Likes tea.")
    answers = await asyncio.gather(*(shop.supersede(me, old["id"], f"Likes {drink}.") for drink in ("cocoa", "mate")))
    assert sorted(answer.status_code for answer in answers) == [200, 404]
    assert len(await live(shop)) == 1


async def test_a_third_row_that_says_the_same_absorbs_the_new_wording(shop: Shop, me: dict[str, Any]) -> None:
    old = await shop.save(me, "Likes tea.", sourceThreadIds=["a"])
    third = await shop.save(me, "Likes coffee.", sourceThreadIds=["b"])
    new = (await shop.supersede(me, old["id"], "likes coffee", sourceThreadIds=["c"])).json()
    assert (new["id"], new["retiredId"], new["absorbed"], new["absorbedBy"]) == (third["id"], old["id"], True, "form")
    assert (new["content"], new["sourceThreadIds"]) == ("likes coffee", ["b", "c"])
    assert await live(shop) == ["likes coffee"]


async def test_the_target_itself_is_no_candidate_for_absorbing(shop: Shop, me: dict[str, Any]) -> None:
    old = await shop.save(me, "Likes tea.")
    new = (await shop.supersede(me, old["id"], "likes tea")).json()
    assert (new["absorbed"], new["id"] == old["id"], new["similar"]) == (False, False, [])
    assert await live(shop) == ["likes tea"]


# --- Retire


async def test_retiring_answers_204_without_a_body_however_often(shop: Shop, me: dict[str, Any]) -> None:
    saved = await shop.save(me, "Likes tea.")
    answers = [await shop.retire(me, saved["id"]) for _ in range(3)]
    assert [(answer.status_code, answer.content) for answer in answers] == [(204, b"")] * 3


async def test_a_retired_row_stays_readable(shop: Shop, me: dict[str, Any]) -> None:
    saved = await shop.save(me, "Likes tea.")
    await shop.retire(me, saved["id"])
    row = (await shop.read(me, saved["id"])).json()
    assert (row["content"], row["invalidatedAt"] == row["updatedAt"]) == ("Likes tea.", True)


async def test_retiring_twice_moves_nothing(shop: Shop, me: dict[str, Any]) -> None:
    saved = await shop.save(me, "Likes tea.")
    await shop.retire(me, saved["id"])
    once = ((await shop.read(me, saved["id"])).json(), await shop.page(me))
    await shop.retire(me, saved["id"])
    assert ((await shop.read(me, saved["id"])).json(), await shop.page(me)) == once


async def test_of_many_retires_at_once_one_counts(shop: Shop, me: dict[str, Any]) -> None:
    saved = await shop.save(me, "Likes tea.")
    answers = await asyncio.gather(*(shop.retire(me, saved["id"]) for _ in range(8)))
    assert {answer.status_code for answer in answers} == {204}
    assert await ledger(shop) == ["created", "retired"]


async def test_a_row_that_the_grant_only_reads_is_refused_and_not_hidden(shop: Shop, me: dict[str, Any]) -> None:
    shared = await shop.save(me, "The team meets on Mondays.", scope="project")
    limited = {**me, "X-Cpki-Memory-Grant": '{"user":"read-write","project":"read"}'}
    for answer in (await shop.retire(limited, shared["id"]), await shop.restore(limited, shared["id"])):
        assert error_of(answer) == (403, "MEMORY_GRANT_DENIED")
    assert await live(shop) == ["The team meets on Mondays."]


# --- Restore


async def test_a_restored_row_lives_again(shop: Shop, me: dict[str, Any]) -> None:
    saved = await shop.save(me, "Likes tea.")
    await shop.retire(me, saved["id"])
    answer = await shop.restore(me, saved["id"])
    row = answer.json()
    assert answer.status_code == 200
    assert row.keys() == {*MEMORY, "absorbed", "similar", "epoch", "seq"}
    assert (row["id"], row["invalidatedAt"], row["absorbed"], row["seq"]) == (saved["id"], None, False, 3)
    assert await shop.recalled(me, "tea") == ["Likes tea."]


async def test_restoring_a_live_row_changes_nothing(shop: Shop, me: dict[str, Any]) -> None:
    saved = await shop.save(me, "Likes tea.")
    row = (await shop.restore(me, saved["id"])).json()
    assert (row["id"], row["absorbed"], row["seq"]) == (saved["id"], False, 1)
    assert await ledger(shop) == ["created"]


async def test_a_live_row_that_says_the_same_is_the_answer_unchanged(shop: Shop, me: dict[str, Any]) -> None:
    gone = await shop.save(me, "Likes tea.")
    await shop.retire(me, gone["id"])
    twin = await shop.save(me, "likes tea")
    row = (await shop.restore(me, gone["id"])).json()
    assert (row["id"], row["absorbed"], row["absorbedBy"]) == (twin["id"], True, "form")
    assert (row["content"], row["updatedAt"], row["seq"]) == ("likes tea", twin["updatedAt"], twin["seq"])
    assert (await shop.read(me, gone["id"])).json()["invalidatedAt"] is not None
    assert await ledger(shop) == ["created", "retired", "created"]


async def test_a_superseded_row_can_be_restored_beside_its_successor(shop: Shop, me: dict[str, Any]) -> None:
    old = await shop.save(me, "Likes tea.")
    await shop.supersede(me, old["id"], "Likes coffee.")
    await shop.restore(me, old["id"])
    assert await live(shop) == ["Likes tea.", "Likes coffee."]
    rows = await shop.rows("select superseded_by from memories where project_id = $1")
    assert [row[0] for row in rows] == [None, None]


async def test_a_restored_row_absorbs_again(shop: Shop, me: dict[str, Any]) -> None:
    saved = await shop.save(me, "Likes tea.")
    await shop.retire(me, saved["id"])
    await shop.restore(me, saved["id"])
    assert (await shop.save(me, "likes tea"))["id"] == saved["id"]


async def test_restoring_what_is_not_there_is_404(shop: Shop, me: dict[str, Any]) -> None:
    assert error_of(await shop.restore(me, NO_SUCH_ID)) == (404, "MEMORY_NOT_FOUND")


# --- The ledger


async def test_each_changed_memory_has_exactly_one_ledger_row(shop: Shop, me: dict[str, Any]) -> None:
    a = await shop.save(me, "Likes tea.")
    b = await shop.save(me, "Likes coffee.")
    await shop.save(me, "likes tea")
    c = (await shop.supersede(me, b["id"], "Likes cocoa.")).json()
    await shop.supersede(me, c["id"], "LIKES TEA")
    await shop.retire(me, a["id"])
    await shop.restore(me, a["id"])
    assert await ledger(shop, "seq, operation, absorbed_by, memory_id::text") == [
        (1, "created", None, a["id"]),
        (2, "created", None, b["id"]),
        (3, "absorbed", "form", a["id"]),
        (4, "superseded", None, b["id"]),
        (5, "created", None, c["id"]),
        (6, "superseded", None, c["id"]),
        (7, "absorbed", "form", a["id"]),
        (8, "retired", None, a["id"]),
        (9, "restored", None, a["id"]),
    ]


async def test_the_ledger_holds_hashes_of_the_wording_before_and_after(shop: Shop, me: dict[str, Any]) -> None:
    a = await shop.save(me, "Likes tea.")
    await shop.save(me, "likes tea")
    await shop.supersede(me, a["id"], "Likes coffee.")
    await shop.retire(me, a["id"])
    await shop.restore(me, a["id"])
    salts = await shop.rows("select wording_salt from memories where project_id = $1 order by created_at")
    tea, coffee = (row["wording_salt"] for row in salts)
    assert tea != coffee
    assert await ledger(shop, "before_sha256, after_sha256") == [
        (None, digest(tea, "Likes tea.")),
        (digest(tea, "Likes tea."), digest(tea, "likes tea")),
        (digest(tea, "likes tea"), None),
        (None, digest(coffee, "Likes coffee.")),
        (None, digest(tea, "likes tea")),
    ]


async def test_refused_and_idle_calls_write_no_ledger_row(shop: Shop, me: dict[str, Any]) -> None:
    saved = await shop.save(me, "Likes tea.")
    await shop.post(me, {"content": "", "kind": "topical"})
    await shop.supersede(me, NO_SUCH_ID, "x")
    await shop.supersede(me, saved["id"], "x", kind="episodic")
    await shop.retire(me, NO_SUCH_ID)
    await shop.restore(me, saved["id"])
    await shop.recall(me, "tea")
    await shop.page(me)
    assert await ledger(shop) == ["created"]


async def test_seq_is_dense_in_each_channel_and_ends_at_the_channels_seq(shop: Shop, me: dict[str, Any]) -> None:
    colleague = {**me, "X-Cpki-User-Id": "u2"}
    for number in range(3):
        await asyncio.gather(
            shop.save(me, f"Mine {number}."),
            shop.save(colleague, f"Theirs {number}."),
            shop.save(me, f"Ours {number}.", scope="project"),
            shop.save(colleague, f"ours {number}", scope="project"),
        )
    rows = await shop.rows(
        """select c.seq, array_agg(l.seq order by l.seq) as written
             from channels c join write_ledger l on l.project_id = c.project_id and l.channel_id = c.id
            where c.project_id = $1 group by c.seq, c.id"""
    )
    assert len(rows) == 3
    assert all(row["written"] == list(range(1, row["seq"] + 1)) for row in rows)


async def test_each_row_carries_the_seq_of_its_latest_change(shop: Shop, me: dict[str, Any]) -> None:
    a = await shop.save(me, "Likes tea.")
    await shop.save(me, "Likes coffee.")
    await shop.retire(me, a["id"])
    rows = await shop.rows("select seq from memories where project_id = $1 order by created_at")
    assert [row["seq"] for row in rows] == [3, 2]


async def test_every_write_tells_lane_key_run_source_and_request(shop: Shop) -> None:
    me = await shop.headers(lane="nightly", mode=LaneMode.READ_WRITE)
    origin = {
        "X-Memlane-Run": "run-7",
        "X-Memlane-Source": "thread:t-9",
        "X-Memlane-Triggered-By": "cron",
        "X-Request-Id": "request-1",
    }
    told = {**me, **origin}
    a = await shop.save(told, "Likes tea.")
    await shop.save(told, "likes tea")
    await shop.supersede(told, a["id"], "Likes coffee.")
    await shop.retire(told, a["id"])
    await shop.restore(told, a["id"])
    (key,) = await shop.rows(
        "select k.id, k.lane_id from runtime_keys k where k.project_id = $1 and short = $2",
        me["Authorization"].split("_")[1],
    )
    columns = "lane_name, lane_id, key_id, run, source_type, source_id, source_trust, triggered_by, request_id"
    expected = ("nightly", key["lane_id"], key["id"], "run-7", "thread", "t-9", "internal", "cron", "request-1")
    assert await ledger(shop, columns) == [expected] * 5


async def test_what_was_not_sent_is_unknown(shop: Shop, me: dict[str, Any]) -> None:
    await shop.save(me, "Likes tea.")
    assert await ledger(shop, "run, source_type, source_id, triggered_by") == [("unknown",) * 4]


@pytest.mark.parametrize("trust", ["trusted", "internal", "untrusted"])
async def test_trust_comes_from_the_lane(shop: Shop, trust: str) -> None:
    me = await shop.headers(lane="feed", mode=LaneMode.READ_WRITE)
    await shop.rows("update lanes set trust = $2 where project_id = $1 and name = 'feed'", trust)
    await shop.save({**me, "X-Memlane-Source-Trust": "trusted"}, "Likes tea.")
    assert await ledger(shop, "source_trust") == [trust]


async def test_provenance_shows_the_ledger_rows_of_one_memory_oldest_first(shop: Shop, me: dict[str, Any]) -> None:
    a = await shop.save(me, "Likes tea.")
    await shop.save(me, "Likes coffee.")
    await shop.save({**me, "X-Request-Id": "r-2"}, "likes tea")
    await shop.retire(me, a["id"])
    writes = (await shop.client.get(f"/api/memories/{a['id']}/provenance", headers=me)).json()["writes"]
    assert [(write["operation"], write["absorbedBy"], write["seq"]) for write in writes] == [
        ("created", None, 1),
        ("absorbed", "form", 3),
        ("retired", None, 4),
    ]
    assert writes[1]["requestId"] == "r-2"
    (row,) = await shop.rows("select wording_salt from memories where project_id = $1 and id = $2", a["id"])
    assert writes[1]["beforeSha256"] == digest(row["wording_salt"], "Likes tea.").hex()
    assert writes[1]["lane"] == "default"
    assert writes[1]["writtenAt"].endswith("Z")


async def test_provenance_of_more_writes_than_one_answer_holds_has_the_newest(shop: Shop, me: dict[str, Any]) -> None:
    saved = await shop.save(me, "Likes tea.")
    await shop.deployment.execute(
        "insert into write_ledger (project_id, channel_id, seq, memory_id, operation, lane_id, lane_name, source_trust,"
        " request_id) select project_id, channel_id, seq + n, memory_id, 'absorbed', lane_id, lane_name, source_trust,"
        " request_id from write_ledger, generate_series(1, 1100) n where memory_id = $1",
        saved["id"],
    )
    writes = (await shop.client.get(f"/api/memories/{saved['id']}/provenance", headers=me)).json()["writes"]
    assert [write["seq"] for write in writes] == list(range(102, 1102))
