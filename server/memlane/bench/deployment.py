"""The database that is measured on, and the `memlane api` process in front of it."""

import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import asyncpg
import numpy as np
import uuid_utils

from memlane.auth.licenses import generate_keypair, mint_license
from memlane.auth.runtime_keys import mint_runtime_key
from memlane.bench.corpus import sentence
from memlane.domain.canonical import CANONICAL_VERSION, absorb_key
from memlane.domain.errors import MemlaneError
from memlane.domain.grant import FULL_GRANT
from memlane.domain.memory import Kind
from memlane.domain.spaces import EmbeddingSpace
from memlane.domain.terms import TERMS_VERSION, index_terms
from memlane.embedding.local import LocalEmbedder
from memlane.storage.migrate import migrate
from memlane.storage.pool import Pool, PoolLimits
from memlane.storage.statements import statement
from memlane.storage.tenants import NewKey, Tenants

SLUG = "bench"
HOST = "127.0.0.1"
POOL_SIZE = 16
"""Connections of either side, as `memlane api` has by default."""
EMBEDDED_SENTENCES = 2_000
"""So many sentences get the model's own vector; every further memory gets one of these, slightly turned."""
TURN = 0.2
"""Length of the random part that is added to a unit vector before it is scaled back to length 1."""
START_SECONDS = 60.0
STOP_SECONDS = 20.0
_CHUNK = 200
_SETTINGS = ("MEMLANE_", "MEMORY_", "DATABASE_URL", "REDIS_URL")

_SEED_CHANNEL = "insert into channels (project_id, id, scope, user_id, seq) values ($1, $2, 'user', $3, $4)"
_SEED_MEMORY = """
insert into memories (project_id, channel_id, id, scope, kind, content, created_at, updated_at, seq, absorb_key,
                      canonical_version, terms, terms_version, space_id, embedding)
values ($1, $2, $3, 'user', $4, $5, $6, $6, $7, $8, $9, $10, $11, $12, $13::real[]::halfvec)
"""
_SEED_LEDGER = """
insert into write_ledger (project_id, channel_id, seq, memory_id, operation, lane_id, lane_name, source_trust,
                          request_id, written_at)
select m.project_id, m.channel_id, m.seq, m.id, 'created', l.id, l.name, l.trust, 'bench', m.created_at
  from memories m join lanes l on l.project_id = m.project_id
"""


class BenchFailed(MemlaneError):
    """The measurement could not go on; the message says why."""


@dataclass(frozen=True, slots=True)
class Seed:
    """How much is in the database before anything is measured."""

    users: int
    memories_of_each: int

    @property
    def memories(self) -> int:
        """In all."""
        return self.users * self.memories_of_each


@dataclass(frozen=True, slots=True)
class Deployment:
    """All that both sides need to ask the same thing."""

    dsn: str
    key: str
    project_id: str
    key_id: str
    lane_id: str
    lane_name: str
    trust: str
    space_id: int
    users: int
    port: int

    def user(self, number: int) -> str:
        """Whose request this is: the users take turns."""
        return user_named(number % self.users)


def user_named(number: int) -> str:
    """The id of the user of this number."""
    return f"user-{number}"


def kind_of(number: int) -> Kind:
    """The kind of the memory of this number: they take turns."""
    kinds: tuple[Kind, ...] = ("topical", "episodic", "operational")
    return kinds[number % 3]


async def prepare(dsn: str, seed: Seed, *, on_memories: Callable[[int], None]) -> Deployment:
    """Migrate a fresh database and fill it.

    Args:
        dsn: An empty database.
        seed: How much to put in.
        on_memories: Told how many memories were added.
    """
    await migrate(dsn)
    token = mint_runtime_key(SLUG)
    pool = Pool(dsn, PoolLimits(max_size=1))
    try:
        tenants = Tenants(pool)
        project = await tenants.ensure_project(SLUG, SLUG)
        await tenants.add_key(project, NewKey(token.short, token.hash(), SLUG, FULL_GRANT))
    finally:
        await pool.aclose()
    embedder = LocalEmbedder(time_limit=60.0)
    connection = await asyncpg.connect(dsn, timeout=10)
    try:
        key = await connection.fetchrow(statement("find_key"), token.short)
        if key is None:
            raise BenchFailed("the runtime key is not in the database")
        space_id = await _space_id(connection, embedder.space)
        vectors = await _vectors(embedder, min(EMBEDDED_SENTENCES, seed.memories))
        await _fill(connection, key["project_id"], space_id, seed, vectors, on_memories)
    finally:
        await connection.close()
        await embedder.aclose()
    return Deployment(
        dsn=dsn,
        key=token.reveal(),
        project_id=key["project_id"],
        key_id=key["id"],
        lane_id=key["lane_id"],
        lane_name=key["lane_name"],
        trust=key["trust"],
        space_id=space_id,
        users=seed.users,
        port=_free_port(),
    )


async def _space_id(connection: "asyncpg.Connection[asyncpg.Record]", space: EmbeddingSpace) -> int:
    names = (space.provider, space.model, space.dimensions, space.fingerprint)
    await connection.execute(statement("ensure_space"), *names)
    return int(await connection.fetchval(statement("find_space"), *names))


async def _vectors(embedder: LocalEmbedder, count: int) -> np.ndarray:
    vectors: list[list[float]] = []
    for start in range(0, count, _CHUNK):
        vectors += await embedder.embed_documents([sentence(n) for n in range(start, min(count, start + _CHUNK))])
    return np.array(vectors, dtype=np.float32)


async def _fill(
    connection: "asyncpg.Connection[asyncpg.Record]",
    project_id: str,
    space_id: int,
    seed: Seed,
    vectors: np.ndarray,
    on_memories: Callable[[int], None],
) -> None:
    chance = np.random.default_rng(20_000)
    now = datetime.now(UTC)
    for user in range(seed.users):
        channel_id, name = str(uuid_utils.uuid7()), user_named(user)
        numbers = range(user * seed.memories_of_each, (user + 1) * seed.memories_of_each)
        await connection.execute(_SEED_CHANNEL, project_id, channel_id, name, len(numbers))
        rows = []
        for seq, number in enumerate(numbers, start=1):
            content = sentence(number)
            rows.append(
                (
                    *(project_id, channel_id, str(uuid_utils.uuid7()), kind_of(number), content),
                    *(now - timedelta(minutes=seed.memories - number), seq),
                    *(absorb_key(content, scope="user", user_id=name, now=now), CANONICAL_VERSION),
                    *(index_terms(content), TERMS_VERSION, space_id, _vector(vectors, number, chance)),
                )
            )
        await connection.executemany(_SEED_MEMORY, rows)
        on_memories(len(rows))
    await connection.execute(_SEED_LEDGER)
    await connection.execute("vacuum analyze")
    await connection.execute("checkpoint")


def _vector(vectors: np.ndarray, number: int, chance: np.random.Generator) -> list[float]:
    if number < len(vectors):
        return list(map(float, vectors[number]))
    turn = chance.standard_normal(vectors.shape[1])
    turned = vectors[number % len(vectors)] + TURN * turn / np.linalg.norm(turn)
    return list(map(float, turned / np.linalg.norm(turned)))


def environment_of(deployment: Deployment) -> dict[str, str]:
    """This process's variables, with the settings of `memlane api` for this database in place of any other."""
    signer, now = generate_keypair(), datetime.now(UTC)
    license_token = mint_license(
        signer.private_pem,
        key_id=SLUG,
        organization=SLUG,
        plan="enterprise",
        features={"memory": True},
        limits={},
        not_before=now - timedelta(minutes=5),
        expires_at=now + timedelta(days=1),
        now=now,
    )
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith(_SETTINGS)},
        "DATABASE_URL": deployment.dsn,
        "MEMLANE_DATABASE_POOL": str(POOL_SIZE),
        "MEMLANE_DEPLOYMENT_MODE": "self_hosted",
        "MEMLANE_JOIN_SECRETS": secrets.token_hex(32),
        "MEMLANE_LICENSE": license_token,
        "MEMLANE_LICENSE_KEYS": f"{SLUG}:{signer.public}",
        "MEMORY_EMBEDDINGS_URL": "local://minilm",
        "MEMORY_EMBEDDING_MODEL": "all-MiniLM-L6-v2-int8",
        "MEMORY_EMBEDDING_DIMENSIONS": "384",
    }


@contextmanager
def api_process(deployment: Deployment, log_path: Path) -> Iterator[int]:
    """Run `memlane api` as an operator would, with its log in a file, and give its process id.

    Raises:
        BenchFailed: It did not become ready; the message ends with its log.
    """
    words: Sequence[str] = (
        *(sys.executable, "-m", "memlane", "api"),
        *("--host", HOST, "--port", str(deployment.port)),
    )
    with log_path.open("wb") as log:
        process = subprocess.Popen(words, env=environment_of(deployment), stderr=log, stdout=log)  # noqa: S603 - our own program
    try:
        _wait_until_ready(process, deployment.port, log_path)
        yield process.pid
    finally:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_until_ready(process: "subprocess.Popen[bytes]", port: int, log_path: Path) -> None:
    end = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < end:
        try:
            with urlopen(f"http://{HOST}:{port}/api/ready", timeout=5):
                return
        except (URLError, OSError):
            time.sleep(0.1)
    tail = log_path.read_text(encoding="utf-8", errors="replace")[-2000:].strip()
    raise BenchFailed(f"memlane api did not become ready; its log says:\n{tail}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])
