"""Rules of the deep level for wordings within a clause: each rewrites a few neighbouring words."""

import re

from memlane.domain.canonical.phrases import (
    ALLERGENS,
    CI_CONTEXT,
    COMPOUNDS,
    EVENTS,
    FREQUENCIES,
    JOBS,
    ONE_WORD,
    ONE_WORD_PAIRS,
    PETS,
    PHRASES,
    PULL_REQUEST_CONTEXT,
    STRONG_ATTITUDES,
)
from memlane.domain.canonical.words import FUNCTION_WORDS, MEASURES, THIRD_PERSON, word_set

Words = list[str]

_NUMBER = re.compile(r"^\d+(?:\.\d+)?$")
_PLAIN = re.compile(r"^[^\W\d_]+(?:[-'][^\W\d_]+)*$")
_BASES = {third: base for base, third in THIRD_PERSON.items()} | {"has": "have", "owns": "own", "needs": "need"}
_AFTER_FREQUENCY = word_set("at in on for by before after from during with , .")
_NO_FREQUENCY_AFTER = word_set("the a an this that its their user's his her our my no every each with of and or")
_RUNNING = word_set("run runs ran is are was were executes execute happens happen")
_COMPARISONS = word_set("more less fewer longer other one idea need to")
_AFTER_CALLED = FUNCTION_WORDS | word_set("back again upon out today tonight tomorrow yesterday")
_PRONOUNS_IS = word_set("he's she's it's that's there's")
_AFTER_IS = word_set(
    """
    a an the not in at from on very also always never allergic vegetarian vegan married single based afraid
    important fine ok okay called
    """
)
# The words without which a rule has nothing to do: most texts have none of them.
_COMPOUND_PARTS = frozenset({*ONE_WORD, *COMPOUNDS, *(second for _, second in ONE_WORD_PAIRS)})
_SHORT_FORMS = word_set("ci pr prs")
_EMPHASIS = word_set("really currently")
_NAMING = word_set("called name")
_NEGATIONS = word_set("no not")
_LIGHT_VERBS = word_set("own owns hold holds retained is are enjoys require requires")
_BOUNDS: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    (("no", "more", "than"), ("at", "most")),
    (("a", "maximum", "of"), ("at", "most")),
    (("up", "to"), ("at", "most")),
    (("no", "less", "than"), ("at", "least")),
    (("no", "fewer", "than"), ("at", "least")),
    (("a", "minimum", "of"), ("at", "least")),
    (("over",), ("more", "than")),
    (("fewer", "than"), ("less", "than")),
    (("under",), ("less", "than")),
)


def join_compounds(words: Words) -> Words:
    """Write compounds one way: "API-key" as "api key", "e-mail" as "email", "front end" as "frontend"."""
    if _COMPOUND_PARTS.isdisjoint(words):
        return words
    out: Words = []
    for word in words:
        if word in ONE_WORD:
            out.append(ONE_WORD[word])
        elif word in COMPOUNDS:
            out += word.split("-")
        elif out and (out[-1], word) in ONE_WORD_PAIRS:
            out[-1] = ONE_WORD_PAIRS[(out[-1], word)]
        else:
            out.append(word)
    return out


def write_is(words: Words) -> Words:
    """Write "she's a nurse" as "she is a nurse"; "she's seen it" has another verb, and stays."""
    if _PRONOUNS_IS.isdisjoint(words):
        return words
    out: Words = []
    for index, word in enumerate(words):
        after = words[index + 1] if index + 1 < len(words) else ""
        if word in _PRONOUNS_IS and (after in _AFTER_IS or after.endswith("ing")):
            out += [word.removesuffix("'s"), "is"]
        else:
            out.append(word)
    return out


def write_phrases(words: Words) -> Words:
    """Replace each phrase of the table by the one that it equals."""
    if PHRASES.keys().isdisjoint(words):
        return words
    out: Words = []
    index = 0
    while index < len(words):
        for phrase, replacement in PHRASES.get(words[index], ()):
            if tuple(words[index : index + len(phrase)]) == phrase and not (phrase == ("docs",) and "google" in out):
                out += replacement
                index += len(phrase)
                break
        else:
            out.append(words[index])
            index += 1
    return out


def write_short_forms(words: Words) -> Words:
    """Spell out CI and PR where the other words leave one reading."""
    known = set(words)
    if _SHORT_FORMS.isdisjoint(known):
        return words
    out: Words = []
    for word in words:
        if word == "ci" and not CI_CONTEXT.isdisjoint(known):
            out += ["continuous", "integration"]
        elif word in {"pr", "prs"} and not PULL_REQUEST_CONTEXT.isdisjoint(known):
            out += ["pull", "requests" if word == "prs" else "request"]
        else:
            out.append(word)
    return out


def write_bounds(words: Words) -> Words:
    """Write "no more than 5 retries" as "at most 5 retries"; "over 3 lakes" may be a way to go, and stays."""
    if not any(word[0].isdigit() for word in words):
        return words
    out: Words = []
    index = 0
    while index < len(words):
        for phrase, replacement in _BOUNDS:
            end = index + len(phrase)
            number = words[end : end + 1]
            if tuple(words[index:end]) != phrase or not number or not _NUMBER.match(number[0]):
                continue
            unit = words[end + 1] if end + 1 < len(words) else ""
            if unit in MEASURES or (len(phrase) > 2 and unit):  # noqa: PLR2004 - the short ones are also ways to go
                out += replacement
                index = end
                break
        else:
            out.append(words[index])
            index += 1
    return out


def write_frequency(words: Words) -> Words:
    """Write "runs nightly at 2 am" as "runs every night at 2 am"; a "daily standup" stays."""
    if FREQUENCIES.keys().isdisjoint(words):
        return words
    out: Words = []
    for index, word in enumerate(words):
        before = words[index - 1] if index else ""
        after = words[index + 1] if index + 1 < len(words) else "."
        adverb = index > 1 and after in _AFTER_FREQUENCY and before not in _NO_FREQUENCY_AFTER
        # "Firefox Nightly" is a name.
        if word in FREQUENCIES and adverb and (word != "nightly" or before in _RUNNING or before.endswith("ed")):
            out += ["every", FREQUENCIES[word]]
        else:
            out.append(word)
    return out


def drop_emphasis(words: Words) -> Words:
    """Drop "really" before a strong attitude, and "currently" where the tense says it ("is training")."""
    if _EMPHASIS.isdisjoint(words):
        return words
    out: Words = []
    for index, word in enumerate(words):
        before = words[index - 1] if index else ""
        after = words[index + 1] if index + 1 < len(words) else ""
        if word == "really" and index == 1 and after in STRONG_ATTITUDES and before not in FUNCTION_WORDS - {"she"}:
            continue
        if word == "currently" and before in {"is", "are", "am"} and len(after) > 4 and after.endswith("ing"):  # noqa: PLR2004 - not "king"
            continue
        out.append(word)
    return out


def write_naming(words: Words) -> Words:
    """Write "a dog called Rex" as "a dog named Rex", and "my dog's name is Rex" as "my dog is named Rex"."""
    if _NAMING.isdisjoint(words):
        return words
    out = list(words)
    for index, word in enumerate(words):
        if word == "called" and index + 1 < len(words) and words[index + 1] not in _AFTER_CALLED:
            before = words[:index]
            # "The user's friend called Bob" is a phone call: a verb has to stand before.
            has = next((place for place, one in enumerate(before) if one in {"has", "have", "owns"}), None)
            if (before and before[-1] in {"is", "are"}) or (has is not None and 1 < len(before) - has <= 5):  # noqa: PLR2004 - has two very old cats
                out[index] = "named"
    if "name" in out[1:-2]:
        place = out.index("name")
        owner = out[place - 1]
        if place <= 4 and owner.endswith("'s") and out[place + 1] == "is" and out[place + 2] not in FUNCTION_WORDS:  # noqa: PLR2004 - my best friend's name
            out[place - 1 : place + 2] = [owner.removesuffix("'s"), "is", "named"]
    return out


def write_having(words: Words) -> Words:
    """Light verbs with one sense beside their object: to own a pet, to hold a meeting, to retain for a time."""
    out = list(words)
    for index in _places(words, _LIGHT_VERBS):
        word, following = words[index], words[index + 1 : index + 4]
        if word == "owns" and not PETS.isdisjoint(following):
            out[index] = "has"
        elif word == "own" and not PETS.isdisjoint(following) and "user's" not in words[index - 1 : index]:
            out[index] = "have"
        elif word in {"holds", "hold"} and _holds_event(words, index):
            out[index] = "has" if word == "holds" else "have"
        elif word == "retained" and words[index - 1] in {"is", "are", "be"} and following[:1] == ["for"]:
            out[index] = "kept"
        elif word in {"is", "are"} and following[:1] == ["run"] and index and words[index - 1] in JOBS:
            # "Backups are run" says "backups run"; a dog that is run is another thing.
            out[index] = ""
            out[index + 1] = "runs" if word == "is" else "run"
        elif word == "enjoys" and len(following) > 0 and following[0].endswith("ing") and len(following[0]) > 5:  # noqa: PLR2004 - not "spring"
            out[index] = "likes"
        elif word in {"requires", "require"} and index and following:
            out[index] = "needs" if word == "requires" else "need"
    return _write_allergy([word for word in out if word])


def _places(words: Words, wanted: frozenset[str]) -> list[int]:
    return [index for index, word in enumerate(words) if word in wanted]


def _holds_event(words: Words, index: int) -> bool:
    """Whether what is held is an event; a "meeting room" is none."""
    for place in range(index + 1, min(index + 4, len(words))):
        if words[place] in EVENTS:
            return place + 1 == len(words) or words[place + 1] in FUNCTION_WORDS | {"every", ","}
    return False


def _write_allergy(words: Words) -> Words:
    """Write "has a peanut allergy" as "is allergic to peanuts"."""
    for index in range(len(words) - 3):
        has, article, what, allergy = words[index : index + 4]
        if has == "has" and article in {"a", "an"} and allergy == "allergy" and what in ALLERGENS:
            return [*words[:index], "is", "allergic", "to", what + ALLERGENS[what], *words[index + 4 :]]
    return words


def write_preference(words: Words) -> Words:
    """Write "prefers A over B" and "prefers A rather than B" as "prefers A to B": the order stays."""
    start = next((index for index, word in enumerate(words) if word in {"prefers", "prefer", "preferred"}), None)
    if start is None or "to" in words:
        return words
    tail = words[start + 1 :]
    if tail.count("over") == 1 and "rather" not in tail and tail[0] != "over":
        place = start + 1 + tail.index("over")
        return [*words[:place], "to", *words[place + 1 :]]
    for index in range(start + 2, len(words) - 2):
        if words[index : index + 2] == ["rather", "than"] and "over" not in tail:
            return [*words[:index], "to", *words[index + 2 :]]
    return words


def write_negation(words: Words) -> Words:
    """Write "has no car" and "does not have a car" alike, and "does not smoke anymore" as "no longer smokes"."""
    out = _write_any_more(words)
    if _NEGATIONS.isdisjoint(out):
        return out
    for index, word in enumerate(out):
        following = out[index + 1 : index + 3]
        base = _BASES.get(word)
        if base in {None, "be", "do", "can"} or word == "is" or len(following) < 2 or following[0] != "no":  # noqa: PLR2004 - no, noun
            continue
        if following[1] not in _COMPARISONS and _PLAIN.match(following[1]):
            return _drop_article([*out[:index], "does", "not", base or "", *out[index + 2 :]])
    return _drop_article(out)


def _drop_article(words: Words) -> Words:
    """After "does not have", any number of things is none of them."""
    for index in range(len(words) - 4):
        if words[index] not in {"does", "do"} or words[index + 1] != "not":
            continue
        verb, article, noun = words[index + 2 : index + 5]
        dropped = {"any", "a", "an"} if verb in {"have", "own"} else {"any"}
        if article in dropped and noun not in _COMPARISONS and verb in _BASES.values():
            return [*words[: index + 3], *words[index + 4 :]]
    return words


def _write_any_more(words: Words) -> Words:
    tail = 1 if words[-1:] == ["anymore"] else 2 if words[-2:] in (["any", "more"], ["any", "longer"]) else 0
    if not tail:
        return words
    body = words[:-tail]
    for index in range(1, len(body) - 2):
        if body[index : index + 2] == ["does", "not"]:
            third = next((third for third, base in _BASES.items() if base == body[index + 2]), None)
            if third is not None and "no" not in body:
                return [*body[:index], "no", "longer", third, *body[index + 3 :]]
    return words
