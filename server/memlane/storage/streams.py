"""What the live stream reads from Postgres: implements `usecases.ports.StreamStore`."""

from collections.abc import Sequence
from datetime import datetime

from memlane.domain.lane import LaneMode
from memlane.domain.memory import Position, Scope
from memlane.domain.stream import ChannelKey, JoinClaims, SessionState
from memlane.storage.pool import Pool
from memlane.storage.records import head_of, stored_of
from memlane.storage.statements import statement
from memlane.usecases.list_memories import LIST_MAX
from memlane.usecases.ports import ChangesPage, ChannelHead


class PostgresStreams:
    """Each method is one round trip, but for `visible_ids`, which counts first."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def session_states(self, sessions: Sequence[JoinClaims]) -> list[SessionState]:
        """See `StreamStore.session_states`."""
        columns = (
            [claims.project for claims in sessions],
            [claims.session_id for claims in sessions],
            [claims.key_id for claims in sessions],
            [claims.user for claims in sessions],
            [claims.join_code for claims in sessions],
        )
        rows = await self._pool.read(lambda connection: connection.fetch(statement("check_sessions"), *columns))
        by_session = {
            row["session_id"]: SessionState(
                key_known=row["key_known"],
                key_revoked_at=row["key_revoked_at"],
                key_expires_at=row["key_expires_at"],
                lane_mode=None if row["lane_mode"] is None else LaneMode(row["lane_mode"]),
                logged_out_at=row["logged_out_at"],
                epoch=row["epoch"],
                first_used_at=row["first_used_at"],
                organization_id=row["organization_id"],
                organization=row["organization"],
            )
            for row in rows
        }
        return [by_session[claims.session_id] for claims in sessions]

    async def begin_session(self, claims: JoinClaims) -> None:
        """See `StreamStore.begin_session`."""
        await self._pool.write(
            lambda connection: connection.execute(statement("begin_session"), claims.project, claims.session_id)
        )

    async def find_channel(
        self, project_id: str, scope: Scope, user_id: str, join_code: str, since: datetime
    ) -> tuple[ChannelHead, int] | None:
        """See `StreamStore.find_channel`."""
        row = await self._pool.read(
            lambda connection: connection.fetchrow(
                statement("find_stream_channel"), project_id, scope, user_id, join_code, since
            )
        )
        return None if row is None else (head_of(row), row["cursor"])

    async def changes_since(self, key: ChannelKey, since: int, limit: int) -> ChangesPage:
        """See `StreamStore.changes_since`."""
        rows = await self._pool.read(
            lambda connection: connection.fetch(statement("find_changes"), key.project_id, key.channel_id, since, limit)
        )
        changed = [stored_of(row) for row in rows if row["id"] is not None]
        # A channel is never deleted; its row is there as long as anybody knows its id.
        head = next(row for row in rows if row["id"] is None)
        return ChangesPage(Position(head["epoch"], head["seq"]), changed, complete=len(changed) < limit)

    async def visible_ids(self, key: ChannelKey, since: int, at_most: int) -> frozenset[str] | None:
        """See `StreamStore.visible_ids`."""
        names = (key.project_id, key.channel_id)
        counted = await self._pool.read(
            lambda connection: connection.fetchval(statement("count_changes"), *names, since, at_most + 1)
        )
        if counted <= at_most:
            return None
        rows = await self._pool.read(
            lambda connection: connection.fetch(statement("find_visible_since"), *names, LIST_MAX)
        )
        return frozenset(row["id"] for row in rows)

    async def positions(self, keys: Sequence[ChannelKey]) -> dict[str, Position]:
        """See `StreamStore.positions`."""
        projects, channels = [key.project_id for key in keys], [key.channel_id for key in keys]
        rows = await self._pool.read(lambda connection: connection.fetch(statement("find_heads"), projects, channels))
        return {row["id"]: Position(row["epoch"], row["seq"]) for row in rows}
