from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memlane.auth.join_tokens import (
    TOKEN_LENGTH_MAX,
    JoinClaims,
    JoinTokenFault,
    JoinTokenRejected,
    JoinTokens,
    parse_join_secrets,
)
from memlane.domain.errors import Misconfigured
from memlane.domain.grant import Access, Grant
from unit.auth.forging import forge, hs256, opened, segment

NOW = datetime(2030, 1, 1, tzinfo=UTC)
OLD, NEW, FOREIGN = b"o" * 32, b"n" * 32, b"f" * 32
TOKENS = JoinTokens((OLD,))
HEADER = {"alg": "HS256", "typ": "join"}
CLAIMS = JoinClaims(
    organization="acme",
    project="0197a0d2-7a33-7bbb-8f54-0f3a5f5f0a11",
    user="u1",
    scope="user",
    grant=Grant(user=Access.READ_WRITE, project=Access.NONE),
    key_id="Ab3dEf6hIj9l",
    lane="agents",
    join_code="c0ffee",
    epoch="e1",
    cursor=41,
    issued_at=NOW,
    session_id="s1",
)
COMPACT: dict[str, Any] = opened(TOKENS.mint(CLAIMS), 1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
plain = st.from_regex(r"[A-Za-z0-9._:-]{1,128}", fullmatch=True)
claims = st.builds(
    JoinClaims,
    organization=plain,
    project=plain,
    user=st.text(min_size=1, max_size=256),
    scope=st.sampled_from(["user", "project"]),
    grant=st.builds(Grant, user=st.sampled_from(Access), project=st.sampled_from(Access)),
    key_id=plain,
    lane=plain,
    join_code=plain,
    epoch=plain,
    cursor=st.integers(0, 2**63 - 1),
    issued_at=st.integers(0, 4 * 10**9).map(lambda second: datetime.fromtimestamp(second, UTC)),
    session_id=plain,
    logged_out_at=st.none() | st.integers(1, 4 * 10**15).map(lambda micro: EPOCH + timedelta(microseconds=micro)),
)


def rejection(token: str, tokens: JoinTokens = TOKENS) -> JoinTokenFault:
    with pytest.raises(JoinTokenRejected) as rejected:
        tokens.verify(token)
    return rejected.value.reason


@given(claims)
def test_a_minted_token_gives_back_its_claims(wanted: JoinClaims) -> None:
    token = TOKENS.mint(wanted)
    assert len(token) <= TOKEN_LENGTH_MAX
    assert TOKENS.verify(token) == wanted


def test_a_token_has_no_expiry_of_its_own_and_is_dated_to_the_second() -> None:
    token = TOKENS.mint(replace(CLAIMS, issued_at=NOW + timedelta(milliseconds=999)))
    assert TOKENS.verify(token).issued_at == NOW
    assert "exp" not in opened(token, 1)


def test_the_longest_claims_fit_into_a_token() -> None:
    texts = ("organization", "project", "key_id", "lane", "join_code", "epoch", "session_id")
    longest: dict[str, Any] = dict.fromkeys(texts, "x" * 128)
    for user in ("\U0001f600" * 256, "\x01" * 256):
        wanted = replace(CLAIMS, user=user, cursor=2**63 - 1, **longest)
        token = TOKENS.mint(wanted)
        assert len(token) < 3700
        assert TOKENS.verify(token) == wanted


def test_an_everyday_token_is_short() -> None:
    assert len(TOKENS.mint(CLAIMS)) < 400


def test_a_rotation_cuts_nobody_off() -> None:
    before, during, after = JoinTokens((OLD,)), JoinTokens((NEW, OLD)), JoinTokens((NEW,))
    assert during.verify(before.mint(CLAIMS)) == CLAIMS
    assert after.verify(during.mint(CLAIMS)) == CLAIMS
    assert rejection(before.mint(CLAIMS), after) == "bad_signature"


@pytest.mark.parametrize("alg", ["none", "None", "", "HS384", "HS512", "RS256", "EdDSA", "hs256", None, 7])
def test_no_algorithm_but_hs256_is_believed(alg: Any) -> None:
    assert rejection(forge({**HEADER, "alg": alg}, COMPACT, hs256(OLD))) == "wrong_algorithm"


def test_an_unsigned_token_is_rejected() -> None:
    assert rejection(f"{segment({**HEADER, 'alg': 'none'})}.{segment(COMPACT)}.") == "malformed"


@pytest.mark.parametrize(
    "header", [{"alg": "HS256"}, {**HEADER, "typ": "JWT"}, {**HEADER, "kid": "1"}, {**HEADER, "b64": False}]
)
def test_a_token_of_another_purpose_is_rejected(header: dict[str, Any]) -> None:
    assert rejection(forge(header, COMPACT, hs256(OLD))) == "malformed"


@pytest.mark.parametrize("secret", [FOREIGN, b"", OLD[:31], OLD + b"\x00" * 64])
def test_a_foreign_secret_signs_nothing(secret: bytes) -> None:
    assert rejection(forge(HEADER, COMPACT, hs256(secret))) == "bad_signature"


@pytest.mark.parametrize("edit", [{"u": "u2"}, {"g": "ww"}, {"o": "other"}, {"s": "project"}, {"iat": 1}])
def test_an_edited_payload_is_rejected(edit: dict[str, Any]) -> None:
    header, _, signature = TOKENS.mint(CLAIMS).split(".")
    assert rejection(f"{header}.{segment({**COMPACT, **edit})}.{signature}") == "bad_signature"


def test_every_truncation_is_rejected() -> None:
    token = TOKENS.mint(CLAIMS)
    for length in range(len(token)):
        assert rejection(token[:length]) in {"malformed", "bad_signature"}


@given(st.text(max_size=200) | st.from_regex(r"[A-Za-z0-9_-]{0,60}\.[A-Za-z0-9_-]{0,60}\.[A-Za-z0-9_-]{0,60}"))
def test_no_text_makes_it_raise_anything_else(token: str) -> None:
    rejection(token)


@pytest.mark.parametrize(
    "token",
    [
        "",
        "..",
        "a.b",
        "e30.e30.e30",
        segment(b"[" * 2500) + ".e30.e30",
        "a" * 4097,
        TOKENS.mint(CLAIMS) + "=",
    ],
)
def test_what_is_no_token_is_rejected_before_its_signature_is_checked(token: str) -> None:
    assert rejection(token) in {"malformed", "wrong_algorithm"}


@pytest.mark.parametrize("name", sorted(COMPACT))
def test_every_claim_is_required(name: str) -> None:
    fewer = {key: value for key, value in COMPACT.items() if key != name}
    assert rejection(forge(HEADER, fewer, hs256(OLD))) == "wrong_claims"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("o", ""),
        ("o", 1),
        ("p", None),
        ("p", "a b"),
        ("k", "x" * 129),
        ("u", ""),
        ("u", "x" * 257),
        ("u", 1),
        ("u", "\ud800"),
        ("s", "organization"),
        ("s", None),
        ("s", ["user"]),
        ("g", "w"),
        ("g", "www"),
        ("g", "xx"),
        ("g", {"user": "read"}),
        ("q", -1),
        ("q", 2**63),
        ("q", 1.0),
        ("q", True),
        ("q", "1"),
        ("iat", -1),
        ("iat", 10**30),
        ("iat", 1.5),
        ("iat", True),
        ("x", -1),
        ("x", 10**30),
        ("x", 1.5),
        ("x", True),
        ("x", None),
        ("exp", 1),
    ],
)
def test_a_signed_claim_of_a_wrong_type_is_rejected(name: str, value: Any) -> None:
    assert rejection(forge(HEADER, {**COMPACT, name: value}, hs256(OLD))) == "wrong_claims"


@pytest.mark.parametrize(
    "changes",
    [
        {"user": ""},
        {"user": "\udc80"},
        {"organization": ""},
        {"cursor": -1},
        {"scope": "all"},
        {"session_id": "a b"},
        {"issued_at": NOW.replace(tzinfo=None)},
    ],
)
def test_no_token_is_minted_that_would_be_rejected(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"."):
        TOKENS.mint(replace(CLAIMS, **changes))


def test_secrets_are_read_with_white_space_around_them() -> None:
    assert parse_join_secrets(f" {'n' * 32} ,\n{'é' * 16}\n") == (NEW, ("é" * 16).encode())


@pytest.mark.parametrize(
    "text",
    [
        "",
        ",",
        "x" * 31,
        f"{'x' * 32},",
        f"{'x' * 32},{'x' * 32}",
        f"{'x' * 32},short",
        ",".join(chr(97 + place) * 32 for place in range(9)),
        "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA\n-----END PUBLIC KEY-----",
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ",
    ],
)
def test_weak_secrets_are_a_misconfiguration_that_shows_no_value(text: str) -> None:
    with pytest.raises(Misconfigured) as refused:
        parse_join_secrets(text)
    assert not text or text not in str(refused.value)


def test_no_repr_shows_a_secret() -> None:
    assert "ooo" not in f"{TOKENS!r} {TOKENS}"
