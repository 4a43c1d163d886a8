"""Terms: the same words in a memory and in a query meet, in every script."""

import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memlane.domain.terms import MAX_TERM_LENGTH, MAX_TERMS, TERMS_VERSION, index_terms, query_terms


@pytest.mark.parametrize(
    ("memory", "query"),
    [
        ("The user prefers dark mode in all editors.", "which mode does the EDITOR use"),
        ("Runs marathons", "running"),
        ("Knows C++ well", "c++"),
        ("Knows C# well", "C#?"),
        ("The front end is node.js", "node"),
        ("The front end is node.js", "Node.js"),
        ("Python 3.11 in production", "3.11"),
        ("Write to tom@example.com.", "tom@example.com"),
        ("Write to tom@example.com.", "example"),
        ("Calls at 9:30", "9:30"),
        ("Works at AT&T", "at&t"),
        ("東京に住んでいる", "東京"),
        ("東京に住んでいる", "京"),
        ("住在北京市", "北京"),
        ("猫が好き", "猫"),
        ("ラーメンが好き", "ﾗｰﾒﾝ"),
        ("ฉันชอบกินข้าวผัด", "ข้าว"),
        ("저는 서울에 살아요", "서울"),
        ("ຂ້ອຍມັກກາເຟ", "ກາເຟ"),
        ("ខ្ញុំចូលចិត្តកាហ្វេ", "កាហ្វេ"),
        ("Я люблю читать книги", "книга"),
        ("Ο χρήστης πίνει καφέ", "καφέ"),
        ("أحب القهوة العربية", "قهوة"),
        ("אוהב קפה שחור", "קפה"),
        ("मुझे हिंदी किताबें पसंद हैं", "किताब"),
        ("Ärztin aus Köln", "köln"),
        ("Cafe\u0301 owner", "café"),
        ("Mood: 👍🏽", "👍"),
        ("Full ｗｉｄｔｈ", "width"),
        ('TODO: (fix) "a/b AND', "fix & todo | !x"),
    ],
)  # fmt: skip
def test_a_query_meets_a_memory_with_its_word(memory: str, query: str) -> None:
    assert set(query_terms(query)) & set(index_terms(memory))


@pytest.mark.parametrize(
    ("memory", "query"),
    [
        ("Knows C++", "C#"), ("Knows C++", "C"), ("Version 1.5", "15"), ("Version 1.5", "5"),
        ("Mood: 👍", "👎"), ("東京", "京都"), ("Likes tea", "the is of"),
    ],
)  # fmt: skip
def test_a_query_does_not_meet_a_memory_with_another_word(memory: str, query: str) -> None:
    assert not set(query_terms(query)) & set(index_terms(memory))


@pytest.mark.parametrize("text", ["", " ", "to be or not to be", "...!?", "\x00", "\ud800", "\u200d", "и в на"])
def test_stop_words_and_punctuation_have_no_terms(text: str) -> None:
    assert index_terms(text) == []
    assert query_terms(text) == []


def test_user_text_is_never_syntax() -> None:
    assert query_terms("tea' & | ! <-> :* (coffee) \\") == ["tea", "coffe"]


def test_a_long_word_is_cut_and_the_query_with_it() -> None:
    assert index_terms("a" * 8192) == ["a" * MAX_TERM_LENGTH] == query_terms("A" * 8192)


@given(
    st.one_of(
        st.text(), st.text(alphabet="aé1.+#@-'&: 猫かก้한글हि\u0301\u200d👍\x00"), st.from_regex(r"[a-z.+#@]{0,40}")
    )
)
def test_terms_are_distinct_and_bounded(text: str) -> None:
    for terms in (index_terms(text), query_terms(text)):
        assert len(terms) == len(set(terms)) <= MAX_TERMS
        assert all(1 <= len(term) <= MAX_TERM_LENGTH for term in terms)
        assert all("\x00" not in term and not term.isspace() for term in terms)
        for term in terms:
            term.encode("utf-8")


@given(st.text())
def test_every_term_of_a_query_is_one_of_the_same_text_indexed(text: str) -> None:
    assert set(query_terms(text)) <= set(index_terms(text))


def test_the_number_of_terms_is_bounded() -> None:
    assert len(index_terms(" ".join(f"w{number}" for number in range(1200)))) == MAX_TERMS


def test_threads_do_not_share_a_stemmer() -> None:
    text = "running quickly through beautiful mountains with hopeful swimmers и читающие книги"
    expected = index_terms(text)
    wrong: list[list[str]] = []

    def run() -> None:
        wrong.extend(terms for _ in range(300) if (terms := index_terms(text)) != expected)

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.parametrize(
    "text",
    ["a," * 4096, "a." * 4096, "e" + "\u0301\u0316" * 4095, "ﷺ" * 8192, "猫" * 8192, "a" + "+" * 8191, "a-" * 4096],
    ids=lambda text: ascii(text[:6]),
)
def test_hostile_text_takes_milliseconds(text: str) -> None:
    start = time.perf_counter()
    index_terms(text)
    # 1 to 25 ms on a laptop; the bound leaves room for a busy machine.
    assert time.perf_counter() - start < 0.25


def test_the_version_is_a_positive_number() -> None:
    assert TERMS_VERSION >= 1
