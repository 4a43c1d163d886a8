"""Runtime keys: `cpk-<project>_<short>_<long>`.

The project's slug and the short part are public and find the stored row; the long part is the secret.
"""

import hmac
import re
import secrets
import string
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

SHORT_LENGTH: Final = 12
LONG_LENGTH: Final = 43
"""Letters and digits of a new secret: 43 * log2(62) = 256.03 bits."""
LONG_LENGTH_MAX: Final = 128
KEY_LENGTH_MAX: Final = len("cpk-") + 63 + len("_") + SHORT_LENGTH + len("_") + LONG_LENGTH_MAX
AUTHORIZATION_LENGTH_MAX: Final = KEY_LENGTH_MAX + 32
"""Longest `Authorization` value that is read: the key, the scheme, and some spaces."""

_ALPHABET: Final = string.digits + string.ascii_uppercase + string.ascii_lowercase
_KEY: Final = re.compile(
    rf"cpk-([a-z0-9-]{{1,63}})_([0-9A-Za-z]{{{SHORT_LENGTH}}})"
    rf"_([0-9A-Za-z]{{{LONG_LENGTH},{LONG_LENGTH_MAX}}})",
    re.ASCII,
)
_PROJECT: Final = re.compile(r"[a-z0-9-]{1,63}", re.ASCII)
_BEARER: Final = re.compile(r"[Bb][Ee][Aa][Rr][Ee][Rr] +(\S+) *", re.ASCII)


@dataclass(frozen=True, slots=True)
class RuntimeKeyToken:
    """A well-formed runtime key, as sent or just minted; nothing says yet that it is known.

    Attributes:
        project: The project's slug as the key names it. Check it against the stored row: it is a claim.
        short: The public key id, 12 letters and digits.
        secret: The long part. It is in no repr.
    """

    project: str
    short: str
    secret: str = field(repr=False)

    def reveal(self) -> str:
        """The whole key, to be shown once to whoever made it."""
        return f"cpk-{self.project}_{self.short}_{self.secret}"

    def hash(self) -> bytes:
        """What is stored of the secret: its SHA-256, 32 bytes.

        A slow or salted hash would add nothing: the secret is random with at least 256 bits, so no guess
        and no precomputed table comes near it, while every request pays for the hash.
        """
        return sha256(self.secret.encode("ascii")).digest()

    def matches(self, stored: bytes) -> bool:
        """Whether ``stored`` is the hash of this secret; compared in constant time."""
        return hmac.compare_digest(self.hash(), stored)


def mint_runtime_key(project: str) -> RuntimeKeyToken:
    """A new random key for a project.

    Args:
        project: The project's slug, 1 to 63 of ``a-z``, ``0-9`` and ``-``.

    Raises:
        ValueError: Not such a slug.
    """
    if _PROJECT.fullmatch(project) is None:
        raise ValueError("a project's slug is 1 to 63 characters of a-z, 0-9 and -")
    return RuntimeKeyToken(project=project, short=_random(SHORT_LENGTH), secret=_random(LONG_LENGTH))


def parse_runtime_key(text: str) -> RuntimeKeyToken | None:
    """The key that ``text`` is, or None. Never raises."""
    if len(text) > KEY_LENGTH_MAX:
        return None
    found = _KEY.fullmatch(text)
    return None if found is None else RuntimeKeyToken(*found.groups())


def parse_authorization(value: str | None) -> RuntimeKeyToken | None:
    """The key in an `Authorization` header: ``Bearer <key>``, the scheme in any case. Never raises.

    Args:
        value: The header's value; None where it is missing.
    """
    if value is None or len(value) > AUTHORIZATION_LENGTH_MAX:
        return None
    found = _BEARER.fullmatch(value)
    return None if found is None else parse_runtime_key(found.group(1))


def _random(length: int) -> str:
    return "".join(secrets.choice(_ALPHABET) for _ in range(length))
