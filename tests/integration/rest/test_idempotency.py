"""Idempotency-Key: a retry within 24 h gets the first answer again."""

import asyncio
from typing import Any

import httpx
import pytest

from integration.rest.house import Shop, error_of, faults_of, outward

DRAFT = {"content": "Likes tea.", "kind": "topical"}


async def save(shop: Shop, me: dict[str, Any], key: str | bytes, **changes: Any) -> Any:
    return await shop.post({**me, "Idempotency-Key": key}, {**DRAFT, **changes})


async def operations(shop: Shop) -> list[str]:
    rows = await shop.rows("select operation from write_ledger where project_id = $1 order by id")
    return [row[0] for row in rows]


async def test_a_retry_gets_the_first_answer_again_and_writes_nothing(shop: Shop, me: dict[str, Any]) -> None:
    answers = [await save(shop, me, "k1") for _ in range(3)]
    assert [answer.status_code for answer in answers] == [201] * 3
    assert answers[1].json() == answers[2].json() == answers[0].json()
    assert answers[0].json()["absorbed"] is False
    assert await operations(shop) == ["created"]


async def test_the_first_answer_holds_though_the_memory_has_changed_since(shop: Shop, me: dict[str, Any]) -> None:
    first = (await save(shop, me, "k1")).json()
    await shop.save(me, "likes tea")
    await shop.retire(me, first["id"])
    assert (await save(shop, me, "k1")).json() == first


async def test_neighbours_and_absorption_are_part_of_the_answer(shop: Shop, me: dict[str, Any]) -> None:
    await shop.save(me, "The user prefers tea to coffee.")
    near = [(await save(shop, me, "near", content="The user prefers coffee to tea.")).json() for _ in range(2)]
    absorbed = [(await save(shop, me, "same", content="the user prefers tea to coffee")).json() for _ in range(2)]
    assert near[0] == near[1]
    assert near[0]["similar"]
    assert absorbed[0] == absorbed[1]
    assert absorbed[0]["absorbed"] is True


async def test_a_retried_supersede_gets_the_same_200(shop: Shop, me: dict[str, Any]) -> None:
    old = await shop.save(me, "Likes tea.")
    keyed = {**me, "Idempotency-Key": "k1"}
    answers = [await shop.supersede(keyed, old["id"], "Likes coffee.") for _ in range(2)]
    assert [answer.status_code for answer in answers] == [200, 200]
    assert answers[0].json() == answers[1].json()
    assert await operations(shop) == ["created", "superseded", "created"]


async def test_the_same_body_written_otherwise_is_the_same_request(shop: Shop, me: dict[str, Any]) -> None:
    first = await save(shop, me, "k1", sourceThreadIds=[])
    raw = b'{ "kind": "topical", "scope": "user", "content": "Likes te\\u0061." }'
    again = await shop.client.post("/api/memories", headers={**me, "Idempotency-Key": "k1"}, content=raw)
    assert again.json() == first.json()


@pytest.mark.parametrize(
    "change", [{"content": "Likes coffee."}, {"kind": "episodic"}, {"scope": "project"}, {"sourceThreadIds": ["t"]}],
    ids=str,
)  # fmt: skip
async def test_one_key_with_two_bodies_is_409_and_writes_nothing(
    shop: Shop, me: dict[str, Any], change: dict[str, Any]
) -> None:
    await save(shop, me, "k1")
    assert error_of(await save(shop, me, "k1", **change)) == (409, "IDEMPOTENCY_CONFLICT")
    assert await operations(shop) == ["created"]


async def test_one_key_on_two_routes_is_409(shop: Shop, me: dict[str, Any]) -> None:
    saved = (await save(shop, me, "k1")).json()
    answer = await shop.supersede({**me, "Idempotency-Key": "k1"}, saved["id"], "Likes tea.")
    assert error_of(answer) == (409, "IDEMPOTENCY_CONFLICT")


async def test_one_key_on_two_targets_is_409(shop: Shop, me: dict[str, Any]) -> None:
    targets = [await shop.save(me, f"Likes {drink}.") for drink in ("tea", "cocoa")]
    keyed = {**me, "Idempotency-Key": "k1"}
    answers = [await shop.supersede(keyed, target["id"], "Likes coffee.") for target in targets]
    assert [answer.status_code for answer in answers] == [200, 409]


async def test_keys_belong_to_one_user(shop: Shop, me: dict[str, Any]) -> None:
    mine = (await save(shop, me, "k1")).json()
    theirs = await save(shop, {**me, "X-Cpki-User-Id": "u2"}, "k1", content="Likes coffee.")
    assert theirs.status_code == 201
    assert theirs.json()["id"] != mine["id"]


async def test_keys_belong_to_one_project(shop: Shop, me: dict[str, Any]) -> None:
    await save(shop, me, "k1")
    other = Shop(shop.service)
    assert (await save(other, await other.headers(), "k1", content="Likes coffee.")).status_code == 201


async def test_another_runtime_key_of_the_user_shares_the_keys(shop: Shop, me: dict[str, Any]) -> None:
    first = await save(shop, me, "k1")
    assert (await save(shop, await shop.headers(), "k1")).json() == first.json()


async def test_a_retry_is_still_checked_for_its_grant(shop: Shop, me: dict[str, Any]) -> None:
    await save(shop, me, "k1", scope="project")
    limited = {**me, "X-Cpki-Memory-Grant": '{"user":"read-write"}'}
    assert error_of(await save(shop, limited, "k1", scope="project")) == (403, "MEMORY_GRANT_DENIED")


GRANTS = [
    ("none", (404, "MEMORY_NOT_FOUND")),
    ("read", (403, "MEMORY_GRANT_DENIED")),
]


@pytest.mark.parametrize(("project", "refusal"), GRANTS)
async def test_a_retried_restore_shows_no_more_than_the_grant_of_the_retry(
    shop: Shop, me: dict[str, Any], project: str, refusal: tuple[int, str]
) -> None:
    saved = await shop.save(me, "Likes tea.", scope="project")
    await shop.retire(me, saved["id"])
    assert (await shop.restore({**me, "Idempotency-Key": "k1"}, saved["id"])).status_code == 200
    limited = {**me, "X-Cpki-Memory-Grant": f'{{"user":"read-write","project":"{project}"}}'}
    retried = await shop.restore({**limited, "Idempotency-Key": "k1"}, saved["id"])
    assert error_of(retried) == refusal
    assert outward(retried) == outward(await shop.restore({**limited, "Idempotency-Key": "k2"}, saved["id"]))
    assert await operations(shop) == ["created", "retired", "restored"]


async def test_a_retried_restore_of_the_users_own_memory_is_checked_as_well(shop: Shop, me: dict[str, Any]) -> None:
    saved = await shop.save(me, "Likes tea.")
    await shop.retire(me, saved["id"])
    assert (await shop.restore({**me, "Idempotency-Key": "k1"}, saved["id"])).status_code == 200
    limited = {**me, "X-Cpki-Memory-Grant": '{"project":"read-write"}', "Idempotency-Key": "k1"}
    assert error_of(await shop.restore(limited, saved["id"])) == (404, "MEMORY_NOT_FOUND")


@pytest.mark.parametrize("project", ["none", "read"])
async def test_a_retried_supersede_and_batch_are_still_checked_for_their_grant(
    shop: Shop, me: dict[str, Any], project: str
) -> None:
    old = await shop.save(me, "Likes tea.", scope="project")
    drafts = {"memories": [{"content": "Drawer 1 holds paper.", "kind": "topical", "scope": "project"}]}

    async def both(headers: dict[str, Any]) -> list[httpx.Response]:
        return [
            await shop.supersede({**headers, "Idempotency-Key": "k1"}, old["id"], "Likes coffee.", scope="project"),
            await shop.post({**headers, "Idempotency-Key": "k2"}, drafts, "/api/memories/batch"),
        ]

    assert [answer.status_code for answer in await both(me)] == [200, 200]
    limited = {**me, "X-Cpki-Memory-Grant": f'{{"user":"read-write","project":"{project}"}}'}
    assert [error_of(answer) for answer in await both(limited)] == [(403, "MEMORY_GRANT_DENIED")] * 2


@pytest.mark.parametrize(("age", "writes"), [("23 hours 59 minutes", 1), ("24 hours 1 second", 2)])
async def test_a_key_is_kept_for_24_hours(shop: Shop, me: dict[str, Any], age: str, writes: int) -> None:
    await save(shop, me, "k1")
    await shop.rows(
        "update idempotency_keys set created_at = clock_timestamp() - $2::text::interval where project_id = $1", age
    )
    again = await save(shop, me, "k1")
    assert again.status_code == 201
    assert await operations(shop) == ["created", "absorbed"][:writes]


async def test_an_old_key_may_stand_for_another_request_from_then_on(shop: Shop, me: dict[str, Any]) -> None:
    await save(shop, me, "k1")
    await shop.rows("update idempotency_keys set created_at = now() - interval '25 hours' where project_id = $1")
    second = await save(shop, me, "k1", content="Likes coffee.")
    assert (await save(shop, me, "k1", content="Likes coffee.")).json() == second.json()
    assert error_of(await save(shop, me, "k1")) == (409, "IDEMPOTENCY_CONFLICT")


async def test_retries_at_once_write_once(shop: Shop, me: dict[str, Any]) -> None:
    answers = await asyncio.gather(*(save(shop, me, "k1") for _ in range(10)))
    assert [answer.json() for answer in answers] == [answers[0].json()] * 10
    assert await operations(shop) == ["created"]


async def test_one_key_with_two_bodies_at_once_in_two_scopes_is_one_write(shop: Shop, me: dict[str, Any]) -> None:
    answers = await asyncio.gather(save(shop, me, "k1"), save(shop, me, "k1", scope="project"))
    assert sorted(answer.status_code for answer in answers) == [201, 409]
    assert await operations(shop) == ["created"]


async def test_a_refused_request_does_not_take_the_key(shop: Shop, me: dict[str, Any]) -> None:
    assert error_of(await save(shop, me, "k1", content=""))[0] == 400
    assert (await save(shop, me, "k1")).status_code == 201


async def test_without_a_key_every_save_counts(shop: Shop, me: dict[str, Any]) -> None:
    await shop.save(me, "Likes tea.")
    await shop.save(me, "Likes tea.")
    assert await operations(shop) == ["created", "absorbed"]


async def test_a_key_of_128_characters_is_taken(shop: Shop, me: dict[str, Any]) -> None:
    assert (await save(shop, me, "k" * 128)).status_code == 201


@pytest.mark.parametrize("key", ["", "k" * 129, "a\tb", b"\x81"], ids=repr)
async def test_any_other_key_is_400_by_the_headers_name(shop: Shop, me: dict[str, Any], key: str | bytes) -> None:
    assert list(faults_of(await save(shop, me, key))) == ["Idempotency-Key"]


async def test_two_keys_are_400(shop: Shop, me: dict[str, Any]) -> None:
    headers = [*me.items(), ("Idempotency-Key", "a"), ("Idempotency-Key", "a")]
    answer = await shop.client.post("/api/memories", headers=headers, json=DRAFT)
    assert list(faults_of(answer)) == ["Idempotency-Key"]


async def test_a_key_is_utf_8_as_the_user_id_is(shop: Shop, me: dict[str, Any]) -> None:
    first = await save(shop, me, "Ā".encode())
    assert first.status_code == 201
    assert (await save(shop, me, "Ā".encode())).json() == first.json()


async def test_an_id_in_capitals_is_the_same_request(shop: Shop, me: dict[str, Any]) -> None:
    old = await shop.save(me, "Likes tea.")
    keyed = {**me, "Idempotency-Key": "k1"}
    answers = [await shop.supersede(keyed, one, "Likes coffee.") for one in (old["id"], old["id"].upper())]
    assert answers[0].json() == answers[1].json()


# --- A batch


async def batch(shop: Shop, me: dict[str, Any], key: str, *contents: str) -> httpx.Response:
    body = {"memories": [{"content": content, "kind": "topical"} for content in contents]}
    return await shop.post({**me, "Idempotency-Key": key}, body, "/api/memories/batch")


async def test_a_retried_batch_gets_the_first_outcomes_and_writes_nothing(shop: Shop, me: dict[str, Any]) -> None:
    contents = [f"Drawer {number} holds paper." for number in range(20)]
    first = await batch(shop, me, "k1", *contents)
    assert first.status_code == 200
    assert (await batch(shop, me, "k1", *contents)).json() == first.json()
    assert await operations(shop) == ["created"] * 20


async def test_a_batch_that_was_written_in_part_is_completed_by_its_retry(shop: Shop, me: dict[str, Any]) -> None:
    first = (await batch(shop, me, "k1", "Likes tea.", "Likes cocoa.")).json()["outcomes"]
    await shop.rows("delete from idempotency_keys where project_id = $1 and key like '%1'")
    again = (await batch(shop, me, "k1", "Likes tea.", "Likes cocoa.")).json()["outcomes"]
    assert again[0] == first[0]
    assert (again[1]["id"], again[1]["absorbed"]) == (first[1]["id"], True)


@pytest.mark.parametrize("other", [["Likes coffee."], ["Likes tea.", "Likes coffee.", "Likes water."]])
async def test_one_key_with_two_batches_is_409_and_writes_nothing(
    shop: Shop, me: dict[str, Any], other: list[str]
) -> None:
    await batch(shop, me, "k1", "Likes tea.", "Likes cocoa.")
    assert error_of(await batch(shop, me, "k1", *other)) == (409, "IDEMPOTENCY_CONFLICT")
    assert await operations(shop) == ["created", "created"]


async def test_a_key_of_a_batch_is_checked_as_every_key_is(shop: Shop, me: dict[str, Any]) -> None:
    assert list(faults_of(await batch(shop, me, "k" * 129, "Likes tea."))) == ["Idempotency-Key"]


# --- A restore


async def test_a_retried_restore_gets_the_same_answer_and_brings_nothing_back(shop: Shop, me: dict[str, Any]) -> None:
    saved = await shop.save(me, "Likes tea.")
    await shop.retire(me, saved["id"])
    keyed = {**me, "Idempotency-Key": "k1"}
    first = await shop.restore(keyed, saved["id"])
    await shop.retire(me, saved["id"])
    again = await shop.restore(keyed, saved["id"])
    assert (again.status_code, again.json()) == (200, first.json())
    assert await shop.listed(me) == []
    assert await operations(shop) == ["created", "retired", "restored", "retired"]
