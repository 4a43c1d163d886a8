"""What a judge may be asked: whether two texts that are close, but of different form, say the same.

A judge is a model and can be wrong, so it is asked only where its mistake would be seen in the words: never across
days or writers, never with other figures, and never about code or secrets, which go to no other service.

The module does no I/O.
"""

import re

from memlane.domain.canonical import canonical_form
from memlane.domain.canonical.context import depends_on_day, depends_on_speaker
from memlane.domain.canonical.text import fold, is_verbatim
from memlane.domain.memory import Scope

JUDGE_MARGIN = 0.1
"""How far below "close" the band begins in which a judge is asked. Measured with the offline model on the labelled
pairs: every true duplicate that the form does not prove lies within it."""
JUDGE_CANDIDATES = 3
"""Most live neighbours that a judge is asked about in one save."""
JUDGE_WORDINGS = 8
"""Most wordings of one memory that are judged; a memory that absorbed more is proven by its form alone."""
JUDGED_LENGTH_MAX = 600
"""Longest text that is judged, in code points: longer ones hold several statements."""

_FIGURES = re.compile(r"\d+(?:[.,:/]\d+)*")


def may_be_judged(one: str, other: str, scope: Scope) -> bool:
    """Tell whether a judge's "the same" could be believed of two texts.

    Args:
        one: The text to be saved.
        other: A wording of a live memory.
        scope: Where both are; a text about its writer means another person with each writer of a project.
    """
    if max(len(one), len(other)) > JUDGED_LENGTH_MAX:
        return False
    if scope == "project" and (depends_on_speaker(fold(one)) or depends_on_speaker(fold(other))):
        return False
    return all(map(_is_timeless, (one, other))) and _figures(one) == _figures(other)


def _is_timeless(text: str) -> bool:
    return not is_verbatim(fold(text)) and not depends_on_day(canonical_form(text))


def _figures(text: str) -> list[str]:
    return sorted(_FIGURES.findall(canonical_form(text)))
