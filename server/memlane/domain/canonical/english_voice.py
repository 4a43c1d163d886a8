"""Rules of the deep level that turn a clause round: who does what to whom stays the same."""

import re
from collections.abc import Callable

from memlane.domain.canonical.verbs import BASES, FORMS, third_person
from memlane.domain.canonical.words import FUNCTION_WORDS, MONTHS, WEEKDAYS, word_set

Words = list[str]

_LONGEST = 20
_PLAIN = re.compile(r"^[^\W\d_]+(?:[-'][^\W\d_]+)*$")
_NUMBER = re.compile(r"^\d+(?:\.\d+)?$")
# One clause, with nothing in it that has a scope: what these words range over could change with the order.
_SCOPED = word_set(
    """
    not no never only even also nobody nothing none any neither either nor but or if when while because unless
    that which who whom whose what why how than , . just mostly mainly
    """
)
_PRONOUNS = word_set("i me he him she her it we us they them you who this that these those there")
_TAIL_STARTS = word_set("every on at in before after during")
_NO_AGENT = MONTHS.keys() | WEEKDAYS | word_set("a an some each every all most default hand law email mail phone")
_TOOL_VERBS = word_set("managed tracked")
_ANY_TOOL = word_set("in with using through via")
_OF = word_set("of the for")


def turn_clause(words: Words) -> Words:
    """Write a passive clause, and the like, as the plain clause that says the same."""
    if len(words) > _LONGEST or not _SCOPED.isdisjoint(words):
        return words
    for turn in _TURNS:
        turned = turn(words)
        if turned is not None:
            return turned
    return words


def turn_definite(words: Words) -> Words:
    """Write "Lena is the team lead" as "the team lead is Lena": of the one there is, both say who it is."""
    if not 4 <= len(words) <= 8 or words[1:3] != ["is", "the"]:  # noqa: PLR2004 - name, is, the, 1-5 words
        return words
    name, noun = words[0], words[3:]
    if not _PLAIN.match(name) or name in FUNCTION_WORDS or name == "user":
        return words
    if not all(_PLAIN.match(word) and (word in _OF or word not in FUNCTION_WORDS) for word in noun):
        return words
    return ["the", *noun, "is", name]


def _active(words: Words) -> Words | None:
    """Write "all invoices are approved by Lena" as "Lena approves all invoices"."""
    if words.count("by") != 1:
        return None
    by = words.index("by")
    participle = words[by - 1]
    base = BASES.get(participle)
    if by < 3 or base is None:  # noqa: PLR2004 - a noun, is, a participle
        return None
    auxiliary = words[by - 2]
    patient = words[: by - 2]
    if auxiliary == "been" and patient[-1:] in (["has"], ["have"]):
        patient = patient[:-1]
    elif auxiliary not in {"is", "are", "was", "were"}:
        return None
    agent, tail = _agent(words[by + 1 :])
    if not agent or not patient or not _PRONOUNS.isdisjoint(patient) or not _is_noun_phrase(patient):
        return None
    plural = "and" in agent or (agent[0] == "the" and agent[-1].endswith("s") and not agent[-1].endswith("ss"))
    past, _ = FORMS[base]
    if auxiliary == "been":
        verb = ["have" if plural else "has", participle]
    elif auxiliary in {"was", "were"}:
        verb = [past]
    else:
        verb = [base if plural else third_person(base)]
    return [*agent, *verb, *patient, *tail]


def _agent(rest: Words) -> tuple[Words, Words]:
    """Who acts, and what comes after; nobody when it is not sure who."""
    end = next((index for index, word in enumerate(rest) if word in _TAIL_STARTS), len(rest))
    agent = rest[:end]
    inner = [word for word in agent if word not in {"the", "and", "user"}]
    sound = (
        1 <= len(agent) <= 4  # noqa: PLR2004 - "the new finance team"
        and all(_PLAIN.match(word) and word not in FUNCTION_WORDS and not word.endswith("ing") for word in inner)
        and ("the" not in agent[1:] or "and" in agent)
        and (len(agent) < 3 or agent[0] == "the" or agent[1] == "and")  # noqa: PLR2004 - two names, or "Ana and Bo"
        and _NO_AGENT.isdisjoint(agent)
        and agent[-1] not in {"the", "and"}
    )
    return (agent, rest[end:]) if sound else ([], [])


def _is_noun_phrase(words: Words) -> bool:
    """Whether this may be one noun phrase: plain words without a verb that these rules know."""
    return len(words) <= 7 and all(  # noqa: PLR2004 - "all of the new invoices in euros"
        (_PLAIN.match(word) or _NUMBER.match(word)) and word not in {"is", "are", "was", "were", "be", "has", "have"}
        for word in words
    )


def _where(words: Words) -> Words | None:
    """Write "Obsidian is where the user keeps notes" as "the user keeps notes in Obsidian"."""
    for place in range(1, 4):
        if words[place : place + 2] == ["is", "where"] and len(words) > place + 3:
            noun = words[:place]
            if all(_PLAIN.match(word) and (word == "the" or word not in FUNCTION_WORDS) for word in noun):
                return [*words[place + 2 :], "in", *noun]
    return None


def _used_to(words: Words) -> Words | None:
    """Write "Jira is used to track bugs" as "bugs are tracked with Jira"."""
    for place in range(1, 4):
        if words[place : place + 1] not in (["is"], ["are"]) or words[place + 1 : place + 3] != ["used", "to"]:
            continue
        verb, what = words[place + 3 : place + 4], words[place + 4 :]
        if "user" in words[:place]:
            # Who "is used to" a thing is accustomed to it.
            return None
        if not verb or verb[0] not in FORMS or not what or len(what) > 4 or "by" in what:  # noqa: PLR2004 - a short one
            return None
        if not all(_PLAIN.match(word) and (word in {"the", "all"} or word not in FUNCTION_WORDS) for word in what):
            return None
        many = what[-1].endswith("s") and not what[-1].endswith("ss")
        return [*what, "are" if many else "is", FORMS[verb[0]][1], "with", *words[:place]]
    return None


def _used_as(words: Words) -> Words | None:
    """Write "Redis is used as the cache" as "the cache is Redis"."""
    for place in range(1, 4):
        if words[place : place + 4] == ["is", "used", "as", "the"] and len(words) > place + 4:
            noun = words[place + 4 :]
            if len(noun) <= 4 and all(_PLAIN.match(word) and word not in FUNCTION_WORDS for word in noun):  # noqa: PLR2004 - a short one
                return ["the", *noun, "is", *words[:place]]
    return None


def _with_tool(words: Words) -> Words | None:
    """A tool that something is managed in, with, using or through is one tool."""
    for index in range(2, len(words) - 1):
        if words[index - 1] not in _TOOL_VERBS or words[index - 2] not in {"is", "are"}:
            continue
        tool = words[index + 1 :]
        if words[index] in _ANY_TOOL and words[index] != "with" and len(tool) <= 3 and "by" not in tool:  # noqa: PLR2004 - a short name
            return [*words[:index], "with", *tool]
    for index in range(2, len(words) - 1):
        if words[index] == "using" and words[index - 1] in BASES and words[index - 2] in {"is", "are", "was", "were"}:
            return [*words[:index], "with", *words[index + 1 :]]
    return None


_TURNS: tuple[Callable[[Words], Words | None], ...] = (_active, _where, _used_to, _used_as, _with_tool)
"""The first that fits is applied."""
