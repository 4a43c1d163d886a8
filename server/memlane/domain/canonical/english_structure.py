"""Rules of the deep level for the order and the punctuation of one clause."""

import re

from memlane.domain.canonical.words import (
    COUNTRIES,
    FRONT_GUARDS,
    FUNCTION_WORDS,
    SET_VERBS,
    WEEKDAYS,
    WEEKDAYS_PLURAL,
    word_set,
)

Words = list[str]

# In words: a clause, and a clause that ends in a list.
_STRUCTURE_LIMIT = 16
_ENUMERATION_LIMIT = 32
_NUMBER = re.compile(r"^\d+(?:\.\d+)?$")
_PLAIN = re.compile(r"^[^\W\d_]+(?:[-'][^\W\d_]+)*$")
_AMONG = frozenset({"in", "from", "near", "at"})
_DASHES = frozenset("-–—")
_AFTER_DASH = word_set("never not but except because")
_NO_BARE_NOUN = word_set(
    """
    most few more less least many same other only one best worst first last next two three
    """
)
_TIME_OF_DAY: tuple[tuple[str, ...], ...] = (
    ("in", "the", "morning"),
    ("in", "the", "afternoon"),
    ("in", "the", "evening"),
    ("at", "night"),
)
_EVERY = WEEKDAYS | word_set("day week month year morning evening night weekend spring summer autumn winter")
_FRONT_PREPOSITIONS = frozenset({"in", "on", "at", "during", "every", "for", "after", "before", "with", "within"})


def mend_punctuation(words: Words) -> Words:
    """A dash before "never" or "but" is a comma; so is the bracket in "Lyon (France)"."""
    out: Words = []
    for index, word in enumerate(words):
        following = words[index + 1] if index + 1 < len(words) else ""
        if word in _DASHES and out and out[-1][-1].isalpha() and following in _AFTER_DASH:
            out.append(",")
        elif (
            word[0] == "("
            and word[-1] == ")"
            and word[1:-1].lower() in COUNTRIES
            and out
            and _PLAIN.match(out[-1])
            and not _AMONG.isdisjoint(out)
        ):
            out += [",", word[1:-1]]
        else:
            out.append(word)
    return out


def _front_length(words: Words) -> int:
    """How many words the phrase before the main clause has, its comma left out; 0 for none."""
    for phrase in _TIME_OF_DAY:
        if tuple(words[: len(phrase)]) == phrase:
            return len(phrase)
    if words[0] == "on" and words[1] in WEEKDAYS | WEEKDAYS_PLURAL:
        return 2
    if words[0] == "every" and words[1] in _EVERY:
        return 2
    if words[0] in _FRONT_PREPOSITIONS and "," in words:
        length = words.index(",")
        phrase = tuple(words[1:length])
        plain = all(_PLAIN.match(word) or _NUMBER.match(word) for word in phrase)
        if 1 <= len(phrase) <= 4 and plain and FRONT_GUARDS.isdisjoint(phrase):  # noqa: PLR2004 - a short one
            return length
    return 0


def move_front(words: Words) -> Words:
    """Write "On Mondays the user works" as "the user works on Mondays", in a clause with one verb."""
    if not 4 <= len(words) <= _STRUCTURE_LIMIT or "." in words:  # noqa: PLR2004 - a phrase and a clause
        return words
    length = _front_length(words)
    if not length:
        return words
    front, rest = words[:length], words[length:]
    if rest and rest[0] == ",":
        rest = rest[1:]
    elif rest and rest[0] not in {"user", "user's", "the"}:
        return words
    simple = (
        len(rest) > 1
        and "," not in rest
        and FRONT_GUARDS.isdisjoint(rest)
        and not any(word.endswith("ing") for word in rest)
    )
    return rest + front if simple else words


def drop_leading_the(words: Words) -> Words:
    """Write "The office is closed" as "office is closed"; "the few" and "the same" keep their article."""
    plain = len(words) > 2 and words[0] == "the" and _PLAIN.match(words[1])  # noqa: PLR2004 - a noun and a verb
    if plain and words[1] not in _NO_BARE_NOUN and words[1] not in FUNCTION_WORDS:
        return words[1:]
    return words


def sort_enumeration(words: Words) -> Words:
    """Put the items of "speaks French, German and English" in one order, when each is one word."""
    start = _enumeration_start(words)
    if not start or "," in words[:start] or "." in words or "and" in words[:start]:
        return words
    items = _enumeration_items(words[start:])
    if not items or not all(_PLAIN.match(item) and item not in FUNCTION_WORDS for item in items):
        return words
    items.sort()
    out = list(words[:start])
    for item in items[:-2]:
        out += [item, ","]
    return [*out, items[-2], "and", items[-1]]


def _enumeration_start(words: Words) -> int:
    """Where the objects of a verb begin whose objects are a set; 0 for nowhere."""
    if len(words) > _ENUMERATION_LIMIT:
        return 0
    for index, word in enumerate(words[:-1]):
        if word in SET_VERBS:
            return index + 1
        if word == "allergic" and words[index + 1] == "to":
            return index + 2
    return 0


def _enumeration_items(tail: Words) -> Words:
    """The items of "a, b and c" or "a, b, and c"; none when the tail has any other shape."""
    if len(tail) < 3 or tail[-2] != "and":  # noqa: PLR2004 - "tea and coffee"
        return []
    oxford = tail[-3] == ","
    listed = tail[:-3] if oxford else tail[:-2]
    if len(listed) % 2 == 0 or any(comma != "," for comma in listed[1::2]):
        return []
    items = [*listed[::2], tail[-1]]
    # "no tea, and coffee" is no list.
    return [] if oxford and len(items) < 3 else items  # noqa: PLR2004 - a list with a comma before its end


def turn_identity(words: Words) -> Words:
    """Write "Priya is user's manager" as "user's manager is Priya": who is which stays the same."""
    if not 4 <= len(words) <= 6 or words[1:3] != ["is", "user's"]:  # noqa: PLR2004 - name, is, user's, 1-3 words
        return words
    name, noun = words[0], words[3:]
    if not all(_PLAIN.match(word) and word not in FUNCTION_WORDS for word in (name, *noun)):
        return words
    return ["user's", *noun, "is", name]
