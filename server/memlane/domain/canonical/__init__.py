"""Absorb's proof that two texts say the same: equality of a canonical form.

No cosine separates "the same again" from "nearly the same but not": true duplicates start at .49 and pairs
that must stay two reach .997 ("tea to coffee" and "coffee to tea"). So a text is rewritten by rules that keep
what it says, and two texts are one statement only when the outcome is equal, byte for byte. A rule is
here only if it keeps every number, unit, date, name, negation, quantifier, preposition and role; where a rule
is in doubt it is left out, for a wrong merge loses a fact and a missed one costs a row.

Three levels, each falling back on the one before:

1. *exact*: Unicode composition, full-width characters, the shape of quotation marks (`text.fold`). Code and
   secrets stop here, because their case, spacing and punctuation are what they say.
2. *light*: white space, the sentence's last full stop or exclamation mark, and case, except where case tells
   two words apart (`text.light_form`). This holds for every language.
3. *deep*: English only: contractions, spelling, numbers, dates, times and units, "I" and "the user", a clause
   moved to the front, the order of a plain enumeration (`english.deep_form`).

The package is pure and linear in the length of the text. It may import nothing that does I/O.
"""

import unicodedata
from datetime import UTC, datetime
from hashlib import sha256
from typing import Literal

from memlane.domain.canonical.context import depends_on_day, depends_on_speaker
from memlane.domain.canonical.english import deep_form
from memlane.domain.canonical.text import fold, is_verbatim, light_form

__all__ = ["CANONICAL_VERSION", "absorb_key", "canonical_form"]

CANONICAL_VERSION: int = 2
"""Raised whenever a rule changes: keys of different versions never compare equal, so rows need new keys.

Case and composition come from Python's Unicode tables. Two processes with different tables may give a text in
letters that are new to one of them two keys, and so two rows, never one key to two statements.
"""

_SAYING_CATEGORIES = frozenset("LNSMC")


def canonical_form(content: str) -> str:
    """Rewrite a text so that two texts with one form say the same.

    The function is deterministic and idempotent, and takes time linear in the length of the text.

    Args:
        content: Any text; the service admits 1 to 8192 code points, but no length is assumed here.

    Returns:
        The form, or an empty string when the text has no letter, digit or symbol: it then says nothing that
        could be said twice.
    """
    exact = fold(content)
    if not _says_something(exact):
        return ""
    if is_verbatim(exact):
        return exact
    # A form must be its own form, or the row it keys would not match itself once rewritten. Every level is
    # built to be stable; the checks make that a certainty also where two rules meet in an unforeseen way.
    light = light_form(exact)
    if fold(light) != light or is_verbatim(light) or light_form(light) != light:
        return exact
    deep = deep_form(light)
    if deep == light:
        return light
    stable = fold(deep) == deep and not is_verbatim(deep) and light_form(deep) == deep and deep_form(deep) == deep
    return deep if stable else light


def absorb_key(content: str, *, scope: Literal["user", "project"], user_id: str, now: datetime) -> bytes | None:
    """Hash a text's form with whatever else decides whether two saves are the same statement.

    Two more things count beside the form. A text with a word such as "today", "next" or "now" means another
    thing tomorrow, so the UTC date is part of its key. The user's own midnight is not known here: two texts
    on either side of it, within one UTC day, still match. And in the project scope, which several users
    share, a text about its writer ("I", "the user", "mi", or a subject left out) means another person with
    each writer, so the user id is part of its key (see `context.depends_on_speaker`).

    Tenant, channel and kind are not in the key: the unique index over live rows has columns for them.

    Args:
        content: The memory's text.
        scope: The scope of the memory; in `user` all rows of a channel have one writer already.
        user_id: The caller's user id, 1 to 256 characters, compared exactly.
        now: The present moment; must be timezone-aware.

    Returns:
        32 bytes, or None when the form is empty: such a text matches nothing, not even itself.

    Raises:
        ValueError: `now` has no timezone, so that its UTC date is unknown.
    """
    if now.utcoffset() is None:
        raise ValueError("now must be timezone-aware")
    form = canonical_form(content)
    if not form:
        return None
    exact = fold(content)
    # Of the form: two texts with one form are then of one day alike.
    day = now.astimezone(UTC).date().isoformat() if depends_on_day(form) else ""
    speaker = user_id if scope == "project" and depends_on_speaker(exact) else ""
    digest = sha256()
    for part in (str(CANONICAL_VERSION), day, speaker, form):
        # The length goes first, so that no two lists of parts run together into the same bytes.
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(4, "big"))
        digest.update(data)
    return digest.digest()


def _says_something(text: str) -> bool:
    return any(char.isalnum() or unicodedata.category(char)[0] in _SAYING_CATEGORIES for char in text)
