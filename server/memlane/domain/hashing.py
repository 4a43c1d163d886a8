"""Hashes of wordings and requests."""

from hashlib import sha256


def wording_sha256(content: str | None) -> bytes | None:
    """SHA-256 of a wording in UTF-8; None of none. The ledger holds this in place of the text."""
    return None if content is None else sha256(content.encode()).digest()


def request_sha256(*parts: str | bytes) -> bytes:
    """SHA-256 over the parts of a request, each led by its length so that no two lists collide."""
    digest = sha256()
    for part in parts:
        raw = part.encode() if isinstance(part, str) else part
        digest.update(len(raw).to_bytes(8, "big"))
        digest.update(raw)
    return digest.digest()
