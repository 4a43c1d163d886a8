"""Self-hosted deployments: the signed license is the authority."""

from datetime import datetime

from memlane.auth.licenses import LicenseFault, LicenseRejected, SignedLicense, TrustedKeys, read_license
from memlane.domain.entitlement import SELF_HOSTED, Entitlement


class LicenseEntitlements:
    """Implements `usecases.ports.EntitlementSource` from one license.

    The signature is checked once, here; the dates are decided on each request. A license that is rejected
    entitles nobody to anything; a process that read its settings does not start with one.
    """

    def __init__(self, license_: str, trusted_keys: TrustedKeys) -> None:
        self.rejected: LicenseRejected | None = None
        self._license: SignedLicense | None = None
        try:
            self._license = read_license(license_, trusted_keys)
        except LicenseRejected as fault:
            self.rejected = fault

    @property
    def ends_at(self) -> datetime | None:
        """When the license ends; None for one that is rejected or never ends."""
        return None if self._license is None else self._license.entitlement.expires_at

    def fault_at(self, now: datetime) -> LicenseFault | None:
        """Why it grants nothing at ``now``, timezone-aware; None for a license that is in force."""
        if self.rejected is not None:
            return self.rejected.reason
        return None if self._license is None else self._license.date_fault(now)

    async def resolve(self, organization_id: str, organization: str) -> Entitlement:
        """See `EntitlementSource.resolve`."""
        del organization_id  # a license knows its organization by the slug
        if self._license is not None:
            return self._license.entitlement
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
