"""What a backup and a restore ask of the database: counts of one moment, fresh epochs, and the proof of recall."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import asyncpg
import numpy as np

from memlane.domain.errors import Misconfigured, StorageUnavailable
from memlane.domain.scoring import CENTERING_PRIOR, FusionWeights
from memlane.storage.pool import Connection, Pool, PoolLimits, refusal_of_connection, translated
from memlane.storage.statements import statement
from memlane.storage.store import PostgresStore
from memlane.usecases.ports import SpaceVector
from memlane.usecases.silent_hints import SilentHints

Counts = dict[str, int]

PROOF_DEPTH = 10
"""Results of each recall that are compared."""
LEAST_RECALL = 0.98
"""Share of the exact answer that recall must give: what an index over a large channel is built for."""
_TIE = 1e-3
"""Scores this close are one: vectors are stored in half precision."""
_SCAN_SECONDS = 600.0
_READ_THE_TABLE = (
    "set enable_seqscan = on; set enable_indexscan = off; set enable_indexonlyscan = off; "
    "set enable_bitmapscan = off; set jit = off"
)


@dataclass(frozen=True, slots=True)
class Proof:
    """What recall found of what an exact scan found."""

    asked: int
    channels: int
    recall: float

    @property
    def good(self) -> bool:
        """Whether it is enough."""
        return self.recall >= LEAST_RECALL


@asynccontextmanager
async def plain_connection(dsn: str) -> AsyncIterator[Connection]:
    """A connection without the service's time limits; it is closed at the end.

    Raises:
        StorageUnavailable: The database does not answer.
        Misconfigured: The connection string is none, or the server refuses it.
    """
    try:
        connection = await asyncpg.connect(dsn, timeout=10.0, command_timeout=_SCAN_SECONDS)
    except ValueError:
        raise Misconfigured("DATABASE_URL is not a connection string that works") from None
    except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError) as fault:
        refusal = refusal_of_connection(fault)
        if refusal is not None:
            raise refusal from None
        raise StorageUnavailable(f"the database does not answer ({type(fault).__name__}): check DATABASE_URL") from None
    try:
        with translated():
            # The role may have limits that suit the service, and not a backup.
            await connection.execute("set statement_timeout = 0; set idle_in_transaction_session_timeout = 0")
            yield connection
    finally:
        await connection.close(timeout=2.0)


@asynccontextmanager
async def frozen(connection: Connection) -> AsyncIterator[tuple[str, Counts]]:
    """Hold one moment of the database: the name of its snapshot, and what it holds."""
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        yield str(await connection.fetchval(statement("export_snapshot"))), await count_everything(connection)


async def count_everything(connection: Connection) -> Counts:
    """How much the database holds, by table."""
    row = await connection.fetchrow(statement("count_everything"))
    return {} if row is None else dict(row)


async def has_house(connection: Connection) -> bool:
    """Whether the database has tables of ours."""
    return bool(await connection.fetchval(statement("find_house")))


async def renew_epochs(connection: Connection) -> int:
    """Give every channel another epoch, so that every stream reads it anew; gives their number."""
    return int((await connection.execute(statement("renew_epochs"))).removeprefix("UPDATE "))


async def prove_recall(dsn: str, sample: int) -> Proof:
    """Ask the service's own recall for memories by their own vectors, and compare with every vector of the channel.

    Args:
        dsn: The database.
        sample: How many memories to ask for, of as many channels as there are.
    """
    pool = Pool(dsn, PoolLimits(max_size=1))
    store = PostgresStore(pool, SilentHints())
    found = wanted = asked = 0
    channels: dict[tuple[str, str, int], tuple[list[str], np.ndarray]] = {}
    try:
        async with plain_connection(dsn) as connection:
            # The table itself is the witness, not an index.
            await connection.execute(_READ_THE_TABLE)
            for row in await connection.fetch(statement("sample_memories"), sample):
                place = (row["project_id"], row["channel_id"], row["space_id"])
                if place not in channels:
                    rows = await connection.fetch(statement("scan_channel"), *place)
                    vectors = np.array([one["embedding"] for one in rows], dtype=np.float32)
                    channels[place] = [one["id"] for one in rows], vectors
                ids, vectors = channels[place]
                query = vectors[ids.index(row["id"])]
                recalled = await store.recall(
                    row["project_id"],
                    row["user_id"],
                    (row["scope"],),
                    vectors=[SpaceVector(row["space_id"], query.tolist())],
                    terms=(),
                    weights=FusionWeights(dense=1.0, lexical=0.0),
                    kind=None,
                    min_score=0.0,
                    limit=PROOF_DEPTH,
                )
                good, best = _compared([one.memory.id for one in recalled.found], ids, _scores(vectors, query))
                found, wanted, asked = found + good, wanted + best, asked + 1
    finally:
        await pool.aclose()
    return Proof(asked, len(channels), found / wanted if wanted else 1.0)


def _scores(vectors: np.ndarray, query: np.ndarray) -> np.ndarray:
    """The centred cosine of every vector (memlane.domain.scoring), computed here and not by Postgres."""
    centre = vectors.sum(axis=0) / (len(vectors) + CENTERING_PRIOR)
    left, right = vectors - centre, query - centre
    norms = np.linalg.norm(left, axis=1) * np.linalg.norm(right)
    scores: np.ndarray = np.divide(left @ right, norms, out=np.zeros(len(vectors), np.float32), where=norms > 0)
    return scores


def _compared(recalled: Sequence[str], ids: Sequence[str], scores: np.ndarray) -> tuple[int, int]:
    """How many of the exact best were recalled, and how many there are; of equal ones any counts."""
    by_id = dict(zip(ids, scores.tolist(), strict=True))
    best = sorted((score for score in by_id.values() if score > _TIE), reverse=True)[:PROOF_DEPTH]
    if not best:
        return 0, 0
    good = sum(by_id.get(memory_id, -1.0) >= best[-1] - _TIE for memory_id in recalled)
    return min(good, len(best)), len(best)
