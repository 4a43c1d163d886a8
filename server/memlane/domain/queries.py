"""What a query is asked as: its text, its text without the names that every memory has, and near spellings.

Two things were measured to help (docs/recall.md):

- *Without names*: in a channel that is about Ana, "When did Ana move?" is close to whatever has "Ana" in it. The mean
  of the vectors of the question with and without its names asks for the move.
- *Near spellings*: a query's term that no memory of the channel has is looked for again one edit away.

The module does no I/O.
"""

import math
import re
from collections.abc import Mapping, Sequence

from memlane.domain.canonical.context import looks_english
from memlane.domain.canonical.words import word_set

SPELLED_MIN = 5
"""Shortest term that is looked for in other spellings: shorter ones are one edit away from too many words."""
SPELLED_MAX = 20
"""Longest such term."""
SPELLED_TERMS = 4
"""Most such terms of one query; each has some 450 spellings."""

_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_TITLED = re.compile(r"^[A-Z][a-z]+(?:'s|\u2019s)?([?.,!]?)$")
_CAPITAL = re.compile(r"^[A-Z0-9]")
_FIRST_POSSESSIVE = re.compile(r"^[A-Z][a-z]+['\u2019]s$")
_ASKING = frozenset({"what's", "where's", "who's", "when's", "how's", "it's", "that's", "there's", "let's"})
_CALENDAR = word_set(
    """
    Monday Tuesday Wednesday Thursday Friday Saturday Sunday January February March April May June July August
    September October November December
    """
)
_OPENINGS = word_set(
    """
    what when where who whom whose which why how did does do is are was were has have had will would can could should
    """
)
_FEWEST_WORDS = 3


def without_names(query: str) -> str | None:
    """An English question without its single names; None when it has none, or too little would be left.

    A name is one capitalised word that does not open the question and has no capitalised neighbour: of "New York",
    "LGBTQ" and "May 2023" every word stays.

    Args:
        query: The query's text.
    """
    words = query.split()
    if not words or not (query.rstrip().endswith("?") or words[0].lower().split("'")[0] in _OPENINGS):
        return None
    kept: list[str] = []
    for place, word in enumerate(words):
        first = place == 0 and _FIRST_POSSESSIVE.match(word) and word.lower().replace("\u2019", "'") not in _ASKING
        if first:
            continue
        mark = _name_mark(words, place)
        if mark is None:
            kept.append(word)
        elif kept:
            kept[-1] += mark
    if len(kept) == len(words) or len(kept) < _FEWEST_WORDS or not looks_english(query):
        return None
    return " ".join(kept)


def _name_mark(words: Sequence[str], place: int) -> str | None:
    """The punctuation after a single name at this place; None when there is no such name."""
    found = _TITLED.match(words[place]) if place else None
    if found is None or words[place].rstrip("?.,!") in _CALENDAR:
        return None
    following = words[place + 1] if place + 1 < len(words) else ""
    alone = not _CAPITAL.match(following) or bool(found[1])
    return found[1] if alone and not (place > 1 and _CAPITAL.match(words[place - 1])) else None


def mean_vector(vectors: Sequence[Sequence[float]]) -> list[float]:
    """The direction between unit vectors: their mean, of length 1.

    Args:
        vectors: One or more of one length; of opposite ones, whose mean is zero, the first is taken.
    """
    if len(vectors) == 1:
        return list(vectors[0])
    summed = [math.fsum(column) for column in zip(*vectors, strict=True)]
    norm = math.hypot(*summed)
    return [value / norm for value in summed] if norm else list(vectors[0])


def near_spellings(terms: Sequence[str]) -> dict[str, list[str]]:
    """What each term may have been meant as: all that is one letter more, less, other, or swapped with the next.

    The first letter is kept, which people rarely get wrong.

    Args:
        terms: Terms that no memory has; of those that are 5 to 20 plain Latin letters, the first 4 are taken.

    Returns:
        The spellings of each such term, the term itself left out.
    """
    fit = [term for term in terms if SPELLED_MIN <= len(term) <= SPELLED_MAX and term.isascii() and term.isalpha()]
    return {term: sorted(_one_edit(term)) for term in fit[:SPELLED_TERMS]}


def _one_edit(term: str) -> set[str]:
    found: set[str] = set()
    for place in range(1, len(term) + 1):
        head, tail = term[:place], term[place:]
        found.update(head + letter + tail for letter in _LETTERS)
        if tail:
            found.add(head + tail[1:])
            found.update(head + letter + tail[1:] for letter in _LETTERS)
        if len(tail) > 1:
            found.add(head + tail[1] + tail[0] + tail[2:])
    found.discard(term)
    return found


def respelled(terms: Sequence[str], spellings: Mapping[str, Sequence[str]], known: Mapping[str, int]) -> list[str]:
    """The query's terms with each unknown one replaced by its most frequent near spelling that a memory has.

    Args:
        terms: The query's terms.
        spellings: From `near_spellings`.
        known: In how many memories each spelling stands; those that stand in none are missing.
    """
    out: dict[str, None] = {}
    for term in terms:
        meant = [spelling for spelling in spellings.get(term, ()) if known.get(spelling)]
        best = min(meant, key=lambda spelling: (-known[spelling], spelling), default=term)
        out[best] = None
    return list(out)
