"""GET /api/memories: order, pages, positions and the tag of an unchanged list."""

import base64
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest

from integration.rest.house import Shop, error_of, faults_of

TIMES = ("createdAt", "updatedAt")


async def save_batch(shop: Shop, me: dict[str, Any], count: int, **more: Any) -> list[Any]:
    drafts = [{"content": f"Drawer {number} holds paper.", "kind": "topical", **more} for number in range(count)]
    answer = await shop.post(me, {"memories": drafts}, "/api/memories/batch")
    return list(answer.json()["outcomes"])


async def pages(shop: Shop, me: dict[str, Any], limit: int, query: str = "") -> list[list[Any]]:
    """All pages of the list."""
    found, cursor = [], ""
    while True:
        page = await shop.page(me, f"?limit={limit}{query}{cursor}")
        found.append(page["memories"])
        if "nextCursor" not in page:
            return found
        cursor = f"&cursor={page['nextCursor']}"


async def test_a_new_user_has_an_empty_list_and_positions(shop: Shop, me: dict[str, Any]) -> None:
    page = await shop.page(me)
    assert page["memories"] == []
    assert page.keys() == {"memories", "positions"}
    assert {scope: place["seq"] for scope, place in page["positions"].items()} == {"user": 0, "project": 0}
    assert all(place["epoch"] for place in page["positions"].values())


async def test_a_memory_has_the_fields_of_the_contract(shop: Shop, me: dict[str, Any]) -> None:
    saved = await shop.save(me, "Likes tea.", "operational", scope="project", sourceThreadIds=["t1"])
    (row,) = (await shop.page(me))["memories"]
    moment = row.pop("createdAt")
    assert row.pop("updatedAt") == moment
    assert row == {
        "id": saved["id"],
        "kind": "operational",
        "scope": "project",
        "content": "Likes tea.",
        "sourceThreadIds": ["t1"],
        "invalidatedAt": None,
        "recalledAt": None,
    }


async def test_times_are_rfc_3339_in_utc_with_z(shop: Shop, me: dict[str, Any]) -> None:
    before = datetime.now(UTC)
    saved = await shop.save(me, "Likes tea.")
    for name in TIMES:
        assert saved[name].endswith("Z")
        assert abs(datetime.fromisoformat(saved[name]) - before).total_seconds() < 5


async def test_an_id_is_a_uuid_of_version_7(shop: Shop, me: dict[str, Any]) -> None:
    saved = await shop.save(me, "Likes tea.")
    assert (saved["id"][14], len(saved["id"])) == ("7", 36)


async def test_the_newest_row_comes_first_over_both_scopes(shop: Shop, me: dict[str, Any]) -> None:
    for number, scope in enumerate(["user", "project", "user", "project"]):
        await shop.save(me, f"Drawer {number} holds paper.", scope=scope)
    assert await shop.listed(me) == [f"Drawer {number} holds paper." for number in (3, 2, 1, 0)]


async def test_absorbing_and_retiring_do_not_change_the_order(shop: Shop, me: dict[str, Any]) -> None:
    rows = await save_batch(shop, me, 3)
    await shop.save(me, "drawer 0 holds paper")
    await shop.retire(me, rows[1]["id"])
    listed = (await shop.page(me, "?includeInvalidated=true"))["memories"]
    assert [row["id"] for row in listed] == [row["id"] for row in reversed(rows)]


async def test_rows_of_one_moment_are_ordered_by_id(shop: Shop, me: dict[str, Any]) -> None:
    rows = await save_batch(shop, me, 6)
    await shop.rows("update memories set created_at = '2026-01-01T00:00:00Z' where project_id = $1")
    expected = sorted((row["id"] for row in rows), reverse=True)
    assert [row["id"] for row in (await shop.page(me))["memories"]] == expected


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 8])
async def test_pages_over_equal_times_show_each_row_once(shop: Shop, me: dict[str, Any], limit: int) -> None:
    await save_batch(shop, me, 4)
    await save_batch(shop, me, 3, scope="project")
    await shop.rows("update memories set created_at = '2026-01-01T00:00:00.000001Z' where project_id = $1")
    whole = [row["id"] for row in (await shop.page(me))["memories"]]
    found = await pages(shop, me, limit)
    assert [row["id"] for page in found for row in page] == whole
    assert all(len(page) == limit for page in found[:-1])
    assert found[-1]


async def test_the_last_full_page_has_no_cursor(shop: Shop, me: dict[str, Any]) -> None:
    await save_batch(shop, me, 4)
    assert "nextCursor" not in await shop.page(me, "?limit=4")
    assert "nextCursor" in await shop.page(me, "?limit=3")


async def test_a_row_saved_while_paging_does_not_shift_the_pages(shop: Shop, me: dict[str, Any]) -> None:
    rows = await save_batch(shop, me, 4)
    first = await shop.page(me, "?limit=2")
    await shop.save(me, "A newer thing.")
    second = await shop.page(me, f"?limit=2&cursor={first['nextCursor']}")
    assert [row["id"] for row in second["memories"]] == [rows[1]["id"], rows[0]["id"]]


async def test_a_cursor_shows_nothing_of_another_user(shop: Shop, me: dict[str, Any]) -> None:
    await save_batch(shop, me, 3)
    cursor = (await shop.page(me, "?limit=1"))["nextCursor"]
    page = await shop.page({**me, "X-Cpki-User-Id": "u2"}, f"?cursor={cursor}")
    assert page["memories"] == []


def forged(*parts: Any) -> str:
    return base64.urlsafe_b64encode(orjson.dumps(parts)).decode().rstrip("=")


ID = "01890000-0000-7000-8000-000000000000"


@pytest.mark.parametrize(
    "cursor",
    [
        pytest.param("", id="empty"),
        pytest.param("x", id="no base64"),
        pytest.param("%F0%9F%A6%8A", id="emoji"),
        pytest.param("x" * 257, id="long"),
        pytest.param(forged(), id="nothing"),
        pytest.param(forged("2026-01-01T00:00:00+00:00"), id="no id"),
        pytest.param(forged("2026-01-01T00:00:00", ID), id="no zone"),
        pytest.param(forged("2026-01-01T00:00:00Z", "1"), id="no uuid"),
        pytest.param(forged("2026-13-01T00:00:00Z", ID), id="month 13"),
        pytest.param(forged("0001-01-01T00:00:00+14:00", ID), id="before the first year"),
        pytest.param(forged("9999-12-31T23:59:59-14:00", ID), id="after the last year"),
        pytest.param(forged(5, ID), id="a number"),
        pytest.param(forged("2026-01-01T00:00:00Z", 5), id="a number for an id"),
        pytest.param(forged("2026-01-01T00:00:00Z", ID, 1), id="three parts"),
        pytest.param(forged({"a": 1}, ["b"]), id="other types"),
    ],
)
async def test_a_cursor_that_is_not_ours_is_400(shop: Shop, me: dict[str, Any], cursor: str) -> None:
    answer = await shop.client.get(f"/api/memories?cursor={cursor}", headers=me)
    assert list(faults_of(answer)) == ["cursor"]


@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00+00:00", "9999-12-31T23:59:59.999999+00:00"])
async def test_a_cursor_at_the_ends_of_time_is_a_page(shop: Shop, me: dict[str, Any], moment: str) -> None:
    await shop.save(me, "Likes tea.")
    page = await shop.page(me, f"?cursor={forged(moment, ID)}")
    assert len(page["memories"]) == (1 if moment[0] == "9" else 0)


@pytest.mark.parametrize("limit", ["1", "2000", "0002000"])
async def test_the_limits_ends_are_taken(shop: Shop, me: dict[str, Any], limit: str) -> None:
    assert (await shop.client.get(f"/api/memories?limit={limit}", headers=me)).status_code == 200


@pytest.mark.parametrize(
    "limit", ["0", "2001", "-1", "+5", "5.0", "5e0", "1_0", "%205", "0x5", "%D9%A5", "true", "9" * 400, "9" * 5000]
)
async def test_any_other_limit_is_400(shop: Shop, me: dict[str, Any], limit: str) -> None:
    answer = await shop.client.get(f"/api/memories?limit={limit}", headers=me)
    assert list(faults_of(answer)) == ["limit"]


async def test_retired_rows_are_shown_only_when_asked_for(shop: Shop, me: dict[str, Any]) -> None:
    rows = await save_batch(shop, me, 2)
    await shop.retire(me, rows[0]["id"])
    assert [row["id"] for row in (await shop.page(me))["memories"]] == [rows[1]["id"]]
    both = (await shop.page(me, "?includeInvalidated=true"))["memories"]
    assert [row["invalidatedAt"] is None for row in both] == [True, False]


@pytest.mark.parametrize("value", ["false", "True", "1", "", "yes"])
async def test_include_invalidated_is_true_or_left_out(shop: Shop, me: dict[str, Any], value: str) -> None:
    answer = await shop.client.get(f"/api/memories?includeInvalidated={value}", headers=me)
    assert list(faults_of(answer)) == ["includeInvalidated"]


@pytest.mark.parametrize("scope", ["user", "project"])
async def test_the_list_and_its_positions_hold_only_what_the_grant_reads(
    shop: Shop, me: dict[str, Any], scope: str
) -> None:
    for one in ("user", "project"):
        await shop.save(me, f"This is of the {one}.", scope=one)
    page = await shop.page({**me, "X-Cpki-Memory-Grant": f'{{"{scope}":"read"}}'})
    assert [row["scope"] for row in page["memories"]] == [scope]
    assert set(page["positions"]) == {scope}


async def test_positions_are_where_the_last_write_stands(shop: Shop, me: dict[str, Any]) -> None:
    saved = await shop.save(me, "Likes tea.")
    shared = await shop.save(me, "The team meets on Mondays.", scope="project")
    assert (await shop.page(me))["positions"] == {
        "user": {"epoch": saved["epoch"], "seq": saved["seq"]},
        "project": {"epoch": shared["epoch"], "seq": shared["seq"]},
    }


# --- The tag of an unchanged list


async def tag(shop: Shop, me: dict[str, Any], query: str = "") -> str:
    answer = await shop.client.get(f"/api/memories{query}", headers=me)
    assert answer.status_code == 200
    return answer.headers["etag"]


async def status(shop: Shop, me: dict[str, Any], known: str, query: str = "") -> int:
    answer = await shop.client.get(f"/api/memories{query}", headers={**me, "If-None-Match": known})
    assert answer.status_code == 200 or answer.content == b""
    return answer.status_code


@pytest.mark.parametrize("form", ["{tag}", "W/{tag}", '"x", {tag}', "*"])
async def test_an_unchanged_list_is_304_without_a_body(shop: Shop, me: dict[str, Any], form: str) -> None:
    await shop.save(me, "Likes tea.")
    known = await tag(shop, me)
    assert await status(shop, me, form.format(tag=known)) == 304


async def test_a_304_repeats_the_tag(shop: Shop, me: dict[str, Any]) -> None:
    known = await tag(shop, me)
    answer = await shop.client.get("/api/memories", headers={**me, "If-None-Match": known})
    assert answer.headers["etag"] == known


async def test_every_kind_of_write_changes_the_tag(shop: Shop, me: dict[str, Any]) -> None:
    tags = [await tag(shop, me)]
    saved = await shop.save(me, "Likes tea.")
    tags.append(await tag(shop, me))
    await shop.save(me, "likes tea")
    tags.append(await tag(shop, me))
    await shop.save(me, "Shared.", scope="project")
    tags.append(await tag(shop, me))
    await shop.retire(me, saved["id"])
    tags.append(await tag(shop, me))
    await shop.restore(me, saved["id"])
    tags.append(await tag(shop, me))
    await shop.supersede(me, saved["id"], "Likes coffee.")
    tags.append(await tag(shop, me))
    assert len(set(tags)) == len(tags)
    assert [await status(shop, me, one) for one in tags] == [200] * 6 + [304]


async def test_what_changes_nothing_keeps_the_tag(shop: Shop, me: dict[str, Any]) -> None:
    saved = await shop.save(me, "Likes tea.")
    await shop.retire(me, saved["id"])
    known = await tag(shop, me)
    await shop.retire(me, saved["id"])
    await shop.recall(me, "tea")
    await shop.save({**me, "X-Cpki-User-Id": "u2"}, "Likes tea.")
    assert await status(shop, me, known) == 304


async def test_another_user_never_shares_the_tag(shop: Shop, me: dict[str, Any]) -> None:
    known = await tag(shop, me)
    assert await status(shop, {**me, "X-Cpki-User-Id": "u2"}, known) == 200


async def test_another_grant_or_query_never_shares_the_tag(shop: Shop, me: dict[str, Any]) -> None:
    known = await tag(shop, me)
    for grant in ('{"user":"read"}', '{"project":"read"}'):
        assert await status(shop, {**me, "X-Cpki-Memory-Grant": grant}, known) == 200
    for query in ("?limit=1", "?includeInvalidated=true"):
        assert await status(shop, me, known, query) == 200


async def test_a_tag_does_not_skip_the_checks(shop: Shop, me: dict[str, Any]) -> None:
    known = {"If-None-Match": await tag(shop, me)}
    assert error_of(await shop.client.get("/api/memories", headers=known)) == (401, "UNAUTHENTICATED")
    assert error_of(await shop.client.get("/api/memories?x=1", headers={**me, **known}))[0] == 400
    assert (
        error_of(await shop.client.get("/api/memories", headers={**me, **known, "X-Cpki-Memory-Grant": "{}"}))[0] == 403
    )
