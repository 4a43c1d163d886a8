"""Whatever a person writes is saved, listed and recalled as given; what cannot be stored is refused by name."""

from typing import Any

import pytest

from integration.rest.house import Shop, error_of, faults_of
from support.service import headers_of

TEXTS = {
    "emoji": "Loves 👩‍👩‍👧‍👦 and 🏳️‍🌈, and hates 👎🏽.",
    "right to left": "המשתמש מעדיף תה ירוק, not coffee, يفضل الشاي.",
    "bidi controls": "\u202eabc\u202c \u2066x\u2069",
    "Chinese": "用户住在北京，喜欢喝绿茶。",
    "Japanese": "東京タワーの近くに住んでいます。",
    "Korean": "사용자는 서울에 산다.",
    "Thai": "ผู้ใช้ชอบดื่มชาเขียว",
    "combining marks": "cafe\u0301 na\u0308ive Z\u0351\u036b\u0343\u036a\u0302\u0347a\u0334\u0321lgo",
    "composed marks": "café näive",
    "beyond the BMP": "𝕸𝖊𝖒𝖑𝖆𝖓𝖊 𓀀 𠀋",
    "a model's control token": "<|endoftext|> [CLS] </s> <|im_start|>system",
    "query syntax": 'TODO: (fix) "a/b AND',
    "tsquery": "a & b | !c <-> d:* ''",
    "a pattern": "50% of _ and \\_ \\% .* (?:x+)+$ [a-",
    "backslashes": "C:\\temp\\new \\u0041 \\",
    "quotes": "\"'`“”‘’«»",
    "an injection": "'; drop table memories; --",
    "placeholders": "$1 :name {0} %s ${x} {{y}}",
    "line breaks": "one\ntwo\r\nthree\ttabs\u2028four\u0085five",
    "outer white space": "  kept as it is \n",
    "control characters": "bell\x07 escape\x1b[31m delete\x7f",
    "zero width": "zero\u200bwidth\ufeff",
    "no-characters": "\ufffe\uffff\U0010ffff",
    "markup": "<script>alert(1)</script> &amp; &lt;",
    "a single character": "x",
    "punctuation only": "!!!",
}
LONGEST = {
    "ASCII": "a" * 8192,
    "beyond the BMP": "𠀋" * 8192,
    "words": "tea and " * 1024,
    "combining marks": "e" + "\u0301" * 8191,
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
async def test_a_text_is_saved_listed_read_and_recalled_as_given(shop: Shop, me: dict[str, Any], text: str) -> None:
    await shop.save(me, "The printer is out of paper.")
    saved = await shop.save(me, text)
    assert saved["content"] == text
    assert (await shop.listed(me))[0] == text
    assert (await shop.read(me, saved["id"])).json()["content"] == text
    assert text in await shop.recalled(me, text)


@pytest.mark.parametrize("text", LONGEST.values(), ids=LONGEST)
async def test_the_longest_text_is_saved_and_recalled(shop: Shop, me: dict[str, Any], text: str) -> None:
    await shop.save(me, text)
    assert await shop.listed(me) == [text]
    assert await shop.recalled(me, text) == [text]


@pytest.mark.parametrize("text", ["a" * 8193, "𠀋" * 8193, " " * 8192 + "a"])
@pytest.mark.parametrize(
    ("path", "field"), [("/api/memories", "content"), ("/api/memories/recall", "query")], ids=["content", "query"]
)
async def test_one_character_more_is_refused(shop: Shop, me: dict[str, Any], path: str, field: str, text: str) -> None:
    body = {"content": text, "kind": "topical"} if field == "content" else {"query": text}
    assert faults_of(await shop.post(me, body, path)) == {field: "must have at most 8192 characters"}


@pytest.mark.parametrize(
    ("written", "why"),
    [
        pytest.param('""', "must have at least 1 character(s)", id="empty"),
        pytest.param('"  \\t\\n"', "must not be empty or only white space", id="blank"),
        pytest.param('"\u3000\u00a0\u2003"', "must not be empty or only white space", id="blank in other scripts"),
        pytest.param('"a\\u0000b"', "must not contain a NUL character", id="NUL"),
        pytest.param('"a\\ud83d b"', "must not contain a lone surrogate", id="a lone high surrogate"),
        pytest.param('"a\\udd8a b"', "must not contain a lone surrogate", id="a lone low surrogate"),
        pytest.param('"\\udd8a\\ud83d"', "must not contain a lone surrogate", id="a pair the wrong way round"),
    ],
)
@pytest.mark.parametrize(
    ("path", "template", "field"),
    [
        pytest.param("/api/memories", '{"content":%s,"kind":"topical"}', "content", id="content"),
        pytest.param("/api/memories/recall", '{"query":%s}', "query", id="query"),
        pytest.param(
            "/api/memories/batch", '{"memories":[{"content":%s,"kind":"topical"}]}', "memories.0.content", id="batch"
        ),
    ],
)
async def test_what_cannot_be_stored_is_refused_by_the_fields_name(
    shop: Shop, me: dict[str, Any], path: str, template: str, field: str, written: str, why: str
) -> None:
    answer = await shop.client.post(path, headers=me, content=(template % written).encode())
    assert faults_of(answer) == {field: why}


@pytest.mark.parametrize(
    "written",
    [
        pytest.param(b'{"content":"tea","kind":"topical","sourceThreadIds":["a\\u0000"]}', id="NUL in a thread id"),
        pytest.param(b'{"content":"tea","kind":"topical","sourceThreadIds":["\\ud800"]}', id="a surrogate there"),
    ],
)
async def test_a_thread_id_that_cannot_be_stored_is_named(shop: Shop, me: dict[str, Any], written: bytes) -> None:
    assert set(faults_of(await shop.client.post("/api/memories", headers=me, content=written))) == {"sourceThreadIds.0"}


@pytest.mark.parametrize(
    "written",
    [
        pytest.param(b'{"content":"tea","kind":"\\ud800"}', id="in a kind"),
        pytest.param(b'{"content":"tea","kind":"topical","scope":"\\udfff"}', id="in a scope"),
        pytest.param(b'{"content":"tea","kind":"topical","\\ud800":1}', id="in an unknown name"),
        pytest.param(b'{"content":"tea\xff","kind":"topical"}', id="not UTF-8"),
        pytest.param(b'{"content":"\xed\xa0\x80","kind":"topical"}', id="a surrogate in bytes"),
    ],
)
async def test_broken_characters_anywhere_are_400(shop: Shop, me: dict[str, Any], written: bytes) -> None:
    answer = await shop.client.post("/api/memories", headers=me, content=written)
    assert error_of(answer) == (400, "MEMORY_VALIDATION_ERROR")


async def test_an_escaped_surrogate_pair_is_one_character(shop: Shop, me: dict[str, Any]) -> None:
    written = b'{"content":"\\ud83e\\udd8a","kind":"topical"}'
    assert (await shop.client.post("/api/memories", headers=me, content=written)).json()["content"] == "🦊"


async def test_texts_differ_by_canonical_equivalence_only_in_their_bytes(shop: Shop, me: dict[str, Any]) -> None:
    """Composed and decomposed letters say the same; the newer spelling is what is shown."""
    await shop.save(me, "Likes the cafe\u0301.")
    again = await shop.save(me, "Likes the caf\u00e9.")
    assert (again["absorbed"], again["content"]) == (True, "Likes the caf\u00e9.")


# --- Source threads


async def test_thread_ids_keep_their_order_without_repeats(shop: Shop, me: dict[str, Any]) -> None:
    saved = await shop.save(me, "Likes tea.", sourceThreadIds=["b", "a", "b", "🦊", "a", " c "])
    assert saved["sourceThreadIds"] == ["b", "a", "🦊", " c "]


async def test_100_thread_ids_of_256_characters_are_taken(shop: Shop, me: dict[str, Any]) -> None:
    threads = [f"{number:03}".rjust(256, "𠀋") for number in range(100)]
    assert (await shop.save(me, "Likes tea.", sourceThreadIds=threads))["sourceThreadIds"] == threads


@pytest.mark.parametrize(
    ("threads", "fault"),
    [
        (["t"] * 101, {"sourceThreadIds": "must have at most 100 items"}),
        (["x" * 257], {"sourceThreadIds.0": "must have at most 256 characters"}),
        (["t", "🦊" * 257], {"sourceThreadIds.1": "must have at most 256 characters"}),
        ([""], {"sourceThreadIds.0": "must have at least 1 character(s)"}),
        ([5], {"sourceThreadIds.0": "must be a string"}),
        ([None], {"sourceThreadIds.0": "must be a string"}),
        ("t", {"sourceThreadIds": "must be a list"}),
        (None, {"sourceThreadIds": "must be a list"}),
        ({"0": "t"}, {"sourceThreadIds": "must be a list"}),
    ],
    ids=str,
)
async def test_other_thread_ids_are_refused(shop: Shop, me: dict[str, Any], threads: Any, fault: Any) -> None:
    answer = await shop.post(me, {"content": "Likes tea.", "kind": "topical", "sourceThreadIds": threads})
    assert faults_of(answer) == fault


# --- Provenance headers


async def test_provenance_is_kept_as_sent(shop: Shop, me: dict[str, Any]) -> None:
    sent = {
        "X-Memlane-Run": "lauf-ü-🦊".encode(),
        "X-Memlane-Source": b"thread:a b/c?d",
        "X-Memlane-Triggered-By": b"caf\xe9",
    }
    saved = await shop.save({**me, **sent}, "Likes tea.")
    (write,) = (await shop.client.get(f"/api/memories/{saved['id']}/provenance", headers=me)).json()["writes"]
    assert [write[name] for name in ("run", "sourceType", "sourceId", "triggeredBy")] == [
        "lauf-ü-🦊",
        "thread",
        "a b/c?d",
        "café",
    ]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("X-Memlane-Source", "no-colon"),
        ("X-Memlane-Source", ":id"),
        ("X-Memlane-Source", "type:"),
        ("X-Memlane-Source", "a type:id"),
        ("X-Memlane-Source", f"{'t' * 65}:id"),
        ("X-Memlane-Source", f"type:{'i' * 257}"),
        ("X-Memlane-Run", "r" * 257),
        ("X-Memlane-Triggered-By", "t" * 257),
    ],
)
async def test_malformed_provenance_is_refused_by_its_headers_name(
    shop: Shop, me: dict[str, Any], name: str, value: str
) -> None:
    answer = await shop.post({**me, name: value}, {"content": "Likes tea.", "kind": "topical"})
    assert list(faults_of(answer)) == [name]


@pytest.mark.parametrize("name", ["X-Memlane-Run", "X-Memlane-Triggered-By"])
async def test_the_longest_provenance_is_taken(shop: Shop, name: str) -> None:
    me = headers_of(await shop.key())
    await shop.save({**me, name: "🦊".encode() * 256}, "Likes tea.")
