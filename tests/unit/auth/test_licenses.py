import hmac
from base64 import urlsafe_b64decode
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from hypothesis import given
from hypothesis import strategies as st

from memlane.auth.licenses import (
    LICENSE_LENGTH_MAX,
    LicenseFault,
    LicenseRejected,
    TrustedKeys,
    generate_keypair,
    mint_license,
    parse_trusted_keys,
    read_license,
    verify_license,
)
from memlane.domain.decisions import Allowed, Denied
from memlane.domain.entitlement import decide_entitlement
from memlane.domain.errors import Misconfigured
from unit.auth.forging import forge, hs256, opened, segment

NOW = datetime(2030, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)
DAY = timedelta(days=1)
PAIR, OTHER = generate_keypair(), generate_keypair()
KEYS = parse_trusted_keys(f"k1:{PAIR.public},k2:{OTHER.public}")
CLAIMS: dict[str, Any] = {
    "iss": "memlane",
    "org": "acme",
    "plan": "team",
    "features": {"memory": True},
    "limits": {"memories.max": 1000},
    "nbf": int((NOW - DAY).timestamp()),
    "exp": int((NOW + DAY).timestamp()),
    "iat": int((NOW - DAY).timestamp()),
    "jti": "license-1",
}
HEADER = {"alg": "EdDSA", "kid": "k1", "typ": "JWT"}


def mint(**changes: Any) -> str:
    wanted: dict[str, Any] = {
        "key_id": "k1",
        "organization": "acme",
        "plan": "team",
        "features": {"memory": True},
        "limits": {"memories.max": 1000},
        "not_before": NOW - DAY,
        "expires_at": NOW + DAY,
        "now": NOW - DAY,
    }
    return mint_license(PAIR.private_pem, **(wanted | changes))


def eddsa(data: bytes) -> bytes:
    private = load_pem_private_key(PAIR.private_pem.encode(), None)
    assert isinstance(private, Ed25519PrivateKey)
    return private.sign(data)


def hs512(secret: bytes, data: bytes) -> bytes:
    """As long as an Ed25519 signature."""
    return hmac.digest(secret, data, "sha512")


def rejection(token: str, keys: TrustedKeys = KEYS, *, now: datetime = NOW) -> LicenseFault:
    with pytest.raises(LicenseRejected) as rejected:
        verify_license(token, keys, now=now)
    assert len(token) < 20 or token not in str(rejected.value)
    return rejected.value.reason


# --- Good licenses


def test_a_minted_license_entitles_its_organization() -> None:
    entitlement = verify_license(mint(), KEYS, now=NOW)
    assert entitlement.organization == "acme"
    assert entitlement.source == "selfHostedDeploymentLicense"
    assert entitlement.plan_code == "team"
    assert entitlement.limits == {"memories.max": 1000}
    assert (entitlement.not_before, entitlement.expires_at) == (NOW - DAY, NOW + DAY)
    assert decide_entitlement(entitlement, organization="acme", now=NOW) == Allowed()


def test_it_entitles_no_other_organization() -> None:
    entitlement = verify_license(mint(), KEYS, now=NOW)
    assert decide_entitlement(entitlement, organization="other", now=NOW) == Denied("MEMORY_NOT_ENTITLED")


def test_a_license_is_a_plain_jwt_with_a_key_id() -> None:
    token = mint(license_id="license-1")
    assert opened(token, 0) == HEADER
    assert opened(token, 1) == CLAIMS
    assert verify_license(forge(HEADER, CLAIMS, eddsa), KEYS, now=NOW) == verify_license(token, KEYS, now=NOW)


def test_a_claim_that_is_not_ours_is_ignored() -> None:
    assert verify_license(forge(HEADER, {**CLAIMS, "sub": 7, "aud": ["x"]}, eddsa), KEYS, now=NOW).active


def test_a_license_read_once_is_dated_on_each_request() -> None:
    license_ = read_license(mint(license_id="l7"), KEYS)
    assert (license_.key_id, license_.license_id, license_.issued_at) == ("k1", "l7", NOW - DAY)

    def decided(now: datetime) -> Any:
        return decide_entitlement(license_.entitlement, organization="acme", now=now)

    assert decided(NOW + DAY - SECOND) == Allowed()
    assert decided(NOW + DAY) == Denied("MEMORY_NOT_ENTITLED")


@given(st.integers(0, 10**9), st.integers(1, 10**9), st.integers(0, 3 * 10**9))
def test_the_clock_of_the_machine_plays_no_part(start: int, length: int, at: int) -> None:
    not_before = datetime.fromtimestamp(start, UTC)
    token = mint(not_before=not_before, expires_at=not_before + length * SECOND)
    now = datetime.fromtimestamp(at, UTC)
    if at < start:
        assert rejection(token, now=now) == "not_yet_valid"
    elif at >= start + length:
        assert rejection(token, now=now) == "expired"
    else:
        assert verify_license(token, KEYS, now=now).active


# --- Dates


def test_a_license_that_expired_a_second_ago_is_rejected() -> None:
    assert rejection(mint(expires_at=NOW - SECOND)) == "expired"


def test_a_license_ends_at_the_very_second_of_its_expiry() -> None:
    assert rejection(mint(expires_at=NOW)) == "expired"
    assert verify_license(mint(expires_at=NOW + SECOND), KEYS, now=NOW).active


def test_a_license_that_starts_in_a_second_is_rejected() -> None:
    assert rejection(mint(not_before=NOW + SECOND)) == "not_yet_valid"
    assert verify_license(mint(not_before=NOW), KEYS, now=NOW).active


# --- Features


@pytest.mark.parametrize("value", ["true", 1, None, 1.0, [True], {}, False, "yes"])
def test_a_memory_feature_that_is_not_exactly_true_is_denied(value: Any) -> None:
    token = forge(HEADER, {**CLAIMS, "features": {"memory": value}}, eddsa)
    entitlement = verify_license(token, KEYS, now=NOW)
    assert decide_entitlement(entitlement, organization="acme", now=NOW) == Denied("MEMORY_NOT_ENTITLED")


def test_a_license_without_the_memory_feature_is_denied() -> None:
    entitlement = verify_license(mint(features={"threads": True}), KEYS, now=NOW)
    assert decide_entitlement(entitlement, organization="acme", now=NOW) == Denied("MEMORY_NOT_ENTITLED")


# --- Attacks on the signature


@pytest.mark.parametrize("alg", ["none", "None", "NONE", "", "HS256", "RS256", "ES256", "Ed25519", "eddsa", None, 7])
def test_no_algorithm_but_eddsa_is_believed(alg: Any) -> None:
    assert rejection(forge({**HEADER, "alg": alg}, CLAIMS, lambda _: b"x" * 64)) == "wrong_algorithm"


def test_an_unsigned_license_is_rejected() -> None:
    unsigned = f"{segment({**HEADER, 'alg': 'none'})}.{segment(CLAIMS)}."
    assert rejection(unsigned) == "malformed"


def test_an_hmac_keyed_with_the_public_key_is_rejected() -> None:
    pem = KEYS["k1"].public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    raw = urlsafe_b64decode(PAIR.public + "=")
    for secret in (raw, PAIR.public.encode(), pem):
        assert rejection(forge({**HEADER, "alg": "HS256"}, CLAIMS, hs256(secret))) == "wrong_algorithm"
        assert rejection(forge(HEADER, CLAIMS, partial(hs512, secret))) == "bad_signature"


def test_a_swapped_key_id_is_rejected() -> None:
    assert rejection(forge({**HEADER, "kid": "k2"}, CLAIMS, eddsa)) == "bad_signature"
    _, payload, signature = mint().split(".")
    assert rejection(f"{segment({**HEADER, 'kid': 'k2'})}.{payload}.{signature}") == "bad_signature"


@pytest.mark.parametrize("kid", ["k3", "", "K1", "k1 ", "../k1", "k1\x00"])
def test_an_unknown_key_id_is_rejected(kid: str) -> None:
    assert rejection(forge({**HEADER, "kid": kid}, CLAIMS, eddsa)) == "unknown_key"


@pytest.mark.parametrize("kid", [None, 1, ["k1"], {"k1": 1}, True])
def test_a_key_id_that_is_no_text_is_malformed(kid: Any) -> None:
    assert rejection(forge({**HEADER, "kid": kid}, CLAIMS, eddsa)) == "malformed"


@pytest.mark.parametrize(
    "more",
    [{"jwk": {}}, {"jku": "https://x"}, {"x5u": "https://x"}, {"crit": ["b64"], "b64": False}, {"b64": True}],
)
def test_a_header_with_anything_else_is_malformed(more: dict[str, Any]) -> None:
    assert rejection(forge({**HEADER, **more}, CLAIMS, eddsa)) == "malformed"


def test_an_edited_payload_is_rejected() -> None:
    header, _, signature = mint().split(".")
    for edit in ({"org": "other"}, {"exp": CLAIMS["exp"] + 1}, {"features": {"memory": True, "x": True}}):
        assert rejection(f"{header}.{segment({**CLAIMS, **edit})}.{signature}") == "bad_signature"


def test_a_key_that_is_not_trusted_any_more_rejects_its_licenses() -> None:
    assert rejection(mint(), parse_trusted_keys(f"k2:{OTHER.public}")) == "unknown_key"
    assert rejection(mint(), parse_trusted_keys(f"k1:{OTHER.public}")) == "bad_signature"


def test_every_truncation_is_rejected() -> None:
    token = mint()
    for length in range(len(token)):
        assert rejection(token[:length]) in {"malformed", "bad_signature"}


@given(st.data())
def test_no_changed_character_is_accepted_with_other_claims(data: st.DataObject) -> None:
    token = mint(license_id="license-1")
    at = data.draw(st.integers(0, len(token) - 1))
    changed = token[:at] + data.draw(st.characters(codec="utf-8")) + token[at + 1 :]
    try:
        entitlement = verify_license(changed, KEYS, now=NOW)
    except LicenseRejected:
        return
    assert changed.rpartition(".")[0] == token.rpartition(".")[0]
    assert entitlement == verify_license(token, KEYS, now=NOW)


@pytest.mark.parametrize(
    "token",
    [
        "",
        ".",
        "..",
        "a.b",
        "a.b.c.d",
        "e30.e30.e30",
        "!!!.e30.e30",
        "é.e30.e30",
        "e.e30.e30",
        f"{segment([])}.e30.e30",
        f"{segment(b'{')}.e30.e30",
        segment(b'{"alg":"EdDSA","alg":"EdDSA","kid":"k1"}') + ".e30.e30",
        segment(b"[" * 9000) + ".e30.e30",
        "a" * (LICENSE_LENGTH_MAX + 1),
    ],
)
def test_what_is_no_token_is_malformed(token: str) -> None:
    assert rejection(token) in {"malformed", "wrong_algorithm"}


@given(st.text(max_size=200) | st.from_regex(r"[A-Za-z0-9_-]{0,60}\.[A-Za-z0-9_-]{0,60}\.[A-Za-z0-9_-]{0,60}"))
def test_no_text_makes_it_raise_anything_else(token: str) -> None:
    rejection(token)


def test_padding_and_white_space_are_not_part_of_a_license() -> None:
    for changed in (f"{mint()}=", f"{mint()}\n", f" {mint()}"):
        assert rejection(changed) == "malformed"


# --- Claims


@pytest.mark.parametrize("name", sorted(CLAIMS))
def test_every_claim_is_required(name: str) -> None:
    claims = {key: value for key, value in CLAIMS.items() if key != name}
    assert rejection(forge(HEADER, claims, eddsa)) == "wrong_claims"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("iss", "other"),
        ("iss", ["memlane"]),
        ("org", ""),
        ("org", "Acme"),
        ("org", ["acme"]),
        ("org", 1),
        ("org", "a" * 64),
        ("plan", ""),
        ("plan", None),
        ("plan", "\ud800"),
        ("features", ["memory"]),
        ("features", None),
        ("features", "memory"),
        ("limits", []),
        ("exp", "9999999999"),
        ("exp", 9999999999.5),
        ("exp", True),
        ("exp", -1),
        ("exp", 10**30),
        ("exp", CLAIMS["nbf"]),
        ("exp", None),
        ("nbf", "0"),
        ("nbf", False),
        ("nbf", 1.5),
        ("iat", "now"),
        ("jti", 7),
        ("jti", ""),
    ],
)
def test_a_claim_of_a_wrong_type_or_range_is_rejected(name: str, value: Any) -> None:
    assert rejection(forge(HEADER, {**CLAIMS, name: value}, eddsa)) == "wrong_claims"


@pytest.mark.parametrize("payload", [b"", b"{}", b"[]", b"null", b"{", b"\xff", b'{"exp":NaN}', b'{"a":1,"a":1}'])
def test_a_signed_payload_that_is_no_claims_object_is_rejected(payload: bytes) -> None:
    assert rejection(forge(HEADER, payload, eddsa)) == ("wrong_claims" if payload else "malformed")


# --- Keys


def test_a_generated_pair_signs_and_shows_no_private_key() -> None:
    pair = generate_keypair()
    assert len(pair.public) == 43
    assert "PRIVATE" in pair.private_pem
    assert "PRIVATE" not in repr(pair)


def test_trusted_keys_are_read_with_white_space_around_them() -> None:
    assert list(parse_trusted_keys(f" k1:{PAIR.public} ,\n2030.01:{OTHER.public}\n")) == ["k1", "2030.01"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        ",",
        "k1",
        "k1:",
        f":{PAIR.public}",
        f"k 1:{PAIR.public}",
        f"k1:{PAIR.public[:-1]}",
        f"k1:{PAIR.public}=",
        f"k1:{PAIR.public}\x00",
        f"k1:{PAIR.public},",
        f"k1:{PAIR.public},k1:{OTHER.public}",
        f"k1:{'+' * 43}",
        f"{'k' * 65}:{PAIR.public}",
    ],
    ids=lambda text: str(len(text)),  # the keys are random, and workers must collect the same tests
)
def test_a_malformed_list_of_trusted_keys_is_a_misconfiguration_that_shows_no_value(text: str) -> None:
    with pytest.raises(Misconfigured) as refused:
        parse_trusted_keys(text)
    assert PAIR.public[:20] not in str(refused.value)


# --- Minting


@pytest.mark.parametrize(
    "changes",
    [
        {"key_id": ""},
        {"organization": "Acme Inc"},
        {"plan": ""},
        {"features": {"memory": "true"}},
        {"features": {"": True}},
        {"limits": {"memories.max": "many"}},
        {"limits": {"memories.max": float("inf")}},
        {"expires_at": NOW - DAY},
        {"now": NOW.replace(tzinfo=None)},
        {"not_before": NOW.replace(tzinfo=None)},
        {"license_id": "a b"},
    ],
)
def test_no_license_is_minted_that_would_be_rejected(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"."):
        mint(**changes)


@pytest.mark.parametrize(
    "pem",
    [
        "",
        "rubbish",
        generate_private_key(SECP256R1()).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode(),
    ],
)
def test_only_an_ed25519_key_signs(pem: str) -> None:
    with pytest.raises(ValueError, match="signing key"):
        mint_license(
            pem,
            key_id="k1",
            organization="acme",
            plan="team",
            features={},
            limits={},
            not_before=NOW,
            expires_at=NOW + DAY,
            now=NOW,
        )
