"""While Postgres does not answer, whoever waits is held; nothing is answered with an error for a passing fault."""

import asyncio
import time
from collections.abc import AsyncIterator

import pytest_asyncio

from integration.stream.house import Person, Stream, Tickets, metric, migrated, serving
from memlane.embedded.postgres import EmbeddedPostgres
from memlane.usecases.ports import Embedder
from support.postgres import private_server
from support.stream_client import StreamClient, opened, refused

UPGRADE_BOUND = 6.0
JOIN_BOUND = 8.0
"""Longest hold of upgrade and first join together (realtime.md)."""
MARGIN = 2.5
"""One more try may begin just before the bound; it has a time limit of its own."""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def mortal_postgres() -> AsyncIterator[EmbeddedPostgres]:
    """A server that these tests stop and start."""
    async with private_server() as server:
        yield server


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def mortal(mortal_postgres: EmbeddedPostgres, embedder: Embedder) -> AsyncIterator[Stream]:
    """A service on it."""
    async with serving(await migrated(mortal_postgres), embedder) as stream:
        yield stream


def errors(client: StreamClient) -> list[object]:
    return [one.payload for one in client.frames if one.event == "phx_error" or one.payload.get("status") == "error"]


async def open_and_join(person: Person, tickets: Tickets) -> StreamClient:
    async with opened(person.url, tickets.token) as client:
        await client.joined(tickets.topic)
        return client


async def test_an_upgrade_waits_for_the_database_and_then_opens(
    mortal: Stream, mortal_postgres: EmbeddedPostgres
) -> None:
    person = await mortal.person()
    tickets = await person.tickets()
    await mortal_postgres.stop()
    try:
        opening = asyncio.ensure_future(open_and_join(person, tickets))
        await asyncio.sleep(2)
        assert not opening.done()
        assert metric("memlane_stream_held_upgrades") == 1
    finally:
        await mortal_postgres.start()
    client = await opening
    assert errors(client) == []
    assert metric("memlane_stream_held_upgrades") == 0


async def test_a_join_waits_for_the_database_and_is_then_answered(
    mortal: Stream, mortal_postgres: EmbeddedPostgres
) -> None:
    person = await mortal.person()
    tickets = await person.tickets()
    async with opened(person.url, tickets.token) as client:
        await mortal_postgres.stop()
        try:
            joining = asyncio.ensure_future(client.joined(tickets.topic))
            await asyncio.sleep(2)
            assert client.frames == []
        finally:
            await mortal_postgres.start()
        await joining
        saved = await person.save("After the outage.")
        assert (await client.has(1))[0]["memoryId"] == saved["id"]


async def test_an_open_socket_outlives_the_outage_and_loses_nothing(
    mortal: Stream, mortal_postgres: EmbeddedPostgres
) -> None:
    person = await mortal.person()
    async with person.listening(fence=False) as client:
        await person.save("Before the outage.")
        await mortal_postgres.stop()
        await asyncio.sleep(1)
        await mortal_postgres.start()
        await (await person.channel()).grow(3)
        await client.has(4)
        assert client.seqs() == [1, 2, 3, 4]
        assert errors(client) == []
        assert client.closed_at is None


async def test_past_the_bound_an_upgrade_gets_503_and_a_first_join_a_close_and_never_an_error(
    mortal: Stream, mortal_postgres: EmbeddedPostgres
) -> None:
    person = await mortal.person()
    tickets = await person.tickets()
    async with opened(person.url, tickets.token) as client:
        began = time.monotonic()
        await mortal_postgres.stop()
        try:
            upgrading = asyncio.ensure_future(refused(person.url, tickets.token))
            await client.send("1", "1", tickets.topic, "phx_join")
            refusal = await upgrading
            assert refusal.status == 503
            assert UPGRADE_BOUND - 1 < refusal.seconds < UPGRADE_BOUND + MARGIN
            assert await client.closed(JOIN_BOUND + MARGIN) == 1012
            assert JOIN_BOUND - 1 < time.monotonic() - began < JOIN_BOUND + MARGIN
            assert client.frames == []
        finally:
            await mortal_postgres.start()
    async with opened(person.url, tickets.token) as again:
        await again.joined(tickets.topic)


async def test_a_later_join_may_wait_as_long_as_a_first_one(mortal: Stream, mortal_postgres: EmbeddedPostgres) -> None:
    person = await mortal.person()
    tickets = await person.tickets()
    async with opened(person.url, tickets.token) as client:
        await client.joined(tickets.topic)
        for subscription in mortal.process.sessions.clients if mortal.process.sessions else ():
            subscription.began -= 3600
        await mortal_postgres.stop()
        try:
            joining = asyncio.ensure_future(client.joined(tickets.project_topic))
            await asyncio.sleep(1.5)
            assert client.closed_at is None
        finally:
            await mortal_postgres.start()
        await joining
