"""Lanes: what an operator makes of them."""

from dataclasses import dataclass
from typing import Any

import uuid_utils

from memlane.domain.lane import LaneMode, Trust, writes_untrusted
from memlane.storage.pool import Connection, Pool
from memlane.storage.statements import statement
from memlane.storage.tenants import Project


class UntrustedWrites(ValueError):
    """A lane that reads untrusted input would write, and nobody accepted that."""


@dataclass(frozen=True, slots=True)
class LaneChange:
    """What to change of a lane; None leaves it as it is."""

    trust: Trust | None = None
    mode: LaneMode | None = None
    note: str | None = None
    owner: str | None = None


class Lanes:
    """Each call is one transaction. A change holds within 5 s in every process: keys are cached for 4 s."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def create(self, project: Project, name: str, wanted: LaneChange, *, accept_untrusted: bool) -> LaneMode:
        """Make a lane; trust is `internal` by default, the mode read-write, but read-only of an untrusted one.

        Returns:
            Its mode.

        Raises:
            ValueError: The name is taken.
            UntrustedWrites: See there.
        """
        trust = wanted.trust or Trust.INTERNAL
        mode = wanted.mode or (LaneMode.READ_ONLY if trust is Trust.UNTRUSTED else LaneMode.READ_WRITE)
        risky = _checked(trust, mode, accept_untrusted=accept_untrusted)

        async def create(connection: Connection) -> None:
            made = await connection.fetchval(
                statement("create_lane"),
                project.id,
                str(uuid_utils.uuid7()),
                name,
                trust.value,
                mode.value,
                wanted.note or "",
                wanted.owner or "",
                risky,
            )
            if made is None:
                raise ValueError(f"the project {project.slug} has a lane named {name} already")

        await self._pool.write(create)
        return mode

    async def change(self, project: Project, name: str, wanted: LaneChange, *, accept_untrusted: bool) -> bool:
        """Change a lane.

        Returns:
            Whether it reads untrusted input and was opened for writing by this change.

        Raises:
            ValueError: There is no such lane.
            UntrustedWrites: See there; only where trust or mode is what changes.
        """

        async def change(connection: Connection) -> bool:
            row: Any = await connection.fetchrow(statement("lock_lane"), project.id, name)
            if row is None:
                raise ValueError(f"the project {project.slug} has no lane named {name}")
            trust, mode = wanted.trust or Trust(row["trust"]), wanted.mode or LaneMode(row["mode"])
            opened = writes_untrusted(trust, mode) and not writes_untrusted(Trust(row["trust"]), LaneMode(row["mode"]))
            risky = opened and _checked(trust, mode, accept_untrusted=accept_untrusted)
            await connection.execute(
                statement("update_lane"),
                project.id,
                name,
                trust.value,
                mode.value,
                row["note"] if wanted.note is None else wanted.note,
                row["owner"] if wanted.owner is None else wanted.owner,
                risky,
            )
            return risky

        return await self._pool.write(change)

    async def list(self, project: Project) -> list[dict[str, Any]]:
        """A project's lanes, oldest first, each with the number of its active keys."""
        rows = await self._pool.read(lambda connection: connection.fetch(statement("list_lanes"), project.id))
        return [dict(row) for row in rows]


def _checked(trust: Trust, mode: LaneMode, *, accept_untrusted: bool) -> bool:
    risky = writes_untrusted(trust, mode)
    if risky and not accept_untrusted:
        raise UntrustedWrites
    return risky
