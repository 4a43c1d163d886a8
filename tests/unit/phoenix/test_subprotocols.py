"""The credential of an upgrade as a subprotocol."""

from base64 import b64encode, urlsafe_b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memlane.phoenix.subprotocols import bearer_tokens

PREFIX = "base64url.bearer.phx."
TOKEN = "aaa.bbb-c_c.ddd"


@given(st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1))
def test_a_token_is_read_in_either_alphabet_with_or_without_the_other_offers(token: str) -> None:
    for encode in (b64encode, urlsafe_b64encode):
        offer = PREFIX + encode(token.encode()).decode().rstrip("=")
        assert bearer_tokens(["phoenix", offer]) == [token]
        assert bearer_tokens([offer]) == [token]


def test_no_offer_of_a_token_is_no_token() -> None:
    assert bearer_tokens([]) == []
    assert bearer_tokens(["phoenix", "graphql-ws", PREFIX.upper()]) == []


def test_two_offers_are_two_tokens() -> None:
    offer = PREFIX + b64encode(TOKEN.encode()).decode().rstrip("=")
    assert bearer_tokens([offer, offer]) == [TOKEN, TOKEN]


@pytest.mark.parametrize("text", ["", "a", "*", "a b", "+-ab", "gICA", "YWJj\n", "ü"])
def test_what_cannot_be_read_opens_nothing(text: str) -> None:
    assert bearer_tokens([PREFIX + text]) == [""]
