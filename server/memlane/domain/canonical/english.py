"""The deep level of the canonical form: English only, by whole words, each rule keeping every fact."""

import re
from collections.abc import Callable

from memlane.domain.canonical.context import looks_english
from memlane.domain.canonical.english_numbers import write_about, write_dates, write_numbers, write_times
from memlane.domain.canonical.english_phrases import (
    drop_emphasis,
    join_compounds,
    write_bounds,
    write_frequency,
    write_having,
    write_is,
    write_naming,
    write_negation,
    write_phrases,
    write_preference,
    write_short_forms,
)
from memlane.domain.canonical.english_quantities import write_day_parts, write_large_numbers
from memlane.domain.canonical.english_structure import (
    drop_leading_the,
    mend_punctuation,
    move_front,
    sort_enumeration,
    turn_identity,
)
from memlane.domain.canonical.english_voice import turn_clause, turn_definite
from memlane.domain.canonical.words import (
    ABBREVIATIONS,
    CONTRACTIONS,
    FILLERS,
    LAST_FILLERS,
    SPELLINGS,
    THIRD_PERSON,
    word_set,
)

Words = list[str]

# Longer texts hold several statements, where a rule for one statement proves nothing.
_CHARACTER_LIMIT = 600
_WORD_LIMIT = 80
# Quotations are literal, questions are no statements, and other signs show a syntax of their own.
_UNSUITED = re.compile(r"[\"?`;{}<>=|\\*^\[\]\n…]|\.\.")

_DOTTED_HALF = re.compile(r"^([ap])\.m\.?$")
_NUMBER = re.compile(r"^\d+(?:\.\d+)?$")
_FIRST_PERSON_ONLY = frozenset({"i", "me", "my"})
_OTHER_PERSONS = word_set(
    """
    user user's users users' we us our ours mine myself you your yours i'd let's assistant agent
    """
)
_ADVERBS = word_set(
    """
    never always usually often rarely sometimes also only still mostly mainly really currently
    """
)
_BEFORE_ROMAN_ONE = word_set(
    """
    war phase part class level stage volume grade type plan chapter act book do am can have should
    """
)
_AGENT_AFTER_AM = word_set("going sending unable able sorry afraid here ready happy glad sure")
_FILLERS_BY_START = {first: [one for one in FILLERS if one[0] == first] for first in {one[0] for one in FILLERS}}
_FILLERS_BY_END = {last: [one for one in LAST_FILLERS if one[-1] == last] for last in {one[-1] for one in LAST_FILLERS}}
_PAST_LIFE = word_set("grew moved studied graduated married was")
_USERS_VERB = THIRD_PERSON | {"have": "has"} | {verb: verb for verb in _PAST_LIFE}
_NOT_ABLE: tuple[list[str], ...] = ([], ["able"], ["sure"], ["allowed"], ["going"])
_AFTER_HAVE = word_set("a an the no two three four five six seven eight nine ten")


def deep_form(light: str) -> str:
    """Rewrite an English statement so that wordings which differ in form only become one.

    Args:
        light: The light form of a text.

    Returns:
        The deep form; the argument itself when it is not recognisably English, is longer than 600 characters,
        or has quotation marks, a question mark or another sign that makes rewriting unsafe.
    """
    if len(light) > _CHARACTER_LIMIT or _UNSUITED.search(light) or not looks_english(light):
        return light
    words = _split(light)
    if len(words) > _WORD_LIMIT:
        return light
    for rule in _RULES:
        words = rule(words)
    return _join(words)


def _split(text: str) -> Words:
    """Split into words, with a comma or a full stop after a word as a word of its own."""
    words: Words = []
    for token in text.split(" "):
        half = _DOTTED_HALF.match(token)
        if half:
            words.append(f"{half[1]}m")
        elif len(token) > 1 and token[-1] in ",." and token[-2].isalnum():
            words += [token[:-1], token[-1]]
        else:
            words.append(token)
    return words


def _join(words: Words) -> str:
    return re.sub(r"(\w) ([,.])(?= |$)", r"\1\2", " ".join(words))


def _drop_filler(words: Words) -> Words:
    for filler in _FILLERS_BY_START.get(words[0], ()):
        if tuple(words[: len(filler)]) == filler and len(words) > len(filler) + 1:
            words = words[len(filler) :]
            break
    for filler in _FILLERS_BY_END.get(words[-1], ()):
        if tuple(words[-len(filler) :]) == filler and len(words) > len(filler) + 1:
            return words[: -len(filler)]
    return words


def _expand(words: Words) -> Words:
    """Contractions, spelling and short forms, word by word."""
    out: Words = []
    for word in words:
        possessive = word.endswith("'s")
        stem = word.removesuffix("'s")
        if word in CONTRACTIONS:
            out += CONTRACTIONS[word].split(",")
        elif stem in SPELLINGS:
            out += (SPELLINGS[stem] + ("'s" if possessive else "")).split(",")
        elif (word,) in ABBREVIATIONS:
            out += ABBREVIATIONS[(word,)]
        elif out and (out[-1], word) in ABBREVIATIONS and out[-2:-1] != ["visual"]:
            out[-1:] = ABBREVIATIONS[(out[-1], word)]
        else:
            out.append(word)
    return out


def _name_user(words: Words) -> Words:
    """Make "the user" one word, and "I" the user when nobody else is spoken of or to."""
    out: Words = []
    for word in words:
        if word in {"user", "user's"} and out and out[-1] == "the":
            out.pop()
        out.append(word)
    if _FIRST_PERSON_ONLY.isdisjoint(out) or not _OTHER_PERSONS.isdisjoint(out):
        return out
    return _first_to_third(out) or out


def _first_to_third(words: Words) -> Words | None:
    out: Words = []
    index = 0
    while index < len(words):
        word = words[index]
        index += 1
        if word == "my":
            out.append("user's")
        elif word == "me":
            out.append("user")
        elif word != "i":
            out.append(word)
        else:
            if out and out[-1] in _BEFORE_ROMAN_ONE:
                return None
            out.append("user")
            while index < len(words) and words[index] in _ADVERBS:
                out.append(words[index])
                index += 1
            verb = _third_person(words[index : index + 3])
            if verb is None:
                return None
            out.append(verb)
            index += 1
    return out


def _third_person(words: Words) -> str | None:
    """The verb after "user" for the one after "I"; None when it may be the agent who speaks."""
    if not words:
        return None
    verb, after, next_one = words[0], words[1] if len(words) > 1 else "", words[2:3]
    if verb in _PAST_LIFE:
        agents = verb == "was" and after != "born"
    elif verb == "have":
        agents = after not in _AFTER_HAVE and not _NUMBER.match(after)
    elif verb == "am" and after == "afraid":
        agents = next_one != ["of"]
    elif verb == "am":
        agents = after in _AGENT_AFTER_AM or (after == "not" and next_one in _NOT_ABLE)
    elif verb in {"do", "can"}:
        # Only "I do not like", "I can not eat": what an agent can do is not what the user can do.
        agents = not (after == "not" and next_one and next_one[0] in THIRD_PERSON)
    else:
        agents = False
    return None if agents else _USERS_VERB.get(verb)


_RULES: tuple[Callable[[Words], Words], ...] = (
    _drop_filler,
    join_compounds,
    write_is,
    _expand,
    _name_user,
    write_numbers,
    write_large_numbers,
    write_day_parts,
    write_times,
    write_dates,
    write_about,
    write_phrases,
    write_short_forms,
    write_bounds,
    write_frequency,
    drop_emphasis,
    write_naming,
    write_preference,
    write_negation,
    mend_punctuation,
    move_front,
    turn_clause,
    turn_definite,
    write_having,
    drop_leading_the,
    sort_enumeration,
    turn_identity,
)
"""In this order: later rules rely on what earlier ones wrote."""
