"""Rules of the deep level for large numbers, ordinals, days of the week and parts of the day."""

import re
from decimal import Decimal

from memlane.domain.canonical.words import FUNCTION_WORDS, NUMBER_WORDS, WEEKDAYS, word_set

Words = list[str]

_THOUSANDS = re.compile(r"^([€$]?)(\d{1,3}(?:,\d{3})+)(\.\d+)?$")
_NUMBER = re.compile(r"^\d+(?:\.\d+)?$")
_MONEY = re.compile(r"^([€$])(\d+(?:\.\d\d)?)$")
_KILO = re.compile(r"^(\d+)k$")
_SLASHED = re.compile(r"^(\d{1,2})/(\d{1,2})/((?:19|20)\d\d)$")
_HOUR = re.compile(r"^(1[0-2]|[1-9])(?::([0-5]\d))?$")
_LEADING_ZERO = re.compile(r"^0([1-9]):([0-5]\d)$")
_PLAIN = re.compile(r"^[^\W\d_]+(?:-[^\W\d_]+)*$")
_SCALES = {"hundred": 100, "thousand": 1000, "million": 1_000_000, "billion": 1_000_000_000}
_CURRENCIES = {"$": "dollars", "€": "euros"}
_CURRENCY_NAMES = {"usd": "dollars", "eur": "euros", "euro": "euros"}
_ORDINALS = {
    word: f"{number}{'st' if number == 1 else 'nd' if number == 2 else 'rd' if number == 3 else 'th'}"  # noqa: PLR2004 - English endings
    for number, word in enumerate(
        ["first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth", "eleventh",
         "twelfth"],
        start=1,
    )
}  # fmt: skip
_BEFORE_ORDINAL = word_set("the user's his her their every")
_BEFORE_ONE = word_set("has have owns takes lasts every for within needs only least most least")
_COUNTED = word_set("users people customers requests rows records employees tokens lines events messages followers")
_SHORT_WEEKDAYS = {
    short: day
    for day in WEEKDAYS
    for short in ({day[:3], day[:4]} if day in {"tuesday", "thursday"} else {day[:3]})
    if short not in {"sun", "sat", "wed"}
} | {"thurs": "thursday"}
_BEFORE_WEEKDAY = word_set("on every until by from to next last this and through")
_NUMBERED = frozenset({*_SCALES, *_CURRENCY_NAMES, *_ORDINALS, "dozen", "cent", "one"})
_DAY_PARTS = frozenset({*_SHORT_WEEKDAYS, "noon", "midday", "o'clock", "through", "thru", "till"})
_HALF_OF: tuple[tuple[tuple[str, ...], str, range], ...] = (
    (("in", "the", "morning"), "am", range(1, 12)),
    (("in", "the", "afternoon"), "pm", range(1, 7)),
    (("in", "the", "evening"), "pm", range(5, 12)),
    (("at", "night"), "pm", range(8, 12)),
)


def write_large_numbers(words: Words) -> Words:
    """Write "1,500", "2 million", "$50", "5k users" and "the fourth" in figures, each with one reading."""
    if not _speaks_of(words, _NUMBERED):
        return words
    out: Words = []
    for index, raw in enumerate(words):
        before = out[-1] if out else ""
        after = words[index + 1] if index + 1 < len(words) else ""
        thousands = _THOUSANDS.match(raw)
        word = f"{thousands[1]}{thousands[2].replace(',', '')}{thousands[3] or ''}" if thousands else raw
        if word in _SCALES and (_NUMBER.match(before) or before == "a"):
            out[-1:] = _scaled(before, word)
        elif word == "dozen" and before == "a":
            out[-1] = "12"
        elif word == "cent" and before == "per" and _NUMBER.match(out[-2] if len(out) > 1 else ""):
            out[-1] = "%"
        elif word[0].isdigit() or word[0] in _CURRENCIES:
            out += _figures(word, after)
        else:
            out.append(_in_figures(before, word, after))
    return out


def _speaks_of(words: Words, triggers: frozenset[str]) -> bool:
    """Whether there is anything for a rule to do: one of its words, or a word that begins as a number does."""
    return not triggers.isdisjoint(words) or any(word[0].isdigit() or word[0] in _CURRENCIES for word in words)


def _scaled(number: str, scale: str) -> Words:
    product = Decimal("1" if number == "a" else number) * _SCALES[scale]
    # A fraction may be left ("1.2345 thousand"), and longer numbers are none that people write.
    whole = product == product.to_integral_value() and len(number) <= 9  # noqa: PLR2004 - digits
    return [str(int(product))] if whole else [number, scale]


def _figures(word: str, after: str) -> Words:
    money, kilo = _MONEY.match(word), _KILO.match(word)
    if money and after not in _SCALES:
        return [money[2].removesuffix(".00"), _CURRENCIES[money[1]]]
    return [kilo[1] + "000"] if kilo and after in _COUNTED else [word]


def _in_figures(before: str, word: str, after: str) -> str:
    if word in _ORDINALS and before in _BEFORE_ORDINAL and _PLAIN.match(after) and after not in FUNCTION_WORDS:
        return _ORDINALS[word]
    if word == "one" and before in _BEFORE_ONE and _is_counted(after):
        return "1"
    return _CURRENCY_NAMES.get(word, word) if _NUMBER.match(before) else word


def _is_counted(word: str) -> bool:
    return _PLAIN.match(word) is not None and word not in FUNCTION_WORDS and word not in NUMBER_WORDS


def write_day_parts(words: Words) -> Words:
    """Write "noon", "9 o'clock", "09:30", "5 in the morning", "Fri" and "3/14/2025" as the other rules read them."""
    if not _speaks_of(words, _DAY_PARTS):
        return words
    out: Words = []
    index = 0
    while index < len(words):
        word = words[index]
        before = out[-1] if out else ""
        hour, zero, slashed = _HOUR.match(word), _LEADING_ZERO.match(word), _SLASHED.match(word)
        half = _half_after(words, index + 1, int(hour[1])) if hour and before in {"at", "by", "until", "from"} else None
        if half is not None:
            out += [word, half[0]]
            index += half[1]
        elif word in {"noon", "midday"} and before in {"at", "by", "until", "before", "after"}:
            out += ["12", "pm"]
        elif word == "o'clock" and before.isdigit():
            out[-1] = f"{before}:00" if words[index + 1 : index + 2] not in (["am"], ["pm"]) else before
        elif zero and words[index + 1 : index + 2] not in (["am"], ["pm"]):
            # Only a clock of 24 hours writes the zero.
            out += [f"{zero[1]}:{zero[2]}", "am"]
        elif slashed and (iso := _iso(slashed)):
            out.append(iso)
        elif word in _SHORT_WEEKDAYS and before in _BEFORE_WEEKDAY:
            out.append(_SHORT_WEEKDAYS[word])
        elif word in {"through", "thru", "till"} and before in WEEKDAYS and words[index + 1 : index + 2]:
            out.append("to" if words[index + 1] in WEEKDAYS else word)
        else:
            out.append(word)
        index += 1
    return out


def _half_after(words: Words, start: int, hour: int) -> tuple[str, int] | None:
    """The half of the day that the words after an hour name, and how many words they are."""
    for phrase, half, hours in _HALF_OF:
        if tuple(words[start : start + len(phrase)]) == phrase and hour in hours:
            return half, len(phrase)
    return None


def _iso(slashed: re.Match[str]) -> str | None:
    """A date with slashes of which only one number can be the month."""
    first, second, year = int(slashed[1]), int(slashed[2]), slashed[3]
    if first <= 12 < second <= 31:  # noqa: PLR2004 - months of a year, days of a month
        return f"{year}-{first:02}-{second:02}"
    if second <= 12 < first <= 31:  # noqa: PLR2004 - as above
        return f"{year}-{second:02}-{first:02}"
    return None
