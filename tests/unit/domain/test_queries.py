"""What a query is asked as."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memlane.domain.queries import mean_vector, near_spellings, respelled, without_names
from memlane.domain.terms import query_terms


@pytest.mark.parametrize(
    ("query", "nameless"),
    [
        ("When did Ana move to the coast?", "When did move to the coast?"),
        ("What is Ana's favourite tea?", "What is favourite tea?"),
        ("Ana's sister works where, and since when?", "sister works where, and since when?"),
        ("what did the doctor recommend to Bo?", "what did the doctor recommend to?"),
        ("Who supports Ana when she is ill", "Who supports when she is ill"),
    ],
)
def test_a_question_is_also_asked_without_its_names(query: str, nameless: str) -> None:
    assert without_names(query) == nameless


@pytest.mark.parametrize(
    "query",
    [
        "When is the move to New York?",  # two words are one name of a place or a thing
        "What is said about the LGBTQ group?",
        "What happened in May 2023?",
        "What happened on Monday?",
        "What does the user like?",
        "how does this user like updates",
        "The server is called Heron and runs Debian.",  # no question
        "Who is Ana?",  # too little would be left
        "Wo arbeitet der Nutzer am Montag mit Anna?",
        "アナはどこに住んでいますか？",
        "",
        "   ",
        "?",
    ],
)
def test_any_other_query_is_asked_as_it_is(query: str) -> None:
    assert without_names(query) is None


@given(st.text(max_size=60))
def test_names_are_left_out_of_any_text_without_a_fault_and_nothing_is_added(query: str) -> None:
    nameless = without_names(query)
    assert nameless is None or len(nameless) < len(query)


def test_the_mean_of_unit_vectors_has_length_1_and_lies_between_them() -> None:
    mean = mean_vector([[1.0, 0.0], [0.0, 1.0]])
    assert math.hypot(*mean) == pytest.approx(1)
    assert mean[0] == pytest.approx(mean[1])
    assert mean_vector([[0.6, 0.8]]) == [0.6, 0.8]
    assert mean_vector([[1.0, 0.0], [-1.0, 0.0]]) == [1.0, 0.0]


@given(st.text(alphabet="abcdefgh", min_size=5, max_size=20), st.data())
def test_one_slip_of_the_pen_is_a_near_spelling(term: str, data: st.DataObject) -> None:
    place = data.draw(st.integers(1, len(term) - 2))
    slips = (
        term[:place] + term[place + 1 :],
        term[:place] + "z" + term[place:],
        term[:place] + "z" + term[place + 1 :],
        term[:place] + term[place + 1] + term[place] + term[place + 2 :],
    )
    for slip in slips:
        if slip != term:
            assert slip in near_spellings([term])[term]


@pytest.mark.parametrize("term", ["tea", "abcd", "3.11", "кошка", "東京", "a" * 21, "node.js", "c++"])
def test_short_terms_and_other_scripts_have_no_near_spellings(term: str) -> None:
    assert near_spellings([term]) == {}


def test_the_number_of_spellings_is_bounded() -> None:
    spelled = near_spellings([f"abcdefghijklmnopqrs{letter}" for letter in "tuvwxyz"])
    assert len(spelled) == 4
    assert all(len(some) < 1100 for some in spelled.values())


def test_an_unseen_term_becomes_its_most_frequent_near_spelling_and_others_stay() -> None:
    terms = query_terms("does she play the gutiar in a bnad")
    spellings = near_spellings([term for term in terms if term == "gutiar"])
    assert respelled(terms, spellings, {"guitar": 3, "gutter": 9}) == ["play", "guitar", "bnad"]
    assert respelled(terms, spellings, {}) == terms
    assert respelled(["gutiar", "guitar"], spellings, {"guitar": 1}) == ["guitar"]
