"""Join tokens: what a token opens, how long it serves, and what ends it."""

import asyncio
import time
from base64 import b64encode, urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta

import jwt
import orjson
import pytest

from integration.stream.house import (
    Person,
    Stream,
    Tickets,
    Watch,
    claims_of,
    database_of,
    metric,
    migrated,
    resigned,
    serving,
)
from memlane.domain.grant import Access, Grant
from memlane.embedded.postgres import EmbeddedPostgres
from memlane.realtime import endpoint
from memlane.usecases.ports import Embedder
from support.service import JOIN_SECRET, Deployment
from support.stream_client import StreamClient, opened, refused

HELD = 2.0
"""How long a refusal for good is held, in seconds."""
AT_ONCE = 1.5
"""Well below the 2 s of a refusal that is held, on a machine that others use too."""
REVOKED_WITHIN = 5.0


def parts_of(token: str) -> tuple[str, str, str]:
    header, payload, signature = token.split(".")
    return header, payload, signature


def encoded(value: object) -> str:
    return urlsafe_b64encode(orjson.dumps(value)).rstrip(b"=").decode()


def decoded(segment: str) -> dict[str, object]:
    return dict(orjson.loads(urlsafe_b64decode(segment + "=" * (-len(segment) % 4))))


def _edited(token: str) -> str:
    header, payload, signature = parts_of(token)
    return f"{header}.{encoded({**decoded(payload), 'u': 'somebody-else'})}.{signature}"


def _of_algorithm_none(token: str) -> str:
    return f"{encoded({'alg': 'none', 'typ': 'join'})}.{parts_of(token)[1]}."


def _of_algorithm_none_with_a_signature(token: str) -> str:
    _, payload, signature = parts_of(token)
    return f"{encoded({'alg': 'none', 'typ': 'join'})}.{payload}.{signature}"


def _of_another_algorithm(token: str) -> str:
    claims = decoded(parts_of(token)[1])
    return jwt.encode(claims, JOIN_SECRET * 2, algorithm="HS512", headers={"typ": "join"})


def _of_another_secret(token: str) -> str:
    claims = decoded(parts_of(token)[1])
    return jwt.encode(claims, "another-secret-that-has-32-bytes!!", algorithm="HS256", headers={"typ": "join"})


def _unsigned(token: str) -> str:
    return ".".join(parts_of(token)[:2])


@pytest.mark.parametrize(
    "forge",
    [
        _edited,
        _of_algorithm_none,
        _of_algorithm_none_with_a_signature,
        _of_another_algorithm,
        _of_another_secret,
        _unsigned,
        lambda _token: "",
        lambda _token: None,
        lambda _token: "x" * 5000,
        lambda token: token + "x",
        lambda token: f"{token}&join_token={token}",
    ],
)
async def test_a_token_that_is_not_ours_is_refused_at_once(person: Person, forge: Callable[[str], str | None]) -> None:
    refusal = await refused(person.url, forge((await person.tickets()).token))
    assert refusal.status == 403
    assert refusal.seconds < AT_ONCE


async def test_a_token_given_twice_is_refused_at_once(person: Person) -> None:
    token = (await person.tickets()).token
    answer = await person.service.client.get(
        f"/client/websocket?join_token={token}&join_token={token}&vsn=2.0.0",
        headers={
            "Connection": "Upgrade",
            "Upgrade": "websocket",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
        },
    )
    assert answer.status_code == 403


def offered(token: str) -> list[str]:
    """What the npm client offers for a token that it was given as its ``authToken``."""
    return ["phoenix", "base64url.bearer.phx." + b64encode(token.encode()).decode().rstrip("=")]


async def test_a_token_is_taken_as_a_subprotocol_and_the_answer_names_phoenix_alone(person: Person) -> None:
    tickets = await person.tickets()
    async with opened(person.url, None, subprotocols=offered(tickets.token)) as client:
        await client.joined(tickets.topic)
        assert client.socket.subprotocol == "phoenix"
        assert tickets.token not in str(client.socket.response)


async def test_without_an_offer_no_subprotocol_is_answered(person: Person) -> None:
    async with opened(person.url, (await person.tickets()).token) as client:
        assert client.socket.subprotocol is None


async def test_a_subprotocol_opens_no_more_than_the_query_does(person: Person) -> None:
    token = (await person.tickets()).token
    for text in (_edited(token), _unsigned(token), "", "x" * 5000):
        refusal = await refused(person.url, None, subprotocols=offered(text))
        assert refusal.status == 403
        assert refusal.seconds < AT_ONCE


async def test_a_token_in_both_places_is_refused_at_once(person: Person) -> None:
    token = (await person.tickets()).token
    refusal = await refused(person.url, token, subprotocols=offered(token))
    assert refusal.status == 403
    assert refusal.seconds < AT_ONCE


async def test_another_users_topic_is_unmatched(person: Person) -> None:
    theirs = await person.other("u2").tickets()
    async with opened(person.url, (await person.tickets()).token) as client:
        reply = await client.join(theirs.topic, ref="1")
        assert reply.payload == {"status": "error", "response": {"reason": "unmatched topic"}}
        await person.other("u2").save("A secret of the second user.")
        await client.round_trip()
        assert client.events() == []


async def test_another_projects_topics_are_unmatched(person: Person, stream: Stream) -> None:
    elsewhere = await (await stream.person(user="u1")).tickets()
    mine = await person.tickets()
    for token in (mine.token, mine.project_token):
        async with opened(person.url, token) as client:
            for topic in (elsewhere.topic, elsewhere.project_topic):
                assert (await client.join(topic)).payload["response"] == {"reason": "unmatched topic"}


async def test_a_topics_code_under_the_other_scope_is_unmatched(person: Person) -> None:
    tickets = await person.tickets()
    async with opened(person.url, tickets.token) as client:
        for topic in (
            tickets.topic.replace("user_meta", "project_meta"),
            tickets.project_topic.replace("project_meta", "user_meta"),
        ):
            assert (await client.join(topic)).payload["response"] == {"reason": "unmatched topic"}


async def test_a_grant_without_the_project_opens_no_project_topic(person: Person) -> None:
    tickets = await person.tickets()
    narrow = resigned(tickets.token, grant=Grant(user=Access.READ, project=Access.NONE))
    async with opened(person.url, narrow) as client:
        assert (await client.join(tickets.project_topic)).payload["response"] == {"reason": "unmatched topic"}
        await client.joined(tickets.topic)


async def test_a_fifth_socket_of_one_token_is_held_and_refused_until_one_is_gone(person: Person) -> None:
    tickets = await person.tickets()
    async with AsyncExitStack() as sockets:
        four = [await sockets.enter_async_context(opened(person.url, tickets.token)) for _ in range(4)]
        refusal = await refused(person.url, tickets.token)
        assert refusal.status == 403
        assert HELD <= refusal.seconds < HELD + 1
        async with opened(person.url, (await person.tickets()).token) as another:
            await another.joined(tickets.topic)
        await four[0].cut()
        async with opened(person.url, tickets.token) as fifth:
            await fifth.joined(tickets.topic)


async def test_a_token_unused_for_120_s_is_held_and_refused(person: Person) -> None:
    token = (await person.tickets()).token
    now = datetime.now(UTC)
    refusal = await refused(person.url, resigned(token, issued_at=now - timedelta(seconds=123)))
    assert refusal.status == 403
    assert HELD <= refusal.seconds < HELD + 1
    async with opened(person.url, resigned(token, issued_at=now - timedelta(seconds=110))):
        pass


async def test_a_token_once_used_serves_reconnects_until_its_session_ends(person: Person) -> None:
    tickets = await person.tickets()
    async with opened(person.url, tickets.token):
        pass
    later = resigned(tickets.token, issued_at=datetime.now(UTC) - timedelta(hours=23))
    await begun_hours_ago(person, tickets, 23)
    async with opened(person.url, later) as client:
        await client.joined(tickets.topic)


async def begun_hours_ago(person: Person, tickets: Tickets, hours: int) -> None:
    await person.service.deployment.execute(
        "update stream_sessions set first_used_at = now() - make_interval(hours => $2) where session_id = $1",
        claims_of(tickets.token).session_id,
        hours,
    )


async def test_after_a_rotation_of_secrets_the_old_tokens_serve_and_new_ones_are_signed_anew(
    person: Person, lone_deployment: Deployment, embedder: Embedder
) -> None:
    tickets = await person.tickets()
    rotated = f"a-newer-join-secret-of-32-bytes-or-so,{JOIN_SECRET}"
    async with serving(lone_deployment, embedder, join_secrets=rotated) as newer:
        async with opened(newer.service.url, tickets.token) as client:
            await client.joined(tickets.topic)
        answer = await newer.service.client.post("/api/memories/subscribe", headers=person.headers)
        fresh = answer.json()["joinToken"]
        async with opened(newer.service.url, fresh) as client:
            await client.joined(tickets.topic)
        assert (await refused(person.url, fresh)).seconds < AT_ONCE, "the old process does not know the new secret"


# What ends a session.

Act = Callable[[Person, Tickets], Awaitable[None]]


async def _key_revoked(person: Person, tickets: Tickets) -> None:
    await person.service.deployment.execute(
        "update runtime_keys set revoked_at = now() where short = $1", claims_of(tickets.token).key_id
    )


async def _key_expired(person: Person, tickets: Tickets) -> None:
    await person.service.deployment.execute(
        "update runtime_keys set expires_at = now() where short = $1", claims_of(tickets.token).key_id
    )


async def _lane_off(person: Person, tickets: Tickets) -> None:
    await person.service.deployment.execute(
        "update lanes set mode = 'off' where project_id = $1", claims_of(tickets.token).project
    )


async def _logged_out(person: Person, _tickets: Tickets) -> None:
    answer = await person.service.client.delete("/api/memories/subscribe", headers=person.headers)
    assert answer.status_code == 204, answer.text


async def _session_over_24_hours(person: Person, tickets: Tickets) -> None:
    await begun_hours_ago(person, tickets, 25)


async def _epoch_changed(person: Person, _tickets: Tickets) -> None:
    channel = await person.channel()
    await channel.deployment.execute("update channels set epoch = 'restored' where id = $1", channel.id)


@pytest.mark.parametrize(
    "end", [_key_revoked, _key_expired, _lane_off, _logged_out, _session_over_24_hours, _epoch_changed]
)
async def test_what_ends_a_session_silences_it_within_5_s_and_refuses_it_afterwards(person: Person, end: Act) -> None:
    tickets = await person.tickets()
    async with opened(person.url, tickets.token) as client:
        await client.joined(tickets.topic)
        await end(person, tickets)
        await assert_ended(client, person, tickets)


async def assert_ended(client: StreamClient, person: Person, tickets: Tickets) -> None:
    began = time.monotonic()
    assert await client.closed(REVOKED_WITHIN) == 1012
    assert time.monotonic() - began < REVOKED_WITHIN
    refusal = await refused(person.url, tickets.token)
    assert refusal.status == 403
    assert HELD <= refusal.seconds < HELD + 1


async def test_a_log_out_ends_the_user_on_all_devices_and_nobody_else(person: Person) -> None:
    tickets, again = await person.tickets(), await person.tickets()
    other = person.other("u2")
    theirs = await other.tickets()
    async with (
        opened(person.url, tickets.token) as first,
        opened(person.url, again.project_token) as second,
        opened(person.url, theirs.token) as bystander,
    ):
        await bystander.joined(theirs.topic)
        await _logged_out(person, tickets)
        assert await first.closed(REVOKED_WITHIN) == 1012
        assert await second.closed(REVOKED_WITHIN) == 1012
        await other.save("Still here.")
        await bystander.has(1)
    fresh = await person.tickets()
    async with opened(person.url, fresh.token) as client:
        await client.joined(fresh.topic)


async def test_a_withdrawn_entitlement_ends_the_session_and_one_that_cannot_be_read_holds_the_upgrade(
    lone_postgres: EmbeddedPostgres, embedder: Embedder
) -> None:
    deployment = await migrated(lone_postgres)
    await deployment.project()
    await deployment.execute("insert into plans (code, features) values ('pro', '{\"memory\": true}')")
    await deployment.execute("update organizations set plan_code = 'pro'")
    async with serving(deployment, embedder, deployment_mode="managed", license=None, license_keys=None) as stream:
        person = await stream.person()
        tickets = await person.tickets()
        async with opened(person.url, tickets.token) as client:
            await client.joined(tickets.topic)
            blocker = await database_of(deployment)
            try:
                async with blocker.transaction():
                    await blocker.execute("lock table plans in access exclusive mode")
                    opening = asyncio.ensure_future(_opens(person, tickets))
                    await asyncio.sleep(2.5)
                    assert not opening.done(), "held, and not refused"
                    assert metric("memlane_stream_held_upgrades") == 1
                await opening
            finally:
                await blocker.close()
            assert client.closed_at is None, "what cannot be read now ends nothing"
            await deployment.execute("update plans set features = '{\"memory\": false}'")
            await assert_ended(client, person, tickets)


async def _opens(person: Person, tickets: Tickets) -> None:
    async with opened(person.url, tickets.token) as client:
        await client.joined(tickets.topic)


async def test_a_flood_of_unsigned_tokens_is_refused_at_once_and_holds_nothing(person: Person) -> None:
    token = _unsigned((await person.tickets()).token) + ".c2lnbmF0dXJl"
    refusals = Watch("memlane_stream_refusals_total", {"reason": "token_bad_signature"})
    began, most_held = time.monotonic(), 0.0
    flood = asyncio.gather(*(refused(person.url, token) for _ in range(200)))
    while not flood.done():
        most_held = max(most_held, metric("memlane_stream_held_upgrades"))
        await asyncio.sleep(0.01)
    assert {refusal.status for refusal in await flood} == {403}
    assert time.monotonic() - began < 5
    assert most_held == 0
    assert refusals.moved == 200


async def test_held_upgrades_are_capped_for_the_process(person: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    stale = resigned((await person.tickets()).token, issued_at=datetime.now(UTC) - timedelta(seconds=200))
    monkeypatch.setattr(endpoint, "HELD_MAX", 2)
    refusals = await asyncio.gather(*(refused(person.url, stale) for _ in range(5)))
    assert sorted(refusal.status for refusal in refusals) == [403, 403, 503, 503, 503]
    assert all(refusal.seconds < AT_ONCE for refusal in refusals if refusal.status == 503)
    assert metric("memlane_stream_held_upgrades") == 0


async def test_a_client_that_gives_up_while_it_is_held_leaves_nothing_behind(person: Person) -> None:
    stale = resigned((await person.tickets()).token, issued_at=datetime.now(UTC) - timedelta(seconds=200))
    async with asyncio.TaskGroup() as group:
        waiting = [group.create_task(refused(person.url, stale)) for _ in range(3)]
        await asyncio.sleep(0.3)
        assert metric("memlane_stream_held_upgrades") == 3
        for one in waiting:
            one.cancel()
    await asyncio.sleep(HELD)
    assert metric("memlane_stream_held_upgrades") == 0
