import pytest
from hypothesis import given
from hypothesis import strategies as st

from memlane.auth.runtime_keys import (
    AUTHORIZATION_LENGTH_MAX,
    KEY_LENGTH_MAX,
    RuntimeKeyToken,
    mint_runtime_key,
    parse_authorization,
    parse_runtime_key,
)

SHORT = "Ab3dEf6hIj9l"
LONG = "x" * 43
KEY = f"cpk-demo_{SHORT}_{LONG}"
slugs = st.from_regex(r"[a-z0-9-]{1,63}", fullmatch=True)


@given(slugs)
def test_a_minted_key_is_read_back_as_it_was_made(project: str) -> None:
    key = mint_runtime_key(project)
    assert parse_runtime_key(key.reveal()) == key
    assert parse_authorization(f"Bearer {key.reveal()}") == key


def test_no_two_keys_are_alike() -> None:
    keys = [mint_runtime_key("demo") for _ in range(100)]
    assert len({key.short for key in keys}) == len({key.secret for key in keys}) == 100


@pytest.mark.parametrize("project", ["", "a" * 64, "Demo", "de_mo", "démo", "demo\n", "a b"])
def test_a_key_is_minted_for_a_slug_only(project: str) -> None:
    with pytest.raises(ValueError, match="slug"):
        mint_runtime_key(project)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "cpk-",
        KEY[4:],
        KEY.upper(),
        f" {KEY}",
        f"{KEY}\n",
        f"cpk-_{SHORT}_{LONG}",
        f"cpk-{'a' * 64}_{SHORT}_{LONG}",
        f"cpk-Demo_{SHORT}_{LONG}",
        f"cpk-de_mo_{SHORT}_{LONG}",
        f"cpk-demo_{SHORT[:-1]}_{LONG}",
        f"cpk-demo_{SHORT}x_{LONG}",
        f"cpk-demo_{SHORT}_{LONG[:-1]}",
        f"cpk-demo_{SHORT}_{'x' * 129}",
        f"cpk-demo_{SHORT}_{LONG[:-1]}-",
        f"cpk-demo_{SHORT}_{LONG[:-1]}٣",
        f"cpk-demo_{SHORT}_{LONG}\x00",
        f"cpk-demo_{SHORT}_" + "x" * 10_000_000,
    ],
)
def test_a_malformed_key_is_no_key(text: str) -> None:
    assert parse_runtime_key(text) is None
    assert parse_authorization(f"Bearer {text}") is None or text.startswith(" ")


def test_the_longest_key_is_read() -> None:
    key = f"cpk-{'a' * 63}_{SHORT}_{'x' * 128}"
    assert len(key) == KEY_LENGTH_MAX
    assert parse_runtime_key(key) == RuntimeKeyToken("a" * 63, SHORT, "x" * 128)


@pytest.mark.parametrize("scheme", ["Bearer ", "bearer ", "BEARER ", "bEaReR   "])
def test_the_scheme_is_read_in_any_case(scheme: str) -> None:
    assert parse_authorization(scheme + KEY) == RuntimeKeyToken("demo", SHORT, LONG)


@pytest.mark.parametrize(
    "value",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        KEY,
        f"Basic {KEY}",
        f"Bearer{KEY}",
        f"Bearer\t{KEY}",
        f"Bearer {KEY} {KEY}",
        f"Bearer {KEY}, Bearer {KEY}",
        f"Bearer \u00a0{KEY}",
        "Bearer " + " " * AUTHORIZATION_LENGTH_MAX + KEY,
    ],
)
def test_any_other_header_holds_no_key(value: str | None) -> None:
    assert parse_authorization(value) is None


@given(st.text(max_size=400))
def test_no_text_makes_parsing_raise(text: str) -> None:
    assert parse_runtime_key(text) is None
    assert parse_authorization(text) is None


def test_only_the_same_secret_matches_the_stored_hash() -> None:
    key = RuntimeKeyToken("demo", SHORT, LONG)
    assert len(key.hash()) == 32
    assert key.matches(key.hash())
    assert not RuntimeKeyToken("demo", SHORT, "x" * 42 + "y").matches(key.hash())
    assert not key.matches(b"")


def test_no_repr_shows_the_secret() -> None:
    key = mint_runtime_key("demo")
    shown = f"{key!r} {key} {[key]}"
    assert key.short in shown
    assert key.secret not in shown
