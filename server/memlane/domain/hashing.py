"""Hashes of requests."""

from hashlib import sha256


def request_sha256(*parts: str | bytes) -> bytes:
    """SHA-256 over the parts of a request, each led by its length so that no two lists collide."""
    digest = sha256()
    for part in parts:
        raw = part.encode() if isinstance(part, str) else part
        digest.update(len(raw).to_bytes(8, "big"))
        digest.update(raw)
    return digest.digest()
