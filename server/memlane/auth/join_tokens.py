"""Join tokens: what a browser shows when it opens a memory stream.

A JWT signed with HS256 by a secret of MEMLANE_JOIN_SECRETS; its header is fixed (`alg` HS256, `typ` join).
It travels in a URL, so the claims are short:

    o organization   p project    u user       s scope (user, project)    k key id     l lane
    g grant, two letters of n, r, w: user side, project side              c join code
    e epoch          q cursor: the seq to read from                      iat          jti session id
    x the user's latest log-out, in microseconds since 1970; 0 for none

There is no `exp`: how long a token serves depends on its first use, which the caller knows. `iat` is what
those rules start from.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final, Literal

from jwt import PyJWS
from jwt.algorithms import HMACAlgorithm
from jwt.exceptions import InvalidKeyError

from memlane.auth._compact import LATEST_SECOND, as_second, read_header, read_object, verified_payload
from memlane.domain.errors import Misconfigured
from memlane.domain.grant import Access, Grant
from memlane.domain.stream import JoinClaims

ALGORITHM: Final = "HS256"
SECRET_BYTES_MIN: Final = 32
"""Shortest secret, in bytes: the output length of SHA-256 (RFC 7518, 3.2)."""
SECRETS_MAX: Final = 8
"""Most secrets: each one is tried on a token that none of them signed."""
TOKEN_LENGTH_MAX: Final = 4096
"""Longest token, in characters. The longest that can be minted is under 3,700: a user id of 256 characters
that JSON escapes to six bytes each, and 128 characters for each other text."""
USER_ID_MAX: Final = 256
TEXT_MAX: Final = 128
SEQ_MAX: Final = 2**63 - 1
"""The largest bigint."""

_JWS: Final = PyJWS(algorithms=[ALGORITHM])
_HEADER: Final = {"alg": ALGORITHM, "typ": "join"}
_TEXT: Final = re.compile(rf"[A-Za-z0-9._:-]{{1,{TEXT_MAX}}}", re.ASCII)
_LETTERS: Final = {Access.NONE: "n", Access.READ: "r", Access.READ_WRITE: "w"}
_ACCESS: Final = {letter: access for access, letter in _LETTERS.items()}
_NAMES: Final = frozenset({"o", "p", "u", "s", "g", "k", "l", "c", "e", "q", "iat", "jti", "x"})
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


class JoinTokenFault(StrEnum):
    """Why a join token is rejected."""

    MALFORMED = "malformed"
    WRONG_ALGORITHM = "wrong_algorithm"
    BAD_SIGNATURE = "bad_signature"
    WRONG_CLAIMS = "wrong_claims"


class JoinTokenRejected(Exception):
    """The token is not one of ours. ``reason`` says why, from a closed set; it is for metrics and tests.

    Answer every reason alike: 403 at once.
    """

    def __init__(self, reason: JoinTokenFault) -> None:
        self.reason = reason
        super().__init__(f"The join token was rejected: {reason.value}.")


def parse_join_secrets(text: str) -> tuple[bytes, ...]:
    """Read MEMLANE_JOIN_SECRETS: secrets separated by commas, white space around them ignored.

    Raises:
        Misconfigured: None or over 8 of them, one under 32 bytes, one given twice, or one that looks like a
            public key. Names a secret by its place, in a phrase that follows the setting's name.
    """
    parsed = tuple(entry.strip().encode("utf-8", "surrogateescape") for entry in text.split(","))
    _check(parsed)
    return parsed


@dataclass(frozen=True, slots=True)
class JoinTokens:
    """Mints and verifies join tokens. Its repr shows no secret.

    Args:
        secrets: 1 to 8 secrets of at least 32 bytes. The first signs and all verify, so that a rotation
            (put the new one first, drop the old one a session's length later) cuts nobody off.

    Raises:
        Misconfigured: As `parse_join_secrets`.
    """

    secrets: tuple[bytes, ...] = field(repr=False)

    def __post_init__(self) -> None:
        _check(self.secrets)

    def mint(self, claims: JoinClaims) -> str:
        """Sign a token. ``issued_at`` is cut to a whole second.

        Raises:
            ValueError: A claim is one that `verify` would not take.
        """
        if claims.issued_at.utcoffset() is None:
            raise ValueError("issued_at must be timezone-aware")
        compact: dict[str, object] = {
            "o": claims.organization,
            "p": claims.project,
            "u": claims.user,
            "s": claims.scope,
            "g": _LETTERS[claims.grant.user] + _LETTERS[claims.grant.project],
            "k": claims.key_id,
            "l": claims.lane,
            "c": claims.join_code,
            "e": claims.epoch,
            "q": claims.cursor,
            "iat": int(claims.issued_at.timestamp()),
            "jti": claims.session_id,
            "x": 0 if claims.logged_out_at is None else (claims.logged_out_at - _EPOCH) // _MICROSECOND,
        }
        if _claims(compact) is None:
            raise ValueError("a claim is empty, too long or malformed")
        # Not escaped to ASCII: an escaped emoji takes twelve bytes, and a URL has a limit.
        payload = json.dumps(compact, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
        return _JWS.encode(payload, self.secrets[0], algorithm=ALGORITHM, headers=_HEADER)

    def verify(self, token: str) -> JoinClaims:
        """Check a token's signature and claims. How old it may be is the caller's rule.

        Args:
            token: The token as sent, at most 4,096 characters.

        Raises:
            JoinTokenRejected: It is not one of ours.
        """
        header = read_header(token, max_length=TOKEN_LENGTH_MAX)
        if header is None:
            raise JoinTokenRejected(JoinTokenFault.MALFORMED)
        if header.get("alg") != ALGORITHM:
            raise JoinTokenRejected(JoinTokenFault.WRONG_ALGORITHM)
        if header != _HEADER:
            raise JoinTokenRejected(JoinTokenFault.MALFORMED)
        payload = verified_payload(_JWS, token, self.secrets, algorithm=ALGORITHM)
        if payload is None:
            raise JoinTokenRejected(JoinTokenFault.BAD_SIGNATURE)
        compact = read_object(payload)
        claims = None if compact is None else _claims(compact)
        if claims is None:
            raise JoinTokenRejected(JoinTokenFault.WRONG_CLAIMS)
        return claims


def _check(secrets: Sequence[bytes]) -> None:
    if not 1 <= len(secrets) <= SECRETS_MAX:
        raise Misconfigured(f"must be 1 to {SECRETS_MAX} secrets (separate them by commas)")
    for place, secret in enumerate(secrets, start=1):
        if len(secret) < SECRET_BYTES_MIN:
            raise Misconfigured(f"secret {place} is shorter than {SECRET_BYTES_MIN} bytes (separate them by commas)")
        if secret in secrets[: place - 1]:
            raise Misconfigured(f"secret {place} is given twice")
        try:
            HMACAlgorithm(HMACAlgorithm.SHA256).prepare_key(secret)
        except InvalidKeyError:
            raise Misconfigured(f"secret {place} looks like an asymmetric key") from None


def _claims(compact: dict[str, object]) -> JoinClaims | None:
    """The claims behind the short names, or None where one is missing, unknown or malformed."""
    if compact.keys() != _NAMES:
        return None
    texts = [_text(compact[name]) for name in ("o", "p", "k", "l", "c", "e", "jti")]
    user, scope, grant = _user(compact["u"]), _scope(compact["s"]), _grant(compact["g"])
    cursor, issued_at, logged_out = compact["q"], as_second(compact["iat"]), _microseconds(compact["x"])
    if None in texts or user is None or scope is None or grant is None or issued_at is None or logged_out is None:
        return None
    if isinstance(cursor, bool) or not isinstance(cursor, int) or not 0 <= cursor <= SEQ_MAX:
        return None
    organization, project, key_id, lane, join_code, epoch, session_id = (text or "" for text in texts)
    return JoinClaims(
        organization=organization,
        project=project,
        user=user,
        scope=scope,
        grant=grant,
        key_id=key_id,
        lane=lane,
        join_code=join_code,
        epoch=epoch,
        cursor=cursor,
        issued_at=datetime.fromtimestamp(issued_at, UTC),
        session_id=session_id,
        logged_out_at=_EPOCH + logged_out * _MICROSECOND if logged_out else None,
    )


def _microseconds(value: object) -> int | None:
    """Microseconds since 1970 that a datetime can hold."""
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 <= value <= LATEST_SECOND * 1_000_000 else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and _TEXT.fullmatch(value) is not None else None


def _user(value: object) -> str | None:
    """A user id that UTF-8 can hold: a lone surrogate is none."""
    if not isinstance(value, str) or not 1 <= len(value) <= USER_ID_MAX:
        return None
    return None if any("\ud800" <= character <= "\udfff" for character in value) else value


def _scope(value: object) -> Literal["user", "project"] | None:
    if value == "user":
        return "user"
    return "project" if value == "project" else None


def _grant(value: object) -> Grant | None:
    if not isinstance(value, str) or len(value) != len("ww") or not _ACCESS.keys() >= set(value):
        return None
    return Grant(user=_ACCESS[value[0]], project=_ACCESS[value[1]])
