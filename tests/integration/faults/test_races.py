"""Requests that arrive at the same moment, through two processes on one database."""

import asyncio
import itertools
from collections import Counter
from collections.abc import Awaitable

import httpx
import pytest_asyncio

from integration.faults.house import Pair, Tenant, assert_sound_history, save, statement

SAYING = "Prefers window seats on long flights."
DRAFT = {"content": SAYING, "kind": "topical"}


@pytest_asyncio.fixture(loop_scope="session")
async def tenant(pair: Pair) -> Tenant:
    return await pair.tenant()


async def at_once(*asked: Awaitable[httpx.Response]) -> list[httpx.Response]:
    return list(await asyncio.gather(*asked))


def statuses(answers: list[httpx.Response]) -> dict[int, int]:
    return dict(Counter(answer.status_code for answer in answers))


async def test_forty_identical_saves_at_once_through_two_processes_make_one_live_row(
    pair: Pair, tenant: Tenant
) -> None:
    me = tenant.headers()
    answers = await at_once(*(save(client, me, SAYING) for client in pair.clients for _ in range(20)))
    assert statuses(answers) == {201: 40}
    bodies = [answer.json() for answer in answers]
    assert Counter(body["absorbed"] for body in bodies) == {False: 1, True: 39}
    assert len({body["id"] for body in bodies}) == 1
    assert sorted(body["seq"] for body in bodies) == list(range(1, 41))
    assert await tenant.live() == [SAYING]
    await assert_sound_history(tenant)


async def test_identical_saves_that_differ_only_in_form_make_one_live_row_too(pair: Pair, tenant: Tenant) -> None:
    forms = [SAYING, SAYING.upper(), SAYING.lower(), SAYING.removesuffix("."), f"{SAYING.removesuffix('.')}!"]
    me = tenant.headers()
    asked = (save(client, me, form) for form in forms for client in pair.clients for _ in range(2))
    answers = await at_once(*asked)
    assert statuses(answers) == {201: 20}
    assert [answer.json()["absorbed"] for answer in answers].count(False) == 1
    assert len(await tenant.live()) == 1
    await assert_sound_history(tenant)


async def test_threads_of_saves_that_absorb_each_other_are_all_kept(pair: Pair, tenant: Tenant) -> None:
    me = tenant.headers()
    threads = [f"thread-{number}" for number in range(20)]
    answers = await at_once(
        *(save(pair.clients[at % 2], me, SAYING, sourceThreadIds=[thread]) for at, thread in enumerate(threads))
    )
    assert statuses(answers) == {201: 20}
    (row,) = await tenant.rows("select source_thread_ids from memories where project_id = $1")
    assert sorted(row["source_thread_ids"]) == sorted(threads)


async def test_first_writes_of_many_new_users_at_once_each_get_a_channel(pair: Pair, tenant: Tenant) -> None:
    users = [f"user-{number}" for number in range(10)]
    answers = await at_once(*(save(client, tenant.headers(user), SAYING) for user in users for client in pair.clients))
    assert statuses(answers) == {201: 20}
    assert len(await tenant.live()) == len(users)
    await assert_sound_history(tenant)


async def test_of_two_patches_of_one_id_at_once_one_is_answered_200_and_one_404(pair: Pair, tenant: Tenant) -> None:
    me = tenant.headers()
    target = (await save(pair.clients[0], me, SAYING)).json()["id"]
    answers = await at_once(
        *(
            client.patch(f"/api/memories/{target}", headers=me, json={**DRAFT, "content": statement(at)})
            for at, client in enumerate(pair.clients)
        )
    )
    assert sorted(answer.status_code for answer in answers) == [200, 404]
    winner, loser = sorted(answers, key=lambda answer: answer.status_code)
    assert winner.json()["retiredId"] == target
    assert loser.json()["error"]["code"] == "MEMORY_NOT_FOUND"
    assert await tenant.live() == [winner.json()["content"]]
    await assert_sound_history(tenant)


async def test_of_many_patches_of_one_id_at_once_exactly_one_wins(pair: Pair, tenant: Tenant) -> None:
    me = tenant.headers()
    target = (await save(pair.clients[0], me, SAYING)).json()["id"]
    answers = await at_once(
        *(
            pair.clients[at % 2].patch(f"/api/memories/{target}", headers=me, json={**DRAFT, "content": statement(at)})
            for at in range(20)
        )
    )
    assert statuses(answers) == {200: 1, 404: 19}
    assert len(await tenant.live()) == 1
    await assert_sound_history(tenant)


async def test_a_patch_retried_with_its_idempotency_key_gets_the_same_200(pair: Pair, tenant: Tenant) -> None:
    me = tenant.headers() | {"Idempotency-Key": "patch-1"}
    target = (await save(pair.clients[0], tenant.headers(), SAYING)).json()["id"]
    answers = [
        await client.patch(f"/api/memories/{target}", headers=me, json={**DRAFT, "content": statement(1)})
        for client in (*pair.clients, *pair.clients)
    ]
    assert statuses(answers) == {200: 4}
    assert len({answer.text for answer in answers}) == 1
    await assert_sound_history(tenant)


async def test_many_retries_of_a_patch_at_once_are_one_write(pair: Pair, tenant: Tenant) -> None:
    for round_ in range(5):
        me = tenant.headers() | {"Idempotency-Key": f"patch-{round_}"}
        target = (await save(pair.clients[0], tenant.headers(), SAYING)).json()["id"]
        draft = {**DRAFT, "content": statement(round_)}
        answers = await at_once(
            *(
                client.patch(f"/api/memories/{target}", headers=me, json=draft)
                for client in pair.clients
                for _ in range(10)
            )
        )
        # A retry that finds the target gone finds the answer that made it go.
        assert statuses(answers) == {200: 20}
        assert len({answer.text for answer in answers}) == 1
    assert len(await tenant.rows("select 1 from memories where project_id = $1")) == 2 * 5
    await assert_sound_history(tenant)


async def test_many_retries_of_a_save_at_once_are_one_write(pair: Pair, tenant: Tenant) -> None:
    me = tenant.headers() | {"Idempotency-Key": "save-1"}
    answers = await at_once(*(save(client, me, SAYING) for client in pair.clients for _ in range(15)))
    assert statuses(answers) == {201: 30}
    assert len({answer.text for answer in answers}) == 1
    assert answers[0].json()["absorbed"] is False
    assert len(await tenant.rows("select 1 from write_ledger where project_id = $1")) == 1
    await assert_sound_history(tenant)


async def test_one_idempotency_key_for_two_bodies_at_once_lets_one_through_and_refuses_the_other(
    pair: Pair, tenant: Tenant
) -> None:
    me = tenant.headers() | {"Idempotency-Key": "two-bodies"}
    # Different scopes have different locks: only the kept answer's own row decides.
    answers = await at_once(
        *(
            save(client, me, statement(at), scope=scope)
            for at, (client, scope) in enumerate(itertools.product(pair.clients, ("user", "project")))
        )
    )
    assert statuses(answers) == {201: 1, 409: 3}
    assert {answer.json()["error"]["code"] for answer in answers if answer.status_code == 409} == {
        "IDEMPOTENCY_CONFLICT"
    }
    assert len(await tenant.live()) == 1
    await assert_sound_history(tenant)


async def test_two_memories_superseded_by_the_same_statement_at_once_end_as_one(pair: Pair, tenant: Tenant) -> None:
    me = tenant.headers()
    targets = [(await save(pair.clients[0], me, statement(number))).json()["id"] for number in (1, 2)]
    answers = await at_once(
        *(
            client.patch(f"/api/memories/{target}", headers=me, json=DRAFT)
            for client, target in zip(pair.clients, targets, strict=True)
        )
    )
    assert statuses(answers) == {200: 2}
    assert sorted(answer.json()["absorbed"] for answer in answers) == [False, True]
    assert {answer.json()["retiredId"] for answer in answers} == set(targets)
    assert await tenant.live() == [SAYING]
    await assert_sound_history(tenant)


async def test_a_memory_deleted_many_times_at_once_is_retired_once(pair: Pair, tenant: Tenant) -> None:
    me = tenant.headers()
    target = (await save(pair.clients[0], me, SAYING)).json()["id"]
    answers = await at_once(
        *(client.delete(f"/api/memories/{target}", headers=me) for client in pair.clients for _ in range(10))
    )
    assert statuses(answers) == {204: 20}
    operations = await tenant.rows("select operation from write_ledger where project_id = $1 order by seq")
    assert [row["operation"] for row in operations] == ["created", "retired"]


async def test_a_memory_restored_many_times_at_once_is_restored_once(pair: Pair, tenant: Tenant) -> None:
    me = tenant.headers()
    target = (await save(pair.clients[0], me, SAYING)).json()["id"]
    await pair.clients[0].delete(f"/api/memories/{target}", headers=me)
    answers = await at_once(
        *(client.post(f"/api/memories/{target}/restore", headers=me) for client in pair.clients for _ in range(10))
    )
    assert statuses(answers) == {200: 20}
    assert {answer.json()["id"] for answer in answers} == {target}
    operations = await tenant.rows("select operation from write_ledger where project_id = $1 order by seq")
    assert [row["operation"] for row in operations] == ["created", "retired", "restored"]


async def test_retired_twins_restored_at_once_end_as_one_live_row(pair: Pair, tenant: Tenant) -> None:
    me = tenant.headers()
    twins = []
    for _ in range(4):
        twins.append((await save(pair.clients[0], me, SAYING)).json()["id"])
        await pair.clients[0].delete(f"/api/memories/{twins[-1]}", headers=me)
    assert len(set(twins)) == 4
    answers = await at_once(
        *(pair.clients[at % 2].post(f"/api/memories/{twin}/restore", headers=me) for at, twin in enumerate(twins * 3))
    )
    assert statuses(answers) == {200: 12}
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert await tenant.live() == [SAYING]
    await assert_sound_history(tenant)


async def test_batches_that_overlap_store_each_statement_once(pair: Pair, tenant: Tenant) -> None:
    me = tenant.headers()
    numbers = list(range(12))
    answers = await at_once(
        *(
            pair.clients[at % 2].post(
                "/api/memories/batch",
                headers=me,
                json={"memories": [{"content": statement(n), "kind": "topical"} for n in order]},
            )
            for at, order in enumerate([numbers, numbers[::-1], numbers[::2], numbers[1::2]])
        )
    )
    assert statuses(answers) == {200: 4}
    outcomes = [one for answer in answers for one in answer.json()["outcomes"]]
    assert [one["absorbed"] for one in outcomes].count(False) == len(numbers)
    assert await tenant.live() == sorted(statement(n) for n in numbers)
    await assert_sound_history(tenant)


async def test_a_storm_of_saves_patches_deletes_and_restores_leaves_a_sound_history(pair: Pair, tenant: Tenant) -> None:
    me = tenant.headers()
    ids = [(await save(pair.clients[0], me, statement(number))).json()["id"] for number in range(4)]
    asked: list[Awaitable[httpx.Response]] = []
    for round_ in range(6):
        client = pair.clients[round_ % 2]
        for at, memory_id in enumerate(ids):
            path = f"/api/memories/{memory_id}"
            asked += [
                client.patch(path, headers=me, json={**DRAFT, "content": statement((at + round_) % 5)}),
                client.delete(path, headers=me),
                client.post(f"{path}/restore", headers=me),
                save(client, me, statement((at + round_) % 5), sourceThreadIds=[f"thread-{round_}"]),
            ]
    answers = await at_once(*asked)
    assert {answer.status_code for answer in answers} <= {200, 201, 204, 404}
    await assert_sound_history(tenant)


async def test_readers_see_each_write_whole_or_not_at_all(pair: Pair, tenant: Tenant) -> None:
    me = tenant.headers()
    current = (await save(pair.clients[0], me, statement(0))).json()["id"]
    done = asyncio.Event()
    counts: set[int] = set()

    async def read() -> None:
        while not done.is_set():
            listed = (await pair.clients[1].get("/api/memories", headers=me)).json()
            counts.add(len(listed["memories"]))

    async with asyncio.TaskGroup() as group:
        group.create_task(read())
        for number in range(1, 15):
            answer = await pair.clients[0].patch(
                f"/api/memories/{current}", headers=me, json={**DRAFT, "content": statement(number)}
            )
            current = answer.json()["id"]
        done.set()
    # A supersede retires and creates in one transaction: no list shows both, or neither.
    assert counts == {1}
