"""Managed deployments: an organization's plan, merged with its enterprise override."""

import orjson

from memlane.domain.entitlement import EnterpriseOverride, Entitlement, ManagedRow, resolve_managed
from memlane.domain.errors import EntitlementUnresolved, StorageUnavailable
from memlane.storage.pool import Pool
from memlane.storage.statements import statement
from memlane.usecases.ports import Clock


class ManagedEntitlements:
    """Implements `usecases.ports.EntitlementSource` from the database."""

    def __init__(self, pool: Pool, clock: Clock) -> None:
        self._pool = pool
        self._clock = clock

    async def resolve(self, organization_id: str, organization: str) -> Entitlement:
        """See `EntitlementSource.resolve`."""
        try:
            row = await self._pool.read(
                lambda connection: connection.fetchrow(statement("find_managed_entitlement"), organization_id)
            )
        except StorageUnavailable as fault:
            raise EntitlementUnresolved from fault
        if row is None or row["organization"] != organization:
            raise EntitlementUnresolved
        override = None
        if row["override_active"] is not None:
            override = EnterpriseOverride(
                active=row["override_active"],
                features=_decoded(row["override_features"]),
                limits=_decoded(row["override_limits"]),
                expires_at=row["override_expires_at"],
            )
        return resolve_managed(
            ManagedRow(
                organization=row["organization"],
                plan_code=row["plan_code"],
                plan_features=_decoded(row["plan_features"]),
                plan_limits=_decoded(row["plan_limits"]),
                override=override,
            ),
            self._clock.now(),
        )


def _decoded(text: str | None) -> object:
    return None if text is None else orjson.loads(text)
