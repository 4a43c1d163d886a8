"""POST /api/memories/batch: each memory is its own write, with its own outcome, in order."""

from typing import Any

from integration.rest.house import Shop, error_of, faults_of


async def batch(shop: Shop, me: dict[str, Any], *drafts: dict[str, Any]) -> list[Any]:
    answer = await shop.post(me, {"memories": list(drafts)}, "/api/memories/batch")
    assert answer.status_code == 200, answer.text
    assert answer.json().keys() == {"outcomes"}
    return list(answer.json()["outcomes"])


def draft(content: str, **more: Any) -> dict[str, Any]:
    return {"content": content, "kind": "topical", **more}


async def test_the_outcomes_stand_in_the_order_of_the_memories(shop: Shop, me: dict[str, Any]) -> None:
    contents = [f"Drawer {number} holds paper." for number in range(40)]
    outcomes = await batch(shop, me, *(draft(content) for content in contents))
    assert [outcome["content"] for outcome in outcomes] == contents
    assert [outcome["seq"] for outcome in outcomes] == list(range(1, 41))


async def test_a_batch_of_100_is_saved(shop: Shop, me: dict[str, Any]) -> None:
    outcomes = await batch(shop, me, *(draft(f"Drawer {number} holds paper.") for number in range(100)))
    assert all(outcome["absorbed"] is False for outcome in outcomes)
    assert len(await shop.listed(me)) == 100


async def test_a_repeat_within_the_batch_is_absorbed(shop: Shop, me: dict[str, Any]) -> None:
    first, second = await batch(shop, me, draft("Likes tea."), draft("likes tea"))
    assert (first["absorbed"], second["absorbed"], second["id"]) == (False, True, first["id"])


async def test_scopes_and_kinds_may_be_mixed(shop: Shop, me: dict[str, Any]) -> None:
    outcomes = await batch(shop, me, draft("Tea."), draft("Tea.", scope="project"), draft("Tea.", kind="episodic"))
    assert [(one["scope"], one["kind"], one["seq"]) for one in outcomes] == [
        ("user", "topical", 1),
        ("project", "topical", 1),
        ("user", "episodic", 2),
    ]


async def test_each_has_its_own_ledger_row(shop: Shop, me: dict[str, Any]) -> None:
    outcomes = await batch(shop, me, draft("Likes tea."), draft("Likes coffee."))
    rows = await shop.rows("select memory_id::text from write_ledger where project_id = $1 order by id")
    assert [row[0] for row in rows] == [one["id"] for one in outcomes]


async def test_a_scope_that_the_grant_does_not_write_refuses_the_whole_batch(shop: Shop, me: dict[str, Any]) -> None:
    limited = {**me, "X-Cpki-Memory-Grant": '{"user":"read-write","project":"read"}'}
    body = {"memories": [draft("Likes tea."), draft("Tea.", scope="project")]}
    answer = await shop.post(limited, body, "/api/memories/batch")
    assert error_of(answer) == (403, "MEMORY_GRANT_DENIED")
    assert await shop.listed(me) == []


async def test_one_bad_memory_refuses_the_whole_batch_by_its_place(shop: Shop, me: dict[str, Any]) -> None:
    body = {"memories": [draft("Likes tea."), draft(" ")]}
    answer = await shop.post(me, body, "/api/memories/batch")
    assert list(faults_of(answer)) == ["memories.1.content"]
    assert await shop.listed(me) == []


async def test_the_same_batch_again_changes_no_row_count(shop: Shop, me: dict[str, Any]) -> None:
    drafts = [draft(f"Drawer {number} holds paper.") for number in range(5)]
    await batch(shop, me, *drafts)
    assert all(one["absorbed"] for one in await batch(shop, me, *drafts))
    assert len(await shop.listed(me)) == 5


async def test_a_write_that_failed_tells_its_error_as_every_route_does(shop: Shop, me: dict[str, Any]) -> None:
    await shop.rows("update projects set max_live_memories = 1 where id = $1")
    body = {"memories": [draft("Likes tea."), draft("Likes rye."), draft("Tea.", scope="project")]}
    answer = await shop.post({**me, "X-Request-Id": "r-17"}, body, "/api/memories/batch")
    saved, failed, shared = answer.json()["outcomes"]
    assert (answer.status_code, saved["content"], shared["content"]) == (200, "Likes tea.", "Tea.")
    single = await shop.post({**me, "X-Request-Id": "r-17"}, draft("Likes rye."))
    assert failed == single.json()
    assert failed["error"].keys() == {"code", "message", "requestId"}
    assert (failed["error"]["code"], failed["error"]["requestId"]) == ("QUOTA_EXCEEDED", "r-17")
    document = (await shop.client.get("/api/openapi.json")).json()["components"]["schemas"]
    told = [one["$ref"] for one in document["BatchBody"]["properties"]["outcomes"]["items"]["anyOf"]]
    assert told == ["#/components/schemas/WrittenMemory", "#/components/schemas/ErrorBody"]
