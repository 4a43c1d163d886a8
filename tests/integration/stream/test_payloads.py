"""What each write looks like on the live feed."""

import asyncio
from typing import Any

import pytest

from integration.stream.house import Person, Stream
from support.service import Service

SCOPES = ("user", "project")


@pytest.fixture(autouse=True)
def no_sweep(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sweep may come between a commit and its hint, and tells of a row's present state: `updated`."""
    monkeypatch.setattr(stream.hub, "_compare", lambda _key, _head: None)


async def shown(person: Person, memory_id: str) -> Any:
    answer = await person.service.client.get(f"/api/memories/{memory_id}", headers=person.headers)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def tenant(person: Person) -> dict[str, str]:
    rows = await person.service.deployment.fetch(
        'select id::text as "projectId", organization_id::text as "organizationId" from projects where slug = $1',
        person.slug,
    )
    return dict(rows[0])


def moment(text: str) -> str:
    """A time without the trailing zeros that two persons of JSON may or may not put."""
    return text.rstrip("Z").rstrip("0")


@pytest.mark.parametrize("scope", SCOPES)
async def test_a_new_memory_is_created_with_everything_that_a_page_shows(person: Person, scope: str) -> None:
    async with person.listening(scope, fence=False) as client:
        saved = await person.save("Prefers a window seat.", scope=scope, sourceThreadIds=["t1", "t2"])
        (event,) = await client.has(1)
        ids = await tenant(person)
        memory = event["memory"]
        assert event == {
            "operation": "created",
            "memoryId": saved["id"],
            **ids,
            "occurredAt": event["occurredAt"],
            "memory": memory,
            "seq": 1,
            "epoch": saved["epoch"],
        }
        row = await shown(person, saved["id"])
        assert {**memory, "createdAt": "", "updatedAt": ""} == {**row, **ids, "createdAt": "", "updatedAt": ""}
        assert memory["scope"] == scope
        assert memory["sourceThreadIds"] == ["t1", "t2"]
        assert moment(memory["createdAt"]) == moment(row["createdAt"])
        assert moment(memory["updatedAt"]) == moment(row["updatedAt"]) == moment(event["occurredAt"])
        assert [frame.ref for frame in client.frames if frame.event == "memory_metadata"] == [None]
        assert [frame.join_ref for frame in client.frames if frame.event == "memory_metadata"] == [None]


@pytest.mark.parametrize("scope", SCOPES)
async def test_an_absorb_is_one_updated_of_the_row_that_took_the_wording(person: Person, scope: str) -> None:
    async with person.listening(scope, fence=False) as client:
        first = await person.save("The user prefers a window seat.", scope=scope)
        again = await person.save("the user prefers a window seat", scope=scope)
        assert again["absorbed"], "the two texts say the same"
        created, updated = await client.has(2)
        assert (created["operation"], updated["operation"]) == ("created", "updated")
        assert created["memoryId"] == updated["memoryId"] == first["id"]
        assert updated["memory"]["content"] == "the user prefers a window seat"
        assert (created["seq"], updated["seq"]) == (1, 2)


@pytest.mark.parametrize("scope", SCOPES)
async def test_a_supersede_is_invalidated_of_the_old_then_created_of_the_new(person: Person, scope: str) -> None:
    async with person.listening(scope, fence=False) as client:
        old = await person.save("Lives in Lyon.", scope=scope)
        new = await person.replace(old["id"], "Lives in Turin.") if scope == "user" else await _replace(person, old)
        events = (await client.has(3))[1:]
        assert [(one["operation"], one["memoryId"], one["seq"]) for one in events] == [
            ("invalidated", old["id"], 2),
            ("created", new["id"], 3),
        ]
        assert events[0]["invalidated"] == {"id": old["id"]}
        assert "memory" not in events[0]
        assert "Lyon" not in str(events[0])


async def _replace(person: Person, old: Any) -> Any:
    answer = await person.service.client.patch(
        f"/api/memories/{old['id']}",
        headers=person.headers,
        json={"content": "Lives in Turin.", "kind": "topical", "scope": "project"},
    )
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_a_retire_is_invalidated_and_repeating_it_is_silent(person: Person) -> None:
    async with person.listening(fence=False) as client:
        saved = await person.save("Owes a call to the bank.")
        await person.retire(saved["id"])
        await person.retire(saved["id"])
        await client.has(2)
        await client.round_trip()
        assert [(one["operation"], one["memoryId"], one["seq"]) for one in client.events()] == [
            ("created", saved["id"], 1),
            ("invalidated", saved["id"], 2),
        ]


async def test_a_restored_row_comes_back_as_a_live_row(person: Person) -> None:
    async with person.listening(fence=False) as client:
        saved = await person.save("Owes a call to the bank.")
        await person.retire(saved["id"])
        answer = await person.service.client.post(f"/api/memories/{saved['id']}/restore", headers=person.headers)
        assert answer.status_code == 200, answer.text
        event = (await client.has(3))[2]
        assert event["operation"] in {"created", "updated"}
        assert event["memory"]["content"] == "Owes a call to the bank."
        assert event["memory"]["invalidatedAt"] is None
        assert client.rows() == {saved["id"]: "Owes a call to the bank."}


async def test_a_batch_is_one_event_for_each_stored_row_in_order(person: Person) -> None:
    texts = ["Has a cat.", "Rides a tandem.", "has a cat", "Collects stamps."]
    async with person.listening(fence=False) as client:
        answer = await person.service.client.post(
            "/api/memories/batch",
            headers=person.headers,
            json={"memories": [{"content": text, "kind": "topical"} for text in texts]},
        )
        assert answer.status_code == 200, answer.text
        events = await client.has(4)
        assert [one["seq"] for one in events] == [1, 2, 3, 4]
        assert [one["operation"] for one in events] == ["created", "created", "updated", "created"]
        assert client.rows() == {outcome["id"]: outcome["content"] for outcome in answer.json()["outcomes"][1:]}


async def test_first_deliveries_of_many_writers_are_dense_and_reach_every_subscriber_alike(person: Person) -> None:
    async with person.listening("project", fence=False) as first, person.other("u2").listening("project") as second:
        await asyncio.gather(
            *(
                person.other(f"w{number % 4}").save(f"Locker {number} holds {number + 7} keys.", scope="project")
                for number in range(24)
            )
        )
        for client in (first, second):
            await client.has_seq(24)
            assert client.first_seqs() == list(range(1, 25))
        assert first.rows() == second.rows()


async def test_a_user_sees_nothing_of_another_user(person: Person) -> None:
    async with person.listening(fence=False) as client:
        await person.other("u2").save("A secret of the second user.")
        await person.save("A word of the first user.")
        await client.has(1)
        await client.round_trip()
        assert [one["memory"]["content"] for one in client.events()] == ["A word of the first user."]


async def test_the_feed_is_the_same_on_every_version_of_postgres(service: Service) -> None:
    person = await Person.new(service)
    async with person.listening(fence=False) as client:
        old = await person.save("Lives in Lyon.")
        new = await person.replace(old["id"], "Lives in Turin.")
        await (await person.channel()).grow(3)
        await client.has_seq(6)
        assert [one["operation"] for one in client.events()] == ["created", "invalidated", "created", *["updated"] * 3]
        assert client.rows()[new["id"]] == "Lives in Turin."
