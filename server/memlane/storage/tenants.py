"""Organizations, projects, lanes and keys: what an operator sets up."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import uuid_utils

from memlane.domain.grant import Grant
from memlane.domain.lane import Lane, LaneMode, Trust
from memlane.storage.pool import Connection, Pool
from memlane.storage.statements import statement

DEFAULT_LANE = "default"


@dataclass(frozen=True, slots=True)
class Project:
    """A project, the slug of its organization, and its settings (see `KeyRecord`)."""

    id: str
    slug: str
    name: str
    organization: str
    screens_secrets: bool = True
    max_live_memories: int | None = None


@dataclass(frozen=True, slots=True)
class NewKey:
    """A key to be stored: its public id and its secret's hash, never the secret."""

    short: str
    secret_sha256: bytes
    label: str
    grant: Grant
    lane: str = DEFAULT_LANE
    expires_at: datetime | None = None


class Tenants:
    """Set-up of tenants. Each call is one transaction and may be repeated."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def ensure_project(self, organization: str, project: str) -> Project:
        """The project, made with its organization and its default lane where they do not exist.

        Raises:
            ValueError: The project belongs to another organization.
        """

        async def ensure(connection: Connection) -> Project:
            await connection.execute(statement("ensure_organization"), _new_id(), organization, organization)
            owner = await connection.fetchrow(statement("find_organization"), organization)
            await connection.execute(statement("ensure_project"), _new_id(), owner["id"], project, project)  # type: ignore[index]
            found = await _find_project(connection, project)
            if found is None or found.organization != organization:
                raise ValueError(f"the project {project} belongs to another organization")
            await _ensure_lane(connection, found, DEFAULT_LANE, Trust.INTERNAL)
            return found

        return await self._pool.write(ensure)

    async def find_project(self, slug: str) -> Project | None:
        """The project of this slug."""
        return await self._pool.read(lambda connection: _find_project(connection, slug))

    async def set_project(
        self, project: Project, *, screens_secrets: bool | None, max_live_memories: int | None, sets_limit: bool
    ) -> None:
        """Change a project's settings; holds within 5 s in every process.

        Args:
            project: Which.
            screens_secrets: None leaves it.
            max_live_memories: For each channel; None is the deployment's own limit.
            sets_limit: Whether ``max_live_memories`` is to be set at all.
        """
        values = (project.id, screens_secrets, sets_limit, max_live_memories)
        await self._pool.write(lambda connection: connection.execute(statement("set_project"), *values))

    async def list_projects(self) -> list[dict[str, Any]]:
        """All projects and their settings."""
        rows = await self._pool.read(lambda connection: connection.fetch(statement("list_projects")))
        return [dict(row) for row in rows]

    async def ensure_lane(self, project: Project, name: str, trust: Trust) -> Lane:
        """The project's lane of this name, made read-write where it does not exist."""
        return await self._pool.write(lambda connection: _ensure_lane(connection, project, name, trust))

    async def add_key(self, project: Project, key: NewKey) -> None:
        """Store a key.

        Raises:
            ValueError: The project has no lane of that name.
        """

        async def add(connection: Connection) -> None:
            lane = await connection.fetchrow(statement("find_lane"), project.id, key.lane)
            if lane is None:
                raise ValueError(f"the project {project.slug} has no lane named {key.lane}")
            await connection.execute(
                statement("insert_key"),
                project.id,
                _new_id(),
                lane["id"],
                key.short,
                key.secret_sha256,
                key.label,
                key.grant.user.value,
                key.grant.project.value,
                key.expires_at,
            )

        await self._pool.write(add)

    async def list_keys(self, project: Project) -> list[dict[str, Any]]:
        """All keys of a project, oldest first; no secret is among the columns."""
        rows = await self._pool.read(lambda connection: connection.fetch(statement("list_keys"), project.id))
        return [dict(row) for row in rows]

    async def revoke_key(self, short: str) -> datetime | None:
        """Revoke a key; None when there is none. Holds within 5 s in every process."""
        revoked: datetime | None = await self._pool.write(
            lambda connection: connection.fetchval(statement("revoke_key"), short)
        )
        return revoked

    async def revoke_whole_key(self, short: str, secret_sha256: bytes, project: str) -> datetime | None:
        """As `revoke_key`, when the secret and the project are this key's too."""
        revoked: datetime | None = await self._pool.write(
            lambda connection: connection.fetchval(statement("revoke_whole_key"), short, secret_sha256, project)
        )
        return revoked

    async def has_key(self, short: str) -> bool:
        """Whether there is a key of this id, revoked or not."""
        return bool(await self._pool.read(lambda connection: connection.fetchval(statement("has_key"), short)))


async def _find_project(connection: Connection, slug: str) -> Project | None:
    row = await connection.fetchrow(statement("find_project"), slug)
    if row is None:
        return None
    names = (row["id"], row["slug"], row["name"], row["organization"])
    return Project(*names, row["screen_secrets"], row["max_live_memories"])


async def _ensure_lane(connection: Connection, project: Project, name: str, trust: Trust) -> Lane:
    await connection.execute(
        statement("ensure_lane"), project.id, _new_id(), name, trust.value, LaneMode.READ_WRITE.value
    )
    row: Any = await connection.fetchrow(statement("find_lane"), project.id, name)
    return Lane(row["id"], row["name"], Trust(row["trust"]), LaneMode(row["mode"]))


def _new_id() -> str:
    return str(uuid_utils.uuid7())
