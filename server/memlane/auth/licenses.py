"""Licenses of self-hosted deployments: a JWT signed with Ed25519 (`alg` EdDSA, `kid` in the header).

Claims, all required: `iss` is `memlane`; `org` the organization's slug; `plan` a code; `features` and
`limits` objects (read by the rule of `memlane.domain.entitlement`); `nbf`, `exp`, `iat` whole seconds
since 1970; `jti` the license's id. A claim that is not listed is ignored.

The signature is checked once, by `read_license`; the dates are checked on each request by
`decide_entitlement` over `SignedLicense.entitlement`, which costs two comparisons.
"""

import json
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Final, TypeAlias
from uuid import uuid4

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from jwt import PyJWS

from memlane.auth._compact import as_second, read_header, read_object, verified_payload
from memlane.domain.entitlement import FROM_LICENSE, SELF_HOSTED, Entitlement, clean_features, clean_limits
from memlane.domain.errors import Misconfigured

ISSUER: Final = "memlane"
ALGORITHM: Final = "EdDSA"
LICENSE_LENGTH_MAX: Final = 16_384
"""Longest license, in characters."""

TrustedKeys: TypeAlias = Mapping[str, Ed25519PublicKey]
"""Public keys by key id."""

_KEY_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)
_PUBLIC: Final = re.compile(r"[A-Za-z0-9_-]{43}", re.ASCII)
_ORGANIZATION: Final = re.compile(r"[a-z0-9-]{1,63}", re.ASCII)
_PLAN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,63}", re.ASCII)
_LICENSE_ID: Final = re.compile(r"[A-Za-z0-9._:-]{1,128}", re.ASCII)
_HEADER_NAMES: Final = {"alg", "kid", "typ"}
_JWS: Final = PyJWS(algorithms=[ALGORITHM])


class LicenseFault(StrEnum):
    """Why a license is rejected."""

    MALFORMED = "malformed"
    WRONG_ALGORITHM = "wrong_algorithm"
    UNKNOWN_KEY = "unknown_key"
    BAD_SIGNATURE = "bad_signature"
    WRONG_CLAIMS = "wrong_claims"
    NOT_YET_VALID = "not_yet_valid"
    EXPIRED = "expired"


_MESSAGES: Final = {
    LicenseFault.MALFORMED: "The license is not a signed token; copy it again, whole and on one line.",
    LicenseFault.WRONG_ALGORITHM: "The license is not signed with EdDSA; ask its issuer for a new one.",
    LicenseFault.UNKNOWN_KEY: "The license's key id is not among MEMLANE_LICENSE_KEYS; add its public key.",
    LicenseFault.BAD_SIGNATURE: "The license's signature does not match; it was edited or cut.",
    LicenseFault.WRONG_CLAIMS: "The license's claims are missing or of a wrong type; ask for a new one.",
    LicenseFault.NOT_YET_VALID: "The license is not valid yet; check its not-before date and the clock.",
    LicenseFault.EXPIRED: "The license has expired; renew it.",
}


class LicenseRejected(Exception):
    """The license grants nothing. ``reason`` says why, from a closed set."""

    def __init__(self, reason: LicenseFault) -> None:
        self.reason = reason
        super().__init__(_MESSAGES[reason])


@dataclass(frozen=True, slots=True)
class LicenseKeyPair:
    """A new signing key.

    Attributes:
        private_pem: The private key, PKCS#8 PEM without a password. It is in no repr.
        public: The raw public key in base64url without padding, 43 characters, as MEMLANE_LICENSE_KEYS
            wants it.
    """

    private_pem: str = field(repr=False)
    public: str


@dataclass(frozen=True, slots=True)
class SignedLicense:
    """A license whose signature and claims are good; its dates are still to be decided.

    Attributes:
        key_id: The trusted key that signed it.
        license_id: Its `jti`.
        issued_at: When it was made, UTC.
        entitlement: What it grants, dates included. Hand it to `decide_entitlement` on each request.
    """

    key_id: str
    license_id: str
    issued_at: datetime
    entitlement: Entitlement

    def date_fault(self, now: datetime) -> LicenseFault | None:
        """``not_yet_valid`` or ``expired`` at ``now`` (timezone-aware), else None."""
        entitlement = self.entitlement
        if entitlement.not_before is None or now < entitlement.not_before:
            return LicenseFault.NOT_YET_VALID
        if entitlement.expires_at is None or now >= entitlement.expires_at:
            return LicenseFault.EXPIRED
        return None


def generate_keypair() -> LicenseKeyPair:
    """A new Ed25519 key for signing licenses."""
    private = Ed25519PrivateKey.generate()
    pem = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    raw = private.public_key().public_bytes_raw()
    return LicenseKeyPair(private_pem=pem.decode("ascii"), public=_base64url(raw))


def parse_trusted_keys(text: str) -> TrustedKeys:
    """Read MEMLANE_LICENSE_KEYS: ``kid:base64url[,kid:base64url]``.

    Args:
        text: Entries separated by commas, white space around them ignored. A key id is 1 to 64 of letters,
            digits, ``.``, ``_`` and ``-``; a key is the raw 32 bytes in base64url, 43 characters unpadded.

    Raises:
        Misconfigured: No entry, a malformed entry, or a key id given twice. Names the entry by its place, in a
            phrase that follows the setting's name.
    """
    keys: dict[str, Ed25519PublicKey] = {}
    for place, entry in enumerate(text.split(","), start=1):
        key_id, _, encoded = entry.strip().partition(":")
        if _KEY_ID.fullmatch(key_id) is None or _PUBLIC.fullmatch(encoded) is None:
            raise Misconfigured(f"entry {place} must be <key id>:<public key of 43 base64url characters>")
        if key_id in keys:
            raise Misconfigured(f"entry {place} repeats a key id")
        try:
            keys[key_id] = Ed25519PublicKey.from_public_bytes(urlsafe_b64decode(encoded + "="))
        except ValueError:
            raise Misconfigured(f"entry {place} is not an Ed25519 public key") from None
    return MappingProxyType(keys)


def check_key_id(key_id: str) -> None:
    """Whether deployments can name a key so.

    Raises:
        ValueError: They cannot.
    """
    if _KEY_ID.fullmatch(key_id) is None:
        raise ValueError("a key id is 1 to 64 of letters, digits, `.`, `_` and `-`")


def mint_license(
    private_pem: str,
    *,
    key_id: str,
    organization: str,
    plan: str,
    features: Mapping[str, bool],
    limits: Mapping[str, int | float],
    not_before: datetime,
    expires_at: datetime,
    now: datetime,
    license_id: str | None = None,
) -> str:
    """Sign a license.

    Args:
        private_pem: An Ed25519 private key in PEM.
        key_id: The id that deployments know its public key by.
        organization: The slug of the one organization it is for.
        plan: The plan's code.
        features: On or off by name; memory needs ``{"memory": True}``.
        limits: A finite number by name.
        not_before: The first moment it holds, timezone-aware; cut to a whole second.
        expires_at: The first moment it no longer holds, timezone-aware; cut to a whole second.
        now: The present moment, timezone-aware: when it was issued.
        license_id: Its `jti`; a random one by default.

    Raises:
        ValueError: The key is no Ed25519 private key, or a value is one that `read_license` would not take.
    """
    check_key_id(key_id)
    if clean_features(features) != dict(features) or clean_limits(limits) != dict(limits):
        raise ValueError("a feature must be a named boolean, and a limit a named finite number")
    if any(moment.utcoffset() is None for moment in (not_before, expires_at, now)):
        raise ValueError("dates must be timezone-aware")
    claims: dict[str, object] = {
        "iss": ISSUER,
        "org": organization,
        "plan": plan,
        "features": dict(features),
        "limits": dict(limits),
        "nbf": int(not_before.timestamp()),
        "exp": int(expires_at.timestamp()),
        "iat": int(now.timestamp()),
        "jti": uuid4().hex if license_id is None else license_id,
    }
    if _signed_license(key_id, claims) is None:
        raise ValueError("organization, plan or license id is malformed, or expires_at is not after not_before")
    return _JWS.encode(
        json.dumps(claims, separators=(",", ":")).encode("ascii"),
        _private_key(private_pem),
        algorithm=ALGORITHM,
        headers={"kid": key_id},
    )


def read_license(token: str, trusted_keys: TrustedKeys) -> SignedLicense:
    """Check a license's signature and claims, but not its dates.

    Args:
        token: The license, at most 16,384 characters.
        trusted_keys: The public keys that may have signed it.

    Raises:
        LicenseRejected: With any reason but ``not_yet_valid`` and ``expired``.
    """
    header = read_header(token, max_length=LICENSE_LENGTH_MAX)
    if header is None:
        raise LicenseRejected(LicenseFault.MALFORMED)
    if header.get("alg") != ALGORITHM:
        raise LicenseRejected(LicenseFault.WRONG_ALGORITHM)
    key_id = header.get("kid")
    if not isinstance(key_id, str) or not header.keys() <= _HEADER_NAMES:
        raise LicenseRejected(LicenseFault.MALFORMED)
    if key_id not in trusted_keys:
        raise LicenseRejected(LicenseFault.UNKNOWN_KEY)
    payload = verified_payload(_JWS, token, [trusted_keys[key_id]], algorithm=ALGORITHM)
    if payload is None:
        raise LicenseRejected(LicenseFault.BAD_SIGNATURE)
    claims = read_object(payload)
    license_ = None if claims is None else _signed_license(key_id, claims)
    if license_ is None:
        raise LicenseRejected(LicenseFault.WRONG_CLAIMS)
    return license_


def verify_license(token: str, trusted_keys: TrustedKeys, *, now: datetime) -> Entitlement:
    """Check a license's signature, claims and dates.

    Args:
        token: The license, at most 16,384 characters.
        trusted_keys: The public keys that may have signed it.
        now: The present moment, timezone-aware. No clock is read.

    Raises:
        LicenseRejected: It grants nothing at ``now``.
    """
    license_ = read_license(token, trusted_keys)
    fault = license_.date_fault(now)
    if fault is not None:
        raise LicenseRejected(fault)
    return license_.entitlement


def _signed_license(key_id: str, claims: Mapping[str, object]) -> SignedLicense | None:
    """The license that the claims describe, or None where one is missing, malformed or out of range."""
    organization = _matching(_ORGANIZATION, claims.get("org"))
    plan = _matching(_PLAN, claims.get("plan"))
    license_id = _matching(_LICENSE_ID, claims.get("jti"))
    features, limits = claims.get("features"), claims.get("limits")
    not_before, expires_at, issued_at = (as_second(claims.get(name)) for name in ("nbf", "exp", "iat"))
    if claims.get("iss") != ISSUER or organization is None or plan is None or license_id is None:
        return None
    if not isinstance(features, dict) or not isinstance(limits, dict):
        return None
    if not_before is None or expires_at is None or issued_at is None or expires_at <= not_before:
        return None
    return SignedLicense(
        key_id=key_id,
        license_id=license_id,
        issued_at=datetime.fromtimestamp(issued_at, UTC),
        entitlement=Entitlement(
            active=True,
            source=SELF_HOSTED,
            features=MappingProxyType(clean_features(features)),
            limits=MappingProxyType(clean_limits(limits)),
            plan_code=plan,
            entitlement_source=FROM_LICENSE,
            organization=organization,
            not_before=datetime.fromtimestamp(not_before, UTC),
            expires_at=datetime.fromtimestamp(expires_at, UTC),
        ),
    )


def _matching(pattern: re.Pattern[str], value: object) -> str | None:
    return value if isinstance(value, str) and pattern.fullmatch(value) is not None else None


def _private_key(pem: str) -> Ed25519PrivateKey:
    try:
        key = load_pem_private_key(pem.encode("ascii"), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise ValueError("the signing key is not an unencrypted PEM private key") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise ValueError("the signing key is not an Ed25519 key")  # noqa: TRY004 - its value is wrong
    return key


def _base64url(raw: bytes) -> str:
    return urlsafe_b64encode(raw).rstrip(b"=").decode("ascii")
