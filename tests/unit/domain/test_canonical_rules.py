"""The deep rules: what each may join, and that none joins two texts that differ in what they say."""

import itertools
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from memlane.domain.canonical import absorb_key, canonical_form
from memlane.domain.canonical.phrases import PHRASES
from memlane.domain.canonical.verbs import BASES, FORMS, third_person
from memlane.domain.canonical.words import LAST_FILLERS, SPELLINGS

# One slot of each kind that must never be lost, and a frame for every rule that could lose it.
SLOTS = {
    "number": ("2", "3", "12", "fifteen", "200", "two thousand", "1,500", "1.5", "22"),
    "unit": ("kg", "km", "minutes", "hours", "GB", "MB", "euros", "dollars", "percent"),
    "date": ("3 March", "4 March", "March 30", "3 May", "2026-03-05", "10/25/2026", "Monday", "Tue", "the 3rd of June"),
    "name": ("Ana", "Anna", "Carlos", "Chris", "Priya", "Pritha", "Lena", "Bo"),
    "thing": ("the parser", "the invoices", "the house", "all tests", "the user", "a van", "the third report"),
    "negation": ("", "not", "never", "no longer", "hardly"),
    "quantifier": ("all", "some", "most", "every", "no", "few", "a few", "both", "only", "many"),
    "preposition": ("to", "from", "by", "for", "with", "without", "in", "on", "under", "over", "before", "after"),
    "modal": ("must", "may", "can", "will", "should", "would"),
}
FRAMES = {
    "number": (
        "The user has {} children.", "At most {} people are in.",
        "The limit is up to {} users.", "It runs {} times a day.",
        "The cap is {}.", "The report was written by Ana {} times.", "The user has {} cats called Miso.",
        "Every {} weeks the team holds a demo.", "The user lives at number {}.", "The budget is {} million euros.",
    ),
    "unit": ("The limit is 5 {}.", "Over 5 {} the alarm is raised by Ana.", "The cap is no more than 5 {} per day."),
    "date": ("The demo is on {}.", "On {}, the user works from home.", "The house was built by Ana on {}.",
        "By {} it ends."),
    "name": (
        "The tests are reviewed by {}.", "{} is the team lead.", "The user's manager is {}.",
        "The user has a dog called {}.",
        "{} is used as the cache.", "{} is used to track bugs.", "{} is where the user keeps notes.", "My name is {}.",
        "The user prefers {} over coffee.", "The user prefers coffee over {}.", "{} approves all invoices.",
    ),
    "thing": ("{} was painted by Lena.", "Lena painted {}.", "The admin of {} is Rolf.", "Lena is used to fix {}."),
    "negation": (
        "The user does {} like tea.", "The tests are {} run by Lena.", "The user {} really prefers tea.",
        "The user is {} currently training.", "The report is {} used as the base.",
    ),
    "quantifier": (
        "{} tests are run by Lena.", "Lena approves {} invoices.", "The user likes {} cats.", "{} services use TLS.",
        "The user has {} cats named Miso.", "The user eats {} fish.",
    ),
    "preposition": (
        "The report was written {} Ana.", "The user moved {} Lima.", "The user prefers Ana {} Bo.",
        "{} Monday, the user runs.",
        "The bugs are tracked {} Jira.", "The user flew {} 3 lakes.", "The user walks {} the house.",
        "The user works {} Ana.",
    ),
    "modal": ("The user {} sign it.", "The report {} be written by Ana.", "The user {} not sign.", "Tests {} be run."),
}  # fmt: skip


@pytest.mark.parametrize("kind", sorted(FRAMES))
def test_texts_that_differ_in_one_thing_said_are_never_joined(kind: str) -> None:
    joined = [
        (frame, one, other)
        for frame in FRAMES[kind]
        for one, other in itertools.combinations(SLOTS[kind], 2)
        if canonical_form(frame.format(one)) == canonical_form(frame.format(other))
    ]
    # Of tools, "tracked in" and "tracked with" are one; of what is preferred, "over" and "to".
    allowed = {
        ("The bugs are tracked {} Jira.", "with", "in"),
        ("The user prefers Ana {} Bo.", "to", "over"),
    }
    assert set(joined) <= allowed


@given(
    st.sampled_from(sorted(BASES)),
    st.lists(st.sampled_from(["Anna", "Carlos", "the team", "the user", "Bo"]), min_size=2, max_size=2, unique=True),
)
def test_a_passive_clause_keeps_who_does_it_to_whom(participle: str, people: list[str]) -> None:
    doer, done = people
    # A verb of three equal forms ("cut", "set") has no tense of its own here.
    past, _ = FORMS[BASES[participle]]
    assume(past != third_person(BASES[participle]))
    passive = canonical_form(f"The work of {done} was {participle} by {doer}.")
    assert passive == canonical_form(f"{doer} {past} the work of {done}.")
    assert passive != canonical_form(f"{done} {past} the work of {doer}.")
    assert passive != canonical_form(f"The work of {doer} was {participle} by {done}.")
    assert passive != canonical_form(f"The work of {done} is {participle} by {doer}.")
    assert passive != canonical_form(f"The work of {done} was not {participle} by {doer}.")


@given(st.sampled_from([(phrase, replacement) for rows in PHRASES.values() for phrase, replacement in rows]))
def test_a_phrase_is_its_replacement_wherever_it_stands(row: tuple[tuple[str, ...], tuple[str, ...]]) -> None:
    phrase, replacement = " ".join(row[0]), " ".join(row[1])
    frame = "the user and Bo {} us"
    assert canonical_form(frame.format(phrase)) == canonical_form(frame.format(replacement))


def test_no_replacement_holds_a_phrase_that_is_replaced_again() -> None:
    for rows in PHRASES.values():
        for _, replacement in rows:
            for start, word in enumerate(replacement):
                for phrase, _ in PHRASES.get(word, ()):
                    assert replacement[start : start + len(phrase)] != phrase, (phrase, replacement)


def test_no_spelling_leads_to_another_and_no_participle_to_two_verbs() -> None:
    assert not set(SPELLINGS) & {word for right in SPELLINGS.values() for word in right.split(",")}
    participles = [participle for _, participle in FORMS.values()]
    assert len(set(participles)) == len(participles)


@pytest.mark.parametrize("ending", [" ".join(filler) for filler in LAST_FILLERS])
def test_an_ending_that_says_nothing_is_dropped(ending: str) -> None:
    text = f"The user plays the harp {ending}".replace(" ,", ",")
    assert canonical_form(text) == "user plays the harp"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The user's friend called Bob.", "The user's friend named Bob."),
        ("The user holds a meeting room.", "The user has a meeting room."),
        ("The user uses Firefox Nightly.", "The user uses Firefox every night."),
        ("The user does not have to sign.", "The user must not sign."),
        ("The user is used to track changes.", "Changes are tracked with the user."),
        ("The user flew over 3 lakes.", "The user flew more than 3 lakes."),
        ("The dogs are run every night.", "The dogs run every night."),
        ("Every form is signed by a manager.", "A manager signs every form."),
        ("Invoices are not approved by Lena.", "Lena approves invoices."),
        ("She's seen it.", "She is seen it."),
        ("The call is at 9:30.", "The call is at 9:30 pm."),
        ("The user really likes rain.", "The user likes rain."),
        ("The user runs 10k.", "The user runs 10000."),
        ("The price is 5 pounds.", "The price is £5."),
        ("The talk is on 10/11/2026.", "The talk is on 10 November 2026."),
        ("The code is 1,5.", "The code is 15."),
        ("No one has a dog.", "No 1 has a dog."),
        ("I was told to wait.", "The user was told to wait."),
        ("I am afraid the disk is full.", "The user is afraid the disk is full."),
        ("The user has CI in mind.", "The user has continuous integration in mind."),
    ],
)
def test_what_only_looks_alike_is_kept_apart(one: str, other: str) -> None:
    assert canonical_form(one) != canonical_form(other)


def test_two_texts_of_one_form_count_from_the_same_day() -> None:
    noon = datetime(2026, 3, 3, 12, tzinfo=UTC)
    plain, hedged = "The user is training for a race.", "The user is currently training for a race."
    assert absorb_key(plain, scope="user", user_id="u", now=noon) == absorb_key(
        hedged, scope="user", user_id="u", now=noon + timedelta(days=2)
    )
