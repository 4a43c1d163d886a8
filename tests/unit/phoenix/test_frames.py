import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memlane.phoenix.close_codes import CloseCode
from memlane.phoenix.frames import (
    MAX_FRAME_BYTES,
    Fault,
    Frame,
    accepts_vsn,
    decode,
    encode_broadcast,
    encode_close,
    encode_reply,
)

TOPIC = "user_meta:memories:c1"
# What cannot be encoded as UTF-8 never comes out of a JSON decoder.
texts = st.text(st.characters(codec="utf-8"))
refs = st.none() | st.text(st.characters(codec="utf-8"), max_size=255)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=20,
)


def code_of(text: str | bytes) -> CloseCode | None:
    decoded = decode(text)
    return decoded.code if isinstance(decoded, Fault) else None


@given(refs, refs, texts, texts, json_values)
def test_a_frame_comes_out_as_it_went_in(
    join_ref: str | None, ref: str | None, topic: str, event: str, payload: Any
) -> None:
    text = json.dumps([join_ref, ref, topic, event, payload], ensure_ascii=False)
    frame = Frame(join_ref, ref, topic, event, payload)
    assert decode(text) == frame
    assert decode(text.encode()) == frame


@given(st.binary(max_size=300) | st.text(max_size=300))
@example("[" * 60_000)
@example('{"a":' * 10_000)
@example("\ud800")
@example(b'\xef\xbb\xbf[null,null,"a","b",{}]')
def test_decoding_never_raises(text: str | bytes) -> None:
    assert isinstance(decode(text), Frame | Fault)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "{}",
        "[]",
        "not json",
        '["1","2","t","e"]',
        '["1","2","t","e",{},null]',
        '[1,"2","t","e",{}]',
        '["1",2,"t","e",{}]',
        '[true,"2","t","e",{}]',
        '["1","2",null,"e",{}]',
        '["1","2","t",null,{}]',
        '["1","2","t",["e"],{}]',
        '["1","2","t","e",NaN]',
        '["1","2","t","e",1e999]',
        '["1","2","t","e","\\ud800"]',
        '["\\udfff","2","t","e",{}]',
        '["1","2","t","e","\ud800"]',
        b'["1","2","t","e","\xff"]',
        b'["1","2","t","e","\xed\xa0\x80"]',
        '["1","2","t","e",' + "[" * 2000 + "]" * 2000 + "]",
        '["' + "1" * 256 + '","2","t","e",{}]',
        '["1","' + "2" * 256 + '","t","e",{}]',
        '["1","2","t","e",{}] []',
    ],
)
def test_a_malformed_frame_is_a_protocol_error(text: str | bytes) -> None:
    assert code_of(text) is CloseCode.PROTOCOL_ERROR


def test_a_number_beyond_64_bits_is_read_without_harm() -> None:
    frame = decode('["1","2","t","e",' + "9" * 300 + "]")
    assert isinstance(frame, Frame)
    assert frame.payload == 1e300


def padded(size: int, filler: str) -> str:
    head = '["1","2","t","e","'
    return head + filler * ((size - len(head) - 2) // len(filler.encode())) + '"]'


@pytest.mark.parametrize("filler", ["x", "é", "€"])
def test_the_limit_of_64_kib_counts_bytes(filler: str) -> None:
    assert code_of(padded(MAX_FRAME_BYTES, filler)) is None
    assert code_of(padded(MAX_FRAME_BYTES, filler).encode()) is None
    over = padded(MAX_FRAME_BYTES + len(filler.encode()), filler) + "  "
    assert code_of(over) is CloseCode.MESSAGE_TOO_BIG
    assert code_of(over.encode()) is CloseCode.MESSAGE_TOO_BIG


def test_a_frame_over_the_limit_is_too_big_even_when_it_is_malformed() -> None:
    assert code_of("[" * (MAX_FRAME_BYTES + 1)) is CloseCode.MESSAGE_TOO_BIG


def test_the_reason_of_a_fault_fits_into_a_close_frame_and_quotes_nothing() -> None:
    for text in ("secret", '["secret"]', '[9,"secret","t","e",{}]', '["1","2",3,"secret",{}]', "s" * 70_000):
        fault = decode(text)
        assert isinstance(fault, Fault)
        assert len(fault.reason.encode()) <= 123
        assert "secret" not in fault.reason


def test_a_reply_is_the_frame_of_the_contract() -> None:
    assert (
        encode_reply("5", "5", TOPIC, "ok", {})
        == '["5","5","user_meta:memories:c1","phx_reply",{"status":"ok","response":{}}]'
    )


def test_a_close_repeats_the_join_ref_as_its_ref() -> None:
    assert encode_close("5", TOPIC) == '["5","5","user_meta:memories:c1","phx_close",{}]'


def test_a_broadcast_has_null_refs() -> None:
    assert (
        encode_broadcast(TOPIC, {"operation": "é"})
        == '[null,null,"user_meta:memories:c1","memory_metadata",{"operation":"é"}]'.encode()
    )


@pytest.mark.parametrize("vsn", ["2.0.0", "2.1.0", "2.10.3"])
def test_every_version_2_is_accepted(vsn: str) -> None:
    assert accepts_vsn(vsn)


@pytest.mark.parametrize(
    "vsn",
    [None, "", "1.0.0", "3.0.0", "2", "2.0", "2.0.0-rc.1", "2.00.0", "2.0.0\n", "\u0662.0.0", "2.0.0.0"],
)
def test_any_other_version_is_not(vsn: str | None) -> None:
    assert not accepts_vsn(vsn)
