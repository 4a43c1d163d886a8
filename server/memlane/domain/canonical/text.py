"""The exact and the light level of the canonical form: for texts of every language."""

import re
import unicodedata
from typing import Literal

from memlane.domain.canonical.words import (
    CASE_SENSITIVE_ACRONYMS,
    CASE_SENSITIVE_NOUNS,
    CASE_SENSITIVE_UNITS,
    NUMBER_WORDS,
    UNIT_SYMBOLS,
)

# Only <wide> and <narrow> variants are folded. Full NFKC would turn m² into m2 and ① into 1.
_FOLDED = {
    code: unicodedata.normalize("NFKC", chr(code))
    for code in (0x3000, *range(0xFF01, 0xFFEF))
    if unicodedata.decomposition(chr(code)).startswith(("<wide>", "<narrow>"))
}
_FOLDED |= dict.fromkeys(map(ord, "\u2018\u2019\u201a\u201b\u02bc"), "'")
_FOLDED |= dict.fromkeys(map(ord, "\u201c\u201d\u201e\u201f"), '"')
# A soft hyphen and a byte-order mark show nothing. Joiners stay: in emoji and Indic text they are spelling.
_FOLDED |= {0x00AD: "", 0xFEFF: ""}

# No mark that has a place in an order is a letter, so this finds every run of them, and quickly; what it finds
# is looked at closely.
_MARK_RUN_CANDIDATE = re.compile(r"[^\w\s!-~]{31,}")
_LONGEST_MARK_RUN = 30

_CODE = re.compile(r"`|[:{]\n[ \t]+\S")
_SECRET = re.compile(
    r"\b(?:password|passwort|passphrase|passcode|username|user names?\b|login|contraseña|mot de passe|пароль)"
    r"|\bpins?\b|密码|密碼|パスワード|비밀번호",
    re.IGNORECASE,
)

_ASCII_SECRETS = ("pass", "pin", "username", "user name", "login", "mot de")
_CODE_TOKEN = re.compile(r"[/\\_=$<>|~^{}]|::|\(\)|[^\W\d_]{2,}\.[^\W\d_]|^\.[^\W\d_]")
_LETTER_AND_DIGIT = re.compile(r"[^\W\d_]\d|\d[^\W\d_]")
_TIME_OR_ORDINAL = re.compile(r"^(?:\d{1,2}(?:[:.]\d\d)?[ap]m|\d+(?:st|nd|rd|th))$", re.IGNORECASE)
_NUMERIC = re.compile(r"^[-+~<>≤≥±]?\d[\d.,:/]*$")
_FULL_STOPS = frozenset(".。।\u06d4")
# Longest token that is looked at closely; a longer one is no word, and keeps its case.
_TOKEN_LIMIT = 200


def fold(content: str) -> str:
    """Undo differences of encoding: composition (NFC), full-width characters, the shape of quotes.

    Args:
        content: Any text.

    Returns:
        The text with outer white space gone; idempotent.
    """
    text = content if content.isascii() else compose(content.translate(_FOLDED))
    return text.strip()


def compose(text: str, form: Literal["NFC", "NFKC"] = "NFC") -> str:
    """Normalise a text, in time linear in its length.

    Putting marks into their order takes time quadratic in the length of a run of them: 147 ms for 8192 marks
    on one letter. No script puts more than 30 marks on a letter (the bound of Unicode's stream-safe format),
    so a text that does is left as it is.

    Args:
        text: Any text.
        form: The normal form.

    Returns:
        The normal form, or the text itself when it has a run of more than 30 marks.
    """
    if text.isascii() or any(_has_long_run(match[0]) for match in _MARK_RUN_CANDIDATE.finditer(text)):
        return text
    return unicodedata.normalize(form, text)


def _has_long_run(text: str) -> bool:
    run = 0
    for char in text:
        run = run + 1 if unicodedata.combining(char) else 0
        if run > _LONGEST_MARK_RUN:
            return True
    return False


def is_verbatim(text: str) -> bool:
    """Tell whether case, spacing and punctuation are part of what a text says: code, or a secret.

    Args:
        text: A folded text.

    Returns:
        True when the text quotes code in backticks, has an indented block, or speaks of a password, PIN or
        login name.
    """
    if _CODE.search(text) is not None:
        return True
    if text.isascii():
        lowered = text.lower()
        # In ASCII the expression finds nothing else, and takes ten times as long.
        if not any(part in lowered for part in _ASCII_SECRETS):
            return False
    return _SECRET.search(text) is not None


def light_form(text: str) -> str:
    """Drop what carries no meaning in any language: spacing, the last full stop, and most case.

    Kept on purpose: a question mark (a question is no statement), every comma and every full stop inside
    ("No, coffee is fine" is not "No coffee is fine"), accents, hyphens, brackets, signs and emoji. Case is
    kept where it tells words apart: in file names, paths and identifiers, in units after a number (10 MB, 10
    Mb), in quoted text, and in a short list of words such as IT and it, Turkey and turkey.

    Args:
        text: A folded text.

    Returns:
        The light form.
    """
    line = _without_final_stop(" ".join(text.split()))
    marks = line.count('"')
    quoting = marks > 0 and marks % 2 == 0
    in_quotes = False
    after_number = False
    out: list[str] = []
    for word in line.split(" "):
        quotes = word.count('"') if quoting else 0
        keep = in_quotes or quotes > 0
        in_quotes ^= quotes % 2 == 1
        out.append(word if keep else _lower(word, after_number=after_number))
        after_number = word.lower() in NUMBER_WORDS or (
            not word[:3].isalpha() and any(map(str.isdigit, word[:3])) and _NUMERIC.match(word) is not None
        )
    # Lower-casing can leave a letter and a mark that have a composed form (J̌ has none, ǰ has).
    return compose(" ".join(out))


def _without_final_stop(text: str) -> str:
    last = text[-1:]
    if last in _FULL_STOPS:
        before = text[-2:-1]
        # Not after a space or a sign ("ls .") and not after another full stop ("and then...").
        return text[:-1] if before and (before.isalnum() or _closes_word(before)) else text
    if last == "!":
        rest = text.rstrip("!")
        # Not after a digit or a lone letter: 5! and n! are factorials.
        return rest if len(rest) > 1 and rest[-2:].isalpha() else text
    return text


def _closes_word(char: str) -> bool:
    return char in "\"'%)]}" or unicodedata.category(char) in {"Mn", "Mc", "So", "Sk"}


def _lower(word: str, *, after_number: bool) -> str:
    lowered = word.lower()
    if lowered == word:
        return word
    if len(word) > _TOKEN_LIMIT:
        return word
    core = word.lstrip("([{\"'").rstrip(")]}\"',.;:!?")
    return word if _case_matters(core, after_number=after_number) else lowered


def _case_matters(core: str, *, after_number: bool) -> bool:
    lowered = core.lower()
    stem = lowered.removesuffix("'s")
    if stem in CASE_SENSITIVE_NOUNS or lowered in CASE_SENSITIVE_UNITS:
        return True
    if lowered in CASE_SENSITIVE_ACRONYMS and core.isupper():
        return True
    if after_number and lowered in UNIT_SYMBOLS:
        return True
    if _CODE_TOKEN.search(core):
        return True
    return _LETTER_AND_DIGIT.search(core) is not None and _TIME_OR_ORDINAL.match(core) is None
