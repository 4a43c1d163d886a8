"""One service for the stream's tests of a worker; each test has a project of its own."""

from collections.abc import AsyncIterator

import pytest_asyncio

from integration.stream.house import Person, Stream, migrated, serving
from memlane.embedded.postgres import EmbeddedPostgres
from memlane.usecases.ports import Embedder
from support.postgres import private_server
from support.service import Deployment


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def lone_postgres() -> AsyncIterator[EmbeddedPostgres]:
    """A server of the newest version: nothing here depends on the version. Do not stop it."""
    async with private_server() as server:
        yield server


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def lone_deployment(lone_postgres: EmbeddedPostgres) -> Deployment:
    """A database for every service of this worker."""
    return await migrated(lone_postgres)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def stream(lone_deployment: Deployment, embedder: Embedder) -> AsyncIterator[Stream]:
    """The service that most tests share. Change nothing but a project of your own."""
    async with serving(lone_deployment, embedder) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="session")
async def person(stream: Stream) -> Person:
    """A user of a fresh project on the shared service."""
    return await stream.person()
