"""The ledger as an operator reads it, and the check of its chains."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

from memlane.domain.ledger import ChainCheck, ChainedRow, ChainFault, ChainHead, LedgerRow
from memlane.storage.pool import Pool
from memlane.storage.statements import statement

PAGE = 2_000
"""Rows that are read at a time."""


@dataclass(frozen=True, slots=True)
class ChannelChain:
    """A channel and where its chain ends."""

    project_id: str
    project: str
    channel_id: str
    scope: str
    user_id: str
    head: ChainHead


@dataclass(frozen=True, slots=True)
class ChainReport:
    """What the check of one channel came to."""

    chain: ChannelChain
    rows: int
    unchained: int
    fault: ChainFault | None


class Ledger:
    """Reads only; rows are written with the writes that they tell of."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def tail(
        self,
        project_id: str,
        *,
        lane: str | None = None,
        memory_id: str | None = None,
        after: int | None = None,
        limit: int = PAGE,
    ) -> list[dict[str, Any]]:
        """The newest rows, oldest of them first."""
        rows = await self._pool.read(
            lambda connection: connection.fetch(statement("ledger_tail"), project_id, lane, memory_id, after, limit)
        )
        return [dict(row) for row in reversed(rows)]

    async def chains(self, project_id: str | None) -> AsyncIterator[ChannelChain]:
        """Every channel that was ever written to."""
        after: str | None = None
        while True:
            rows = await self._heads(project_id, after)
            for row in rows:
                head = ChainHead(row["seq"], row["ledger_rows"], row["ledger_sha256"])
                names = (row["project_id"], row["project"], row["channel_id"], row["scope"], row["user_id"])
                yield ChannelChain(*names, head)
            if len(rows) < PAGE:
                return
            after = rows[-1]["channel_id"]

    async def check(self, chain: ChannelChain, known: Mapping[int, bytes]) -> ChainReport:
        """Check a channel's rows up to its head; writes that go on meanwhile are left for the next check.

        Args:
            chain: The channel, as `chains` gave it.
            known: Hashes that were exported earlier, by seq.
        """
        check = ChainCheck(known)
        after, fault = 0, None
        while fault is None:
            rows = await self._page(chain, after)
            fault = check.take([_chained(row) for row in rows])
            if len(rows) < PAGE:
                fault = fault or check.end(chain.head)
                break
            after = rows[-1]["seq"]
        return ChainReport(chain, check.rows, check.unchained, fault or await self._stray(chain))

    async def _stray(self, chain: ChannelChain) -> ChainFault | None:
        """A row outside of the chain: readers of a memory's history would believe it."""
        seq: int | None = await self._pool.read(
            lambda connection: connection.fetchval(statement("ledger_stray"), chain.project_id, chain.channel_id)
        )
        return None if seq is None else ChainFault(seq, "the row was put in: no write of the channel has this number")

    async def _heads(self, project_id: str | None, after: str | None) -> list[Any]:
        return await self._pool.read(
            lambda connection: connection.fetch(statement("ledger_heads"), project_id, after, PAGE)
        )

    async def _page(self, chain: ChannelChain, after: int) -> list[Any]:
        names = (chain.project_id, chain.channel_id, after, chain.head.seq, PAGE)
        return await self._pool.read(lambda connection: connection.fetch(statement("ledger_page"), *names))


def _chained(row: Any) -> ChainedRow:
    values = dict(row)
    chain = values.pop("chain_sha256")
    return ChainedRow(LedgerRow(**values), chain)
