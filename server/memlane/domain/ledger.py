"""The ledger as a chain: each row's hash covers the row before it, so that an edited or missing row is found.

Only the hash of a wording stands in the ledger, salted for each memory: without the salt, which a purge erases, no
guess at a wording can be proven.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from hashlib import sha256
from operator import attrgetter
from typing import Final

CHAIN_START: Final = bytes(32)
"""What stands in place of a previous row's hash before the first row."""


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """All that a chain hash covers of a row, in this order. Ids are in their textual form."""

    project_id: str
    channel_id: str
    seq: int
    memory_id: str
    operation: str
    absorbed_by: str | None
    lane_id: str
    lane_name: str
    key_id: str | None
    run: str
    source_type: str
    source_id: str
    source_trust: str
    triggered_by: str
    request_id: str
    written_at: datetime
    before_sha256: bytes | None
    after_sha256: bytes | None


@dataclass(frozen=True, slots=True)
class ChainedRow:
    """A row as it is stored, with its hash; None of a row from before ledgers were chained."""

    row: LedgerRow
    chain_sha256: bytes | None


@dataclass(frozen=True, slots=True)
class ChainHead:
    """Where a channel's chain ends, as its channel's row says. ``rows`` counts the chained rows."""

    seq: int
    rows: int
    sha256: bytes | None


@dataclass(frozen=True, slots=True)
class ChainFault:
    """The first place where a chain does not hold."""

    seq: int
    reason: str


# Not `astuple`, which copies each value deeply: this is done for each write.
_fields_of = attrgetter(*(one.name for one in fields(LedgerRow)))


def chain_sha256(previous: bytes, row: LedgerRow) -> bytes:
    """The hash of a row: SHA-256 over the previous row's hash and the row's fields, each led by its length.

    Args:
        previous: 32 bytes; `CHAIN_START` for a channel's first row.
        row: The row.
    """
    digest = sha256(previous)
    for value in _fields_of(row):
        raw = _raw(value)
        digest.update(b"-" if raw is None else b"%d:%b" % (len(raw), raw))
    return digest.digest()


class ChainCheck:
    """Checks one channel's rows in order of seq, as they are read.

    Args:
        known: Hashes that were exported earlier, by seq: a tail that was cut, head and all, is found by them alone.
    """

    def __init__(self, known: Mapping[int, bytes] | None = None) -> None:
        self._known = dict(known or {})
        self._previous = CHAIN_START
        self._last_seq: int | None = None
        self.rows = 0
        self.unchained = 0

    def take(self, rows: Sequence[ChainedRow]) -> ChainFault | None:
        """The next rows; the first fault among them."""
        for one in rows:
            seq = one.row.seq
            if one.chain_sha256 is None:
                if self.rows:
                    return ChainFault(seq, "the row is not chained, but rows before it are")
                self.unchained += 1
                continue
            if self._last_seq is not None and seq != self._last_seq + 1:
                return ChainFault(self._last_seq + 1, "a row is missing")
            expected = chain_sha256(self._previous, one.row)
            if expected != one.chain_sha256:
                return ChainFault(seq, "the row, or one before it, was changed")
            if self._known.pop(seq, expected) != expected:
                return ChainFault(seq, "the row is not the one whose hash was exported")
            self._previous, self._last_seq = expected, seq
            self.rows += 1
        return None

    def end(self, head: ChainHead) -> ChainFault | None:
        """After the last row: does it end where the channel's row says?"""
        if self.rows != head.rows or (head.sha256 or CHAIN_START) != self._previous:
            return ChainFault(head.seq, f"the ledger ends after {self.rows} rows, and its head counts {head.rows}")
        if self._known:
            return ChainFault(min(self._known), "the ledger ends before a row whose hash was exported")
        return None


def wording_sha256(salt: bytes | None, content: str | None) -> bytes | None:
    """SHA-256 of a salt and a wording in UTF-8: what the ledger holds in place of the text. None of none."""
    return None if content is None else sha256((salt or b"") + content.encode()).digest()


def _raw(value: str | int | bytes | datetime | None) -> bytes | None:
    match value:
        case None:
            return None
        case bytes():
            return value
        case datetime():
            return value.astimezone(UTC).isoformat(timespec="microseconds").encode()
        case _:
            return str(value).encode()
