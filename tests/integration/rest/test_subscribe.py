"""POST and DELETE /api/memories/subscribe: tokens for a caller's own topics, and log-out."""

from datetime import UTC, datetime
from typing import Any

import pytest

from integration.rest.house import GRANTS, Shop
from memlane.auth.join_tokens import JoinTokens, parse_join_secrets
from memlane.auth.stream_tickets import StreamTickets
from memlane.domain.lane import LaneMode
from memlane.domain.stream import JoinClaims
from support.service import JOIN_SECRET

USER = {"joinToken", "joinCode"}
PROJECT = {"projectJoinToken", "projectJoinCode"}


async def subscribe(shop: Shop, me: dict[str, Any], **changes: str) -> dict[str, str]:
    answer = await shop.client.post("/api/memories/subscribe", headers={**me, **changes})
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def claims_of(token: str) -> JoinClaims:
    return StreamTickets(JoinTokens(parse_join_secrets(JOIN_SECRET))).verify(token)


@pytest.mark.parametrize("user", GRANTS)
@pytest.mark.parametrize("project", GRANTS)
async def test_a_pair_is_left_out_where_the_grant_is_none(
    shop: Shop, me: dict[str, Any], user: str, project: str
) -> None:
    if user == project == "none":
        return  # refused, see test_matrix
    grant = f'{{"user":"{user}","project":"{project}"}}'
    told = await subscribe(shop, me, **{"X-Cpki-Memory-Grant": grant})
    assert set(told) == (USER if user != "none" else set()) | (PROJECT if project != "none" else set())


@pytest.mark.parametrize("body", [b"", b"{}", b" \n"])
async def test_the_body_may_be_empty_or_an_empty_object(shop: Shop, me: dict[str, Any], body: bytes) -> None:
    answer = await shop.client.post("/api/memories/subscribe", headers=me, content=body)
    assert answer.status_code == 200


async def test_a_read_only_lane_may_subscribe(shop: Shop) -> None:
    assert await subscribe(shop, await shop.headers(lane="quiet", mode=LaneMode.READ_ONLY))


async def test_codes_are_the_channels_own_and_stay(shop: Shop, me: dict[str, Any]) -> None:
    mine, again, theirs = (
        await subscribe(shop, me),
        await subscribe(shop, me),
        await subscribe(shop, me, **{"X-Cpki-User-Id": "u2"}),
    )
    assert mine["joinCode"] == again["joinCode"] != theirs["joinCode"]
    assert mine["projectJoinCode"] == theirs["projectJoinCode"]
    other = Shop(shop.service)
    assert (await subscribe(other, await other.headers()))["projectJoinCode"] != mine["projectJoinCode"]


async def test_a_token_is_bound_to_its_caller_and_channel(shop: Shop, me: dict[str, Any]) -> None:
    me = {**me, "X-Cpki-User-Id": "🦊".encode()}
    told = await subscribe(shop, me, **{"X-Cpki-Memory-Grant": '{"user":"read","project":"read-write"}'})
    user, project = claims_of(told["joinToken"]), claims_of(told["projectJoinToken"])
    assert (user.scope, project.scope) == ("user", "project")
    assert (user.join_code, project.join_code) == (told["joinCode"], told["projectJoinCode"])
    assert {user.user, project.user} == {"🦊"}
    assert {user.key_id, project.key_id} == {me["Authorization"].split("_")[1]}
    assert user.grant.user == "read"
    assert user.session_id != project.session_id
    assert abs((datetime.now(UTC) - user.issued_at).total_seconds()) < 5


async def test_a_tokens_cursor_lies_before_what_changed_within_a_minute(shop: Shop, me: dict[str, Any]) -> None:
    for number in range(3):
        await shop.save(me, f"Drawer {number} holds paper.")
    assert claims_of((await subscribe(shop, me))["joinToken"]).cursor == 0
    await shop.rows("update memories set updated_at = updated_at - interval '61 seconds' where project_id = $1")
    assert claims_of((await subscribe(shop, me))["joinToken"]).cursor == 3


async def test_logging_out_is_noted_for_this_user_alone(shop: Shop, me: dict[str, Any]) -> None:
    answer = await shop.client.delete("/api/memories/subscribe", headers=me)
    assert (answer.status_code, answer.content) == (204, b"")
    rows = await shop.rows("select user_id from stream_logouts where project_id = $1")
    assert [row[0] for row in rows] == ["u1"]


async def test_logging_out_twice_is_fine(shop: Shop, me: dict[str, Any]) -> None:
    answers = [await shop.client.delete("/api/memories/subscribe", headers=me) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [204, 204]
