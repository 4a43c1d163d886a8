"""Self-hosted deployments: the signed license is the authority."""

from datetime import datetime

from memlane.auth.licenses import LicenseRejected, TrustedKeys, read_license
from memlane.domain.entitlement import SELF_HOSTED, Entitlement


class LicenseEntitlements:
    """Implements `usecases.ports.EntitlementSource` from one license.

    The signature is checked once, here; the dates are decided on each request. A license that is rejected
    entitles nobody to anything.
    """

    def __init__(self, license_: str, trusted_keys: TrustedKeys) -> None:
        self.rejected: LicenseRejected | None = None
        self._entitlement: Entitlement | None = None
        try:
            self._entitlement = read_license(license_, trusted_keys).entitlement
        except LicenseRejected as fault:
            self.rejected = fault

    @property
    def ends_at(self) -> datetime | None:
        """When the license ends; None for one that is rejected or never ends."""
        return None if self._entitlement is None else self._entitlement.expires_at

    async def resolve(self, organization_id: str, organization: str) -> Entitlement:
        """See `EntitlementSource.resolve`."""
        del organization_id  # a license knows its organization by the slug
        if self._entitlement is not None:
            return self._entitlement
        return Entitlement(
            active=False,
            source=SELF_HOSTED,
            features={},
            limits={},
            plan_code=None,
            entitlement_source=None,
            organization=organization,
            not_before=None,
            expires_at=None,
        )
