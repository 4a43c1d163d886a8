from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jwt import PyJWS

from memlane.auth._compact import LATEST_SECOND, as_second, read_header, read_object, verified_payload
from unit.auth.forging import forge, hs256

SECRET = b"s" * 32
HS256 = PyJWS(algorithms=["HS256"])


def test_a_header_is_read_without_believing_it() -> None:
    assert read_header(forge({"alg": "none"}, {}, hs256(b"?")), max_length=200) == {"alg": "none"}


def test_a_token_over_its_length_is_not_read() -> None:
    token = forge({"alg": "HS256"}, {}, hs256(SECRET))
    assert read_header(token, max_length=len(token)) is not None
    assert read_header(token, max_length=len(token) - 1) is None


@given(st.text(max_size=100) | st.from_regex(r"[A-Za-z0-9_-]{1,40}\.a\.b", fullmatch=True))
def test_no_text_makes_reading_raise(token: str) -> None:
    header = read_header(token, max_length=1000)
    assert header is None or isinstance(header, dict)


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b"1", b'{"a":NaN}', b'{"a":-Infinity}', b'{"a":1,"a":2}', b"\xff", b"[" * 100_000],
)
def test_what_readers_could_disagree_on_is_no_object(data: bytes) -> None:
    assert read_object(data) is None


def test_a_repeat_inside_an_object_is_seen() -> None:
    assert read_object(b'{"features":{"memory":false,"memory":true}}') is None


def test_any_of_the_keys_verifies_and_no_other() -> None:
    token = forge({"alg": "HS256"}, {"a": 1}, hs256(SECRET))
    assert verified_payload(HS256, token, [b"x" * 32, SECRET], algorithm="HS256") == b'{"a": 1}'
    assert verified_payload(HS256, token, [b"x" * 32], algorithm="HS256") is None
    assert verified_payload(HS256, token, [], algorithm="HS256") is None


@pytest.mark.parametrize(
    ("value", "second"),
    [
        (0, 0),
        (LATEST_SECOND, LATEST_SECOND),
        (LATEST_SECOND + 1, None),
        (-1, None),
        (True, None),
        (1.0, None),
    ],
)
def test_a_second_is_a_whole_number_that_a_datetime_can_hold(value: Any, second: int | None) -> None:
    assert as_second(value) == second
