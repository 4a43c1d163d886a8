"""One write transaction under its channel's lock."""

import secrets
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import uuid_utils

from memlane.domain.caller import Caller
from memlane.domain.errors import QuotaExceeded
from memlane.domain.ledger import CHAIN_START, LedgerRow, chain_sha256, wording_sha256
from memlane.domain.memory import AbsorbedBy, Kind
from memlane.domain.stream import RowChange
from memlane.storage.pool import Connection
from memlane.storage.records import head_of, stored_of
from memlane.storage.statements import statement
from memlane.usecases.ports import ChannelRef, Idempotency, KeptAnswer, StoredMemory, Wording

SALT_BYTES = 16
"""Of a memory's salt: 128 random bits, so that no guess at a wording can be tried against its hash."""


class LostRaceForKey(Exception):
    """Another transaction kept an answer under the same idempotency key first."""


class LockedChannel:
    """Implements `usecases.ports.ChannelWrite` on a connection that is inside a transaction."""

    def __init__(
        self, connection: Connection, caller: Caller, channel: ChannelRef, row: Any, max_live_rows: int | None = None
    ) -> None:
        self._connection = connection
        self._caller = caller
        self._channel = channel
        self.head = head_of(row)
        self._id = self.head.id
        self.epoch = self.head.position.epoch
        self.seq = self.head.position.seq
        self.changes: list[RowChange] = []
        self._now: datetime = row["now"]
        self._live: int = row["live_rows"]
        own = caller.key.max_live_memories
        self._limit = None if caller.key.id is None else max_live_rows if own is None else own
        self._chain: bytes = row["ledger_sha256"] or CHAIN_START

    @classmethod
    async def lock(
        cls, connection: Connection, caller: Caller, channel: ChannelRef, max_live_rows: int | None = None
    ) -> "LockedChannel":
        """Take the channel's lock, making the channel on its first write.

        Args:
            connection: Inside a transaction.
            caller: Who writes. The project's own limit of live rows comes first; the operator has none.
            channel: Which.
            max_live_rows: The deployment's limit; None: any number.
        """
        names = (channel.project_id, channel.scope, channel.user_id)
        row = await connection.fetchrow(statement("lock_channel"), *names)
        if row is None:
            await connection.execute(
                statement("create_channel"),
                channel.project_id,
                str(uuid_utils.uuid7()),
                channel.scope,
                channel.user_id,
            )
            row = await connection.fetchrow(statement("lock_channel"), *names)
        return cls(connection, caller, channel, row, max_live_rows)

    async def find_twin(
        self, kind: Kind, absorb_key: bytes | None, *, but_not: str | None = None
    ) -> StoredMemory | None:
        """See `ChannelWrite.find_twin`."""
        if absorb_key is None:
            return None
        row = await self._connection.fetchrow(
            statement("find_twin"), self._channel.project_id, self._id, kind, absorb_key, but_not
        )
        return None if row is None else stored_of(row)

    async def find(self, memory_id: str) -> StoredMemory | None:
        """See `ChannelWrite.find`."""
        row = await self._connection.fetchrow(
            statement("find_in_channel"), self._channel.project_id, self._id, memory_id
        )
        return None if row is None else stored_of(row)

    async def insert(
        self,
        memory_id: str,
        kind: Kind,
        wording: Wording,
        source_thread_ids: Sequence[str],
        created_at: datetime | None = None,
    ) -> StoredMemory:
        """See `ChannelWrite.insert`."""
        self._make_room()
        salt = secrets.token_bytes(SALT_BYTES)
        return await self._change(
            "insert_memory",
            memory_id,
            self._channel.scope,
            kind,
            wording.content,
            source_thread_ids,
            wording.absorb_key,
            wording.canonical_version,
            wording.terms,
            wording.terms_version,
            wording.space_id,
            wording.embedding,
            created_at,
            *self._ledger(memory_id, "created", after=wording_sha256(salt, wording.content)),
            salt,
        )

    async def absorb(
        self, twin: StoredMemory, wording: Wording, source_thread_ids: Sequence[str], absorbed_by: AbsorbedBy
    ) -> StoredMemory:
        """See `ChannelWrite.absorb`."""
        salt = await self._salt(twin)
        return await self._change(
            "absorb_memory",
            twin.memory.id,
            wording.content,
            source_thread_ids,
            wording.absorb_key,
            wording.canonical_version,
            wording.terms,
            wording.terms_version,
            wording.space_id,
            wording.embedding,
            absorbed_by,
            *self._ledger(
                twin.memory.id,
                "absorbed",
                before=wording_sha256(salt, twin.memory.content),
                after=wording_sha256(salt, wording.content),
                absorbed_by=absorbed_by,
            ),
        )

    async def retire(self, target: StoredMemory, *, superseded_by: str | None = None) -> StoredMemory:
        """See `ChannelWrite.retire`."""
        self._live -= 1
        operation = "retired" if superseded_by is None else "superseded"
        before = wording_sha256(await self._salt(target), target.memory.content)
        return await self._change(
            "retire_memory",
            target.memory.id,
            superseded_by,
            operation,
            *self._ledger(target.memory.id, operation, before=before),
        )

    async def restore(self, target: StoredMemory) -> StoredMemory:
        """See `ChannelWrite.restore`."""
        self._make_room()
        after = wording_sha256(await self._salt(target), target.memory.content)
        return await self._change(
            "restore_memory", target.memory.id, *self._ledger(target.memory.id, "restored", after=after)
        )

    async def keep_absorb_key(self, memory_id: str, absorb_key: bytes | None) -> None:
        """See `ChannelWrite.keep_absorb_key`."""
        await self._connection.execute(
            statement("keep_absorb_key"), self._channel.project_id, self._id, memory_id, absorb_key
        )

    async def find_answer(self, key: str) -> KeptAnswer | None:
        """See `ChannelWrite.find_answer`."""
        row = await self._connection.fetchrow(
            statement("find_answer"), self._caller.project_id, self._caller.user_id, key
        )
        return None if row is None else KeptAnswer(row["request_sha256"], row["answer"])

    async def keep_answer(self, idempotency: Idempotency, memory_id: str, answer: str) -> None:
        """See `ChannelWrite.keep_answer`."""
        kept = await self._connection.fetchval(
            statement("keep_answer"),
            self._caller.project_id,
            self._caller.user_id,
            idempotency.key,
            idempotency.request_sha256,
            memory_id,
            answer,
        )
        if kept is None:
            raise LostRaceForKey

    async def _change(self, name: str, *values: object) -> StoredMemory:
        row = await self._connection.fetchrow(statement(name), self._channel.project_id, self._id, *values)
        if row is None:
            # The row was looked up under the same lock, so it cannot have gone.
            raise RuntimeError(f"{name} changed no row")
        stored = stored_of(row)
        self.seq = stored.seq
        self.changes.append(RowChange(stored.seq, name == "insert_memory", stored.memory))
        return stored

    def _make_room(self) -> None:
        if self._limit is not None and self._live >= self._limit:
            raise QuotaExceeded(self._limit)
        self._live += 1

    async def _salt(self, target: StoredMemory) -> bytes | None:
        if target.wording_salt is not None:
            return target.wording_salt
        salt: bytes | None = await self._connection.fetchval(
            statement("find_salt"), self._channel.project_id, target.memory.id
        )
        return salt

    def _ledger(
        self,
        memory_id: str,
        operation: str,
        *,
        before: bytes | None = None,
        after: bytes | None = None,
        absorbed_by: AbsorbedBy | None = None,
    ) -> tuple[object, ...]:
        """The ledger's columns of the next change, the last of them its place in the channel's chain."""
        row = ledger_row(
            self._caller,
            self._id,
            self.seq + 1,
            memory_id,
            operation,
            self._now,
            before=before,
            after=after,
            absorbed_by=absorbed_by,
        )
        self._chain = chain_sha256(self._chain, row)
        return (
            row.lane_id,
            row.lane_name,
            row.key_id,
            row.run,
            row.source_type,
            row.source_id,
            row.source_trust,
            row.triggered_by,
            row.request_id,
            row.before_sha256,
            row.after_sha256,
            row.written_at,
            self._chain,
        )


def ledger_row(
    caller: Caller,
    channel_id: str,
    seq: int,
    memory_id: str,
    operation: str,
    written_at: datetime,
    *,
    before: bytes | None = None,
    after: bytes | None = None,
    absorbed_by: AbsorbedBy | None = None,
) -> LedgerRow:
    """What the ledger says of a write. Trust comes from the lane; what the caller did not send is `unknown`."""
    key, provenance = caller.key, caller.provenance
    return LedgerRow(
        project_id=caller.project_id,
        channel_id=channel_id,
        seq=seq,
        memory_id=memory_id,
        operation=operation,
        absorbed_by=absorbed_by,
        lane_id=key.lane.id,
        lane_name=key.lane.name,
        key_id=key.id,
        run=provenance.run,
        source_type=provenance.source_type,
        source_id=provenance.source_id,
        source_trust=key.lane.trust.value,
        triggered_by=provenance.triggered_by,
        request_id=caller.request_id,
        written_at=written_at,
        before_sha256=before,
        after_sha256=after,
    )
