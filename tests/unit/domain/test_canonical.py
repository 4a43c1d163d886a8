"""The canonical form: what it absorbs, and above all what it keeps apart."""

import sys
import time
import unicodedata

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from memlane.domain.canonical import CANONICAL_VERSION, canonical_form
from memlane.domain.canonical.context import looks_english

SUBJECTS = ("The user", "User", "I", "The team", "Anna", "Her brother", "The billing service")
VERBS = ("likes", "does not like", "works with", "moved to", "is", "has", "never sees", "prefers", "knows")
OBJECTS = ("tea", "coffee", "Bob", "Carol", "Berlin", "Munich", "Python 3.11", "a dog", "the office", "no cats")
TAILS = (
    "", "on Mondays", "every Friday", "at 9 am", "from Oslo to Rome", "for 3 days", "with 10 MB", "and milk",
    "in March 2025", "because of work", "without sugar", "by 14:30", "on 3 May", "in the morning",
)  # fmt: skip


@st.composite
def statements(draw: st.DrawFn) -> str:
    """English statements of the kinds that the deep rules rewrite."""
    parts = [draw(st.sampled_from(SUBJECTS)), draw(st.sampled_from(VERBS)), draw(st.sampled_from(OBJECTS))]
    tail = draw(st.sampled_from(TAILS))
    if tail and draw(st.booleans()):
        return f"{tail.capitalize()}, {' '.join(parts)}."
    return " ".join([*parts, tail]).strip() + "."


WORDS = st.lists(
    st.sampled_from(
        [
            *"the a I my me user user's is am have on in at every Monday Mondays may march 3 3rd 14 2025 and , , .".split(),  # noqa: E501, SIM905 - one row reads better
            *"twenty-five two 10MB 5 km megabytes k8s repo don't can't cannot - – never (France) at 14:30 9:30 am p.m.".split(),  # noqa: E501, SIM905 - as above
            *'likes allergic to tea coffee IT it Frank " of 2025-03-14 around 10 minutes percent % the favourite . !'.split(),  # noqa: E501, SIM905 - as above
            *"note that as mentioned by way , vs code visual mar oct GB M m not work works for".split(),  # noqa: SIM905 - as above
        ]
    ),
    max_size=14,
).map(" ".join)


@given(st.one_of(st.text(), WORDS, statements()))
@example("\u0345" * 40 + "a")
@example("J\u030c \u0130 \u1e9e")
@example("ﾊ\u00adﾟ")
@example("\ufeff\u3000tea.\ufeff")
@example("may 3 may 4 may 5")
@example("the the user the user I am I")
@example("\uff40 TEA \uff40")
def test_a_form_is_its_own_form(text: str) -> None:
    form = canonical_form(text)
    assert canonical_form(form) == form


@given(statements())
def test_case_white_space_and_a_last_full_stop_never_matter(text: str) -> None:
    form = canonical_form(text)
    assert canonical_form(text.removesuffix(".")) == form
    assert canonical_form("  " + text.replace(" ", " \t\n ") + "\n") == form
    # After a digit it is kept: 5! is a factorial.
    assert text[-2].isdigit() or canonical_form(text.removesuffix(".") + "!") == form
    # Units keep their case after a number: 10 MB is not 10 mb.
    assume("10 mb" not in text.lower())
    assert canonical_form(text.lower()) == form
    assert canonical_form(text.upper()) == form


@given(statements(), st.data())
def test_another_digit_is_never_absorbed(text: str, data: st.DataObject) -> None:
    places = [index for index, char in enumerate(text) if char.isdigit()]
    assume(places)
    place = data.draw(st.sampled_from(places))
    digit = data.draw(st.sampled_from([digit for digit in "0123456789" if digit != text[place]]))
    changed = text[:place] + digit + text[place + 1 :]
    assert canonical_form(changed) != canonical_form(text)
    assert canonical_form(text[:place] + digit + text[place:]) != canonical_form(text)
    # 9 am and 9:00 am are one time, so the digit that goes may not be all that is left of a number.
    assert canonical_form(text[:place] + text[place + 1 :]) != canonical_form(text)


@given(statements(), st.data())
def test_a_negation_is_never_absorbed(text: str, data: st.DataObject) -> None:
    words = text.split(" ")
    place = data.draw(st.integers(min_value=0, max_value=len(words)))
    negation = data.draw(st.sampled_from(["not", "no", "never", "without", "hardly", "neither"]))
    changed = " ".join([*words[:place], negation, *words[place:]])
    assert canonical_form(changed) != canonical_form(text)


@given(statements(), st.data())
def test_one_word_more_or_less_is_never_absorbed(text: str, data: st.DataObject) -> None:
    words = text.split(" ")
    place = data.draw(st.integers(min_value=0, max_value=len(words) - 1))
    # Only the article of the subject, which the form drops, is no loss.
    assume(words[place].lower() != "the")
    assert canonical_form(" ".join(words[:place] + words[place + 1 :])) != canonical_form(text)


@given(
    st.sampled_from(["moved", "sends mail", "drives", "translates", "flies", "prefers trains"]),
    st.sampled_from([("Oslo", "Rome"), ("Bob", "Carol"), ("English", "French"), ("2", "3"), ("three", "four")]),
    st.sampled_from([("from", "to"), ("to", "from"), ("for", "by"), ("by", "with"), ("with", "without")]),
)
def test_a_direction_is_never_turned(verb: str, ends: tuple[str, str], ways: tuple[str, str]) -> None:
    there = canonical_form(f"The user {verb} {ways[0]} {ends[0]} {ways[1]} {ends[1]}.")
    assert there != canonical_form(f"The user {verb} {ways[0]} {ends[1]} {ways[1]} {ends[0]}.")
    assert there != canonical_form(f"The user {verb} {ways[1]} {ends[0]} {ways[0]} {ends[1]}.")


@given(st.lists(st.sampled_from(["Anna", "Bob", "Carol", "Dave"]), min_size=2, max_size=2, unique=True))
def test_who_does_what_to_whom_is_never_swapped(names: list[str]) -> None:
    first, second = names
    for clause in ("{} knows {}", "{} likes {}", "{} is {}", "On Mondays, {} pays {}", "{} is the user's {}"):
        assert canonical_form(clause.format(first, second)) != canonical_form(clause.format(second, first))


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), min_size=1))
def test_a_text_in_another_language_than_english_keeps_every_letter_and_digit(text: str) -> None:
    # The letter apostrophe of Ukrainian is one with the apostrophe that people type.
    text = text.replace("\u02bc", "'")
    composed = unicodedata.normalize("NFC", text)
    # Full-width characters are folded, which other tests show.
    assume(composed == unicodedata.normalize("NFKC", text))
    assume(not looks_english(composed.lower()))
    form = canonical_form(text)
    assert [char for char in form.lower() if char.isalnum()] == [char for char in composed.lower() if char.isalnum()]


@pytest.mark.parametrize("text", ["", " ", "\n\t", "...", "!!!", "?", "—", "。", "\ufeff", "()", '"', "- - -"])
def test_a_text_that_says_nothing_has_an_empty_form(text: str) -> None:
    assert canonical_form(text) == ""


@pytest.mark.parametrize("text", ["👍", "+", "€", "a", "1", "√", "猫", "\u0301"])
def test_one_letter_digit_or_symbol_says_something(text: str) -> None:
    assert canonical_form(text) != ""


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("  The user's  favourite colour is Blue.", "user's favorite color is blue"),
        ("I don't eat shellfish!", "user does not eat shellfish"),
        ("On Mondays, I work from home.", "user works from home on mondays"),
        ("The call is at 16:30 on March 3rd, 2026.", "call is at 4:30 pm on 3 march 2026"),
        ("The user speaks French, German, and English.", "user speaks english, french and german"),
        ("Priya is my manager.", "user's manager is priya"),
        ("The cap is 10MB.", "cap is 10 MB"),
        ("Vivo en Madrid.", "vivo en madrid"),
        ("J'ai deux enfants.", "j'ai deux enfants"),
        ("Reads ‘Dune’.", "reads 'dune'"),
        ("Ｆｕｌｌ　ｗｉｄｔｈ！", "full width"),
        ("Run `make  Test`.", "Run `make  Test`."),
    ],
)
def test_the_form_of(text: str, form: str) -> None:
    assert canonical_form(text) == form


@pytest.mark.parametrize(
    "text",
    [
        "I recommended Rust to Bo and the parser.",
        "I will send the report to Bo.",
        "I am going to send the report to Bo.",
        "I like that you are here.",
        "The plan is in phase I for the team.",
        "I have sent the report to Bo.",
        "I can read the file for Bo.",
        "I need to check the file.",
    ],
)
def test_an_i_that_may_be_the_agents_is_not_made_the_user(text: str) -> None:
    assert "user" not in canonical_form(text)


@pytest.mark.parametrize(
    "text",
    [
        "a" * 8192, "a," * 4096, "the " * 2048, "in a " * 1638, '"' * 8192, "a." * 4096, "a" + "!" * 8191,
        "(" * 8191 + "a", "a:\n" * 2730, ":\n" + " " * 8190, "😀" * 8192, "猫" * 8192, "1," * 4096, "a'" * 4096,
        "e\u0301\u0316" * 2730, "e" + "\u0301\u0316" * 4095, "in " + "abc-" * 2040, "A) " * 2730, "this " * 1638,
        "in an " * 1365, "I am " * 1638, "likes a and " * 682, "ﷺ" * 8192, " " * 8191 + "x", "may 3 " * 1365,
    ],
    ids=lambda text: ascii(text[:6]),
)  # fmt: skip
def test_hostile_text_takes_time_in_proportion_to_its_length(text: str) -> None:
    def seconds(sample: str) -> float:
        best = float("inf")
        for _ in range(3):
            start = time.perf_counter()
            canonical_form(sample)
            best = min(best, time.perf_counter() - start)
        return best

    # About 10 ms on a laptop; the bound leaves room for a busy machine, and a quadratic rule takes far longer.
    assert seconds(text) < 0.1


def test_no_mark_with_a_place_in_an_order_is_a_letter() -> None:
    # What keeps normalization linear looks for runs of marks among the characters that are no letters.
    assert not any(unicodedata.combining(chr(code)) and chr(code).isalnum() for code in range(sys.maxunicode + 1))


def test_the_version_is_a_positive_number() -> None:
    assert CANONICAL_VERSION >= 1
