"""Who calls: the resolved credentials of one request."""

from dataclasses import dataclass, field
from datetime import datetime

from memlane.domain.grant import Grant
from memlane.domain.lane import Lane

UNKNOWN = "unknown"
"""What the ledger says of provenance that was not sent: never blank, never guessed."""


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """A runtime key as stored: its tenant, lane and widest grant. Holds the secret's hash only.

    ``screens_secrets`` and ``max_live_memories`` (for each channel; None: the deployment's) are its project's settings.
    The operator's own commands write without a key: their ``id`` is None, and the lane tells who they are.
    """

    id: str | None
    short: str
    secret_sha256: bytes
    organization_id: str
    organization: str
    plan_code: str | None
    project_id: str
    project: str
    lane: Lane
    grant: Grant
    expires_at: datetime | None
    revoked_at: datetime | None
    screens_secrets: bool = True
    max_live_memories: int | None = None

    def usable(self, now: datetime) -> bool:
        """Whether the key is neither revoked nor expired at ``now``."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


@dataclass(frozen=True, slots=True)
class Provenance:
    """What the caller says of a write's origin. Trust is not here: it comes from the lane.

    ``sent`` holds each text as it came, with the header or field that it came in; nothing of it is stored.
    """

    run: str = UNKNOWN
    source_type: str = UNKNOWN
    source_id: str = UNKNOWN
    triggered_by: str = UNKNOWN
    sent: tuple[tuple[str, str], ...] = field(default=(), compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Caller:
    """An authenticated, entitled caller acting for one user of one project."""

    key: KeyRecord
    user_id: str
    grant: Grant
    request_id: str
    provenance: Provenance = Provenance()

    @property
    def project_id(self) -> str:
        """The tenant that every query is keyed by."""
        return self.key.project_id
