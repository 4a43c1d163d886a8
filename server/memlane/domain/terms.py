"""Terms: the lexical evidence of a text, in any script.

A term is what a memory and a query have in common when they use the same word: stemmed, in lower case,
without the words that every sentence has. Terms are stored as an array and compared for equality, so nothing
in a user's text is ever query syntax.

- Scripts with spaces: whole words, stemmed by the Snowball stemmer of the script. Latin text is taken as
  English: memories rarely say what language they are in, and English endings do little harm elsewhere.
- Scripts without spaces (Han, kana, Thai, Lao, Khmer, Myanmar): single characters and pairs, so that a query
  of one character finds something, and longer ones rank by their pairs. Hangul: the word and its pairs, for
  particles are written onto the word.
- `C++`, `C#`, `node.js`, `1.5`, `tom@example.com` stay whole; those with parts also give their parts.
- Emoji and other symbols are terms.

Stemmer objects keep state between calls and may not be shared by threads, so each thread has its own. The
module does no I/O.
"""

import re
import threading
import unicodedata
from collections.abc import Iterable, Iterator

import Stemmer

from memlane.domain.canonical.text import compose

TERMS_VERSION: int = 1
"""Raised whenever a text's terms change: stored terms of another version must be made again."""

MAX_TERMS = 512
"""Distinct terms of one text, the first ones. 8192 characters of English prose have about 500 distinct words.
A GIN index grows with each of them, and what comes after 512 hardly decides a recall."""

MAX_TERM_LENGTH = 64
"""Code points of one term; a longer one is cut. Far over every word, and well within a GIN key."""

_TEXT_LIMIT = 16_384

# Words of grammar only. The public list of stopwords-iso has 1,298 English words, among them "home", "computer",
# "order" and "number", and "book" in Russian: that is what memories are about. Measured with idf-coverage
# alone on four LoCoMo conversations (observations, turns), nDCG@10: this list .611 and .519, the long list
# .587 and .485, none .578 and .475.
_ENGLISH_STOP_LIST = """
    a about above after again against all am an and any are aren as at be because been before being
    below between both but by can cannot could couldn d did didn do does doesn doing don down during
    each few for from further had hadn has hasn have haven having he her here hers herself him himself
    his how i if in into is isn it its itself just ll m me might more most must mustn my myself no nor
    not of off on once only or other ought our ours ourselves out over own re s same shall shan she
    should shouldn so some such t than that the their theirs them themselves then there these they this
    those through to too under until up ve very was wasn we were weren what when where which while who
    whom why will with won would wouldn you your yours yourself yourselves
"""
_ENGLISH_STOP_WORDS = frozenset(_ENGLISH_STOP_LIST.split())
# Script, by its first and last code point, then the Snowball algorithm and the language of its stop words.
_SCRIPTS: tuple[tuple[int, int, str | None, str | None], ...] = (
    (0x0000, 0x024F, "english", None),
    (0x1E00, 0x1EFF, "english", None),
    (0x0370, 0x03FF, "greek", "el"),
    (0x1F00, 0x1FFF, "greek", "el"),
    (0x0400, 0x052F, "russian", "ru"),
    (0x0530, 0x058F, "armenian", None),
    (0x0590, 0x05FF, None, "he"),
    (0x0600, 0x077F, "arabic", "ar"),
    (0x0900, 0x097F, "hindi", "hi"),
    (0x0B80, 0x0BFF, "tamil", None),
)
# Words of grammar of the other scripts; a frequent word that is missing here weighs little by its idf.
_STOP_LISTS = {
    "ru": """
        и в во не что он на я с со как а то все она так его но да ты к у же вы за бы по ее её мне было от меня
        о из ему ли если или ни быть был него до вас вам ведь там потом себя ей они тут где есть надо ней для мы
        тебя их чем была сам без будто чего себе под будет тогда кто этот того потому этого какой им этом мой
        моя моё мои тем чтобы нее неё были куда зачем всех при об это эта эти та те тот который которая которые
        і й та що він вона воно вони це цей ця ці є був була були мій моя його її їх на у з до від для про але
    """,
    "el": """
        ο η το οι τα του της των τον την τη και κι να θα με σε από για στο στη στην στον στα στις στους ως που
        πως τι δεν δε μη μην είναι ήταν έχει έχω εγώ εσύ αυτός αυτή αυτό μου σου μας σας τους ένα ένας μια μία
    """,
    "ar": """
        في من على إلى الى عن مع هذا هذه ذلك تلك التي الذي هو هي هم هن أنا أنت نحن كان كانت يكون لا ما لم لن قد
        أن ان إن كل أو او ثم و يا
        و در به از که را با است این آن برای تا هم یا من او ما نیست بود
    """,
    "he": """
        של את על עם לא כן הוא היא הם הן אני אתה אנחנו זה זאת זו אלה כי אם גם או אבל יש אין היה הייתה כל מה מי
        איפה שלי שלך שלו שלה
    """,
    "hi": """
        का की के को में से है हैं था थी थे हो और या पर ने यह वह ये वे कि जो तो भी ही एक मैं हम तुम आप मेरा मेरी
        मेरे मुझे उसका उसकी उसके इस उस नहीं लिए क्या
    """,
}
_STOP_WORDS = {language: frozenset(words.split()) for language, words in _STOP_LISTS.items()}

# Han with its extensions, kana, bopomofo; Thai, Lao, Myanmar, Khmer with their vowel signs.
_UNSPACED = (
    "\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3031-\u3035\u303b\u3041-\u30ff\u3105-\u312f\u31a0-\u31bf\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U0001b000-\U0001b16f\U00020000-\U0003fffd"
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ebd\u0ec0-\u0ecd\u0edc-\u0edf\u1000-\u109f\u1780-\u17d3"
)
_HANGUL = "\u1100-\u11ff\u3131-\u318e\uac00-\ud7a3"
# Signs of the spaced Indic, Arabic and Hebrew scripts are marks, which \w leaves out. Joiners are spelling.
_MARKS = (
    "\u0300-\u036f\u0483-\u0487\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u0900-\u0903\u093a-\u094f\u0951-\u0957"
    "\u0962\u0963\u0981-\u0983\u09bc-\u09d7\u0a01-\u0a75\u0a81-\u0acd\u0b01-\u0b57\u0b82-\u0bd7\u0c00-\u0c56\u0c81-\u0cd6"
    "\u0d00-\u0d57\u0d81-\u0ddf\u0f71-\u0f84\u200c\u200d"
)
_LETTER = rf"[^\W_{_UNSPACED}{_HANGUL}]"
_WORD = rf"{_LETTER}(?:{_LETTER}|[{_MARKS}])*"
_TOKEN = re.compile(
    rf"(?P<unspaced>[{_UNSPACED}]+)"
    rf"|(?P<hangul>[{_HANGUL}]+)"
    rf"|(?P<word>{_WORD}(?:[._@:/'\u2019&+\-]+{_WORD})*(?:\+\+|\#)?)"
)
_SPLIT = re.compile(r"[._@:/'\u2019&+\-]+")
_APOSTROPHES = re.compile("['\u2019]")
_WHOLE = re.compile(r"[._@]|\d:\d|&")
_SYMBOL_CATEGORIES = frozenset({"So", "Sc", "Co"})
_SKIN_TONES = range(0x1F3FB, 0x1F400)

_local = threading.local()


def index_terms(content: str) -> list[str]:
    """List the terms under which a memory is found.

    Args:
        content: The memory's text; the service admits 1 to 8192 code points.

    Returns:
        Distinct terms in order of first appearance: at most 512, each of 1 to 64 code points, without NUL and
        lone surrogates. Empty for a text of stop words or punctuation only.
    """
    return _distinct(_terms(_normal(content), singles=True))


def query_terms(query: str) -> list[str]:
    """List the terms that a query asks for, to be matched against those of `index_terms`.

    A run of an unspaced script with two characters or more gives its pairs only: single characters would find
    every text that shares one of them. Words with parts give the whole and the parts, as in the index.

    Args:
        query: The query's text; the service admits 1 to 8192 code points.

    Returns:
        As `index_terms`. A query of stop words only has no terms: the index has none of them either.
    """
    return _distinct(_terms(_normal(query), singles=False))


def _normal(text: str) -> str:
    # One code point can become 18 (the honorific ligature of Arabic), so what comes out is bounded as well.
    return compose(text, "NFKC").lower()[:_TEXT_LIMIT]


def _distinct(terms: Iterable[str]) -> list[str]:
    found: dict[str, None] = {}
    for term in terms:
        found[term[:MAX_TERM_LENGTH]] = None
        if len(found) == MAX_TERMS:
            break
    return list(found)


def _terms(text: str, *, singles: bool) -> Iterator[str]:
    end = 0
    for match in _TOKEN.finditer(text):
        if match.start() > end:
            yield from _symbols(text[end : match.start()])
        end = match.end()
        token = match[0]
        if match.lastgroup == "unspaced":
            yield from _pairs(token, singles=singles or len(token) == 1)
        elif match.lastgroup == "hangul":
            yield token
            if len(token) > 2:  # noqa: PLR2004 - a word of two is its own pair
                yield from _pairs(token, singles=False)
        else:
            yield from _words(token)
    yield from _symbols(text[end:])


def _pairs(run: str, *, singles: bool) -> Iterator[str]:
    if singles:
        # A vowel sign alone is no character to search for.
        yield from filter(str.isalnum, run)
    for index in range(len(run) - 1):
        yield run[index : index + 2]


def _symbols(between: str) -> Iterator[str]:
    if between == " ":
        return
    for char in between:
        # Skin tones are left out: a thumbs-up is found whatever its tone.
        if unicodedata.category(char) in _SYMBOL_CATEGORIES and ord(char) not in _SKIN_TONES:
            yield char


def _words(token: str) -> Iterator[str]:
    if token[-1] in "+#":
        # "c++" and "c#" are names of their own; their letter alone would find every "c".
        yield token
        return
    parts = _SPLIT.split(token)
    if len(parts) == 1:
        yield from _stem(token)
        return
    if _WHOLE.search(token):
        yield token
        if all(part.isdigit() for part in parts):
            # 1.5 is neither 1 nor 5.
            return
    for part in parts:
        if part:
            yield from _stem(part)


def _stem(word: str) -> Iterator[str]:
    if word.isdigit():
        yield word
        return
    code = ord(word[0])
    if code < 0x250:  # noqa: PLR2004 - the Latin blocks, nearly always
        if word not in _ENGLISH_STOP_WORDS:
            yield _stemmer("english").stemWord(word)
        return
    for first, last, algorithm, language in _SCRIPTS:
        if first <= code <= last:
            if language is not None and word in _STOP_WORDS[language]:
                return
            yield (_stemmer(algorithm).stemWord(word) or word) if algorithm else word
            return
    yield word


def _stemmer(algorithm: str) -> Stemmer.Stemmer:
    stemmers: dict[str, Stemmer.Stemmer] | None = getattr(_local, "stemmers", None)
    if stemmers is None:
        stemmers = _local.stemmers = {}
    stemmer = stemmers.get(algorithm)
    if stemmer is None:
        # The stemmer's cache is bounded (10,000 words), and makes a repeated word nearly free.
        stemmer = stemmers[algorithm] = Stemmer.Stemmer(algorithm)
    return stemmer
