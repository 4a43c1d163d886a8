"""Rules of the deep level for numbers, units, times and dates."""

import re

from memlane.domain.canonical.words import (
    ATTACHED_UNITS,
    MEASURES,
    MONTH_ABBREVIATIONS,
    MONTH_NAMES,
    MONTHS,
    NUMBER_WORDS,
    UNIT_NAMES,
    word_set,
)

Words = list[str]

_DAY = re.compile(r"^(?:[12]?[1-9]|[123]0|31)$")
_DAY_ORDINAL = re.compile(r"^([12]?[1-9]|[123]0|31)(?:st|nd|rd|th)$")
_ISO_DATE = re.compile(r"^((?:19|20)\d\d)-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])$")
_YEAR = re.compile(r"^(?:19|20)\d\d$")
_CLOCK = re.compile(r"^(1[0-2]|[1-9])(?::([0-5]\d))?([ap]m)$")
_CLOCK_12 = re.compile(r"^(1[0-2]|[1-9]):([0-5]\d)$")
_CLOCK_24 = re.compile(r"^(1[3-9]|2[0-3]):([0-5]\d)$")
_NUMBER = re.compile(r"^\d+(?:\.\d+)?$")
_NUMBER_UNIT = re.compile(r"^(\d+(?:\.\d+)?)([A-Za-z]{2,3}|%)$")
# "The 3rd may be late" is no date: these two count as months only where a date would end.
_MONTH_VERBS = frozenset({"may", "march"})
_AFTER_DATE = frozenset(
    {"", ",", ".", "and", "or", "at", "in", "from", "to", "until", "for", "with", "is", "are", "was", "by"}
)
_BEFORE_CLOCK = word_set("at from until till by before after between to and")
_HALVES = frozenset({"am", "pm"})
_ABOUT = word_set("around approximately roughly approx about")


def write_numbers(words: Words) -> Words:
    """Number words as figures, and units in one spelling beside their number."""
    if NUMBER_WORDS.keys().isdisjoint(words) and not _has_figure(words):
        return words
    out: Words = []
    for word in words:
        after_number = bool(out) and out[-1][0].isdigit() and _NUMBER.match(out[-1]) is not None
        attached = _NUMBER_UNIT.match(word) if word[0].isdigit() else None
        # "no one" is not "No 1", and "the red one" is no number.
        if word in NUMBER_WORDS and word != "one":
            out.append(str(NUMBER_WORDS[word]))
        elif attached and attached[2] in ATTACHED_UNITS:
            out += [attached[1], attached[2]]
        elif attached and attached[2] == "%":
            out += [attached[1], "%"]
        elif after_number and word == "percent":
            out.append("%")
        elif after_number and word in UNIT_NAMES:
            out.append(UNIT_NAMES[word])
        else:
            out.append(word)
    return out


def _has_figure(words: Words) -> bool:
    return any(word[0].isdigit() for word in words)


def write_times(words: Words) -> Words:
    """Clock times as "9 am", "5:30 pm"; "9:30" alone stays, for it may be either half of the day."""
    if not _has_figure(words):
        return words
    out: Words = []
    for index, word in enumerate(words):
        following = words[index + 1] if index + 1 < len(words) else ""
        half = _CLOCK.match(word)
        twelve = _CLOCK_12.match(word)
        full = _CLOCK_24.match(word)
        if half:
            out += [_clock(int(half[1]), half[2] or "00"), half[3]]
        elif twelve and following in _HALVES:
            out.append(_clock(int(twelve[1]), twelve[2]))
        elif full and following not in _HALVES and out and out[-1] in _BEFORE_CLOCK:
            out += [_clock(int(full[1]) - 12, full[2]), "pm"]
        else:
            out.append(word)
    return out


def _clock(hour: int, minutes: str) -> str:
    return str(hour) if minutes == "00" else f"{hour}:{minutes}"


def write_dates(words: Words) -> Words:
    """Dates as "14 march 2025", whichever way round they were written."""
    if not _has_figure(words):
        return words
    out: Words = []
    index = 0
    while index < len(words):
        word = words[index]
        following = words[index + 1] if index + 1 < len(words) else ""
        after = words[index + 2] if index + 2 < len(words) else ""
        iso = _ISO_DATE.match(word)
        index += 1
        if iso:
            out += [str(int(iso[3])), MONTH_NAMES[int(iso[2])], iso[1]]
        elif _day(word) and following == "of" and after in MONTHS and (ordinal := _DAY_ORDINAL.match(word)):
            if out and out[-1] == "the":
                out.pop()
            out += [ordinal[1], after]
            index += 2
        elif _day(word) and _month(following):
            if _month(following) in _MONTH_VERBS and word != _day(word) and not _ends_date(after):
                out.append(word)
                continue
            out += [_day(word), _month(following)]
            index += 1
        elif (
            _month(word)
            and _day(following)
            and not (out and _DAY.match(out[-1]))
            and (word not in _MONTH_VERBS or _ends_date(after))
        ):
            out += [_day(following), _month(word)]
            index += 1
        else:
            out.append(word)
            continue
        if words[index : index + 1] == [","] and index + 1 < len(words) and _YEAR.match(words[index + 1]):
            index += 1
    return out


def _ends_date(after: str) -> bool:
    return after in _AFTER_DATE or _YEAR.match(after) is not None


def _day(word: str) -> str:
    ordinal = _DAY_ORDINAL.match(word)
    if ordinal:
        return ordinal[1]
    return word if _DAY.match(word) else ""


def _month(word: str) -> str:
    return word if word in MONTHS else MONTH_ABBREVIATIONS.get(word, "")


def write_about(words: Words) -> Words:
    """Write "around 10 minutes" as "about 10 minutes"; "around 5 lakes" is a way to go, and stays."""
    if not _has_figure(words):
        return words
    out = list(words)
    for index in range(len(words) - 2):
        if words[index] in _ABOUT and _NUMBER.match(words[index + 1]) and words[index + 2] in MEASURES:
            out[index] = "about"
    return out
