"""Rankings to compare the service's with, and the figures of a ranking."""

import itertools
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memlane.bench.recall_data import Question
from memlane.domain.queries import without_names
from memlane.domain.scoring import CENTERING_PRIOR, UNSEEN_SHARE, fusion_weights, idf
from memlane.domain.terms import index_terms, query_terms

Scores = NDArray[np.float64]
DEPTH = 20
"""How far down a ranking is looked at: the most that a recall answers."""
_RRF_K = 60


@dataclass(frozen=True, slots=True)
class Figures:
    """The means over a set's answerable questions, each 0 to 1."""

    recall_5: float
    recall_10: float
    ndcg_10: float
    mrr: float
    precision_5: float


def figures(ranked: Sequence[Sequence[int]], questions: Sequence[Question]) -> Figures:
    """Measure rankings.

    Args:
        ranked: For each question the places of its memories, best first; 20 are enough.
        questions: Answerable ones.
    """
    rows = [_figures_of(list(places), question.relevant) for places, question in zip(ranked, questions, strict=True)]
    return Figures(*(float(column) for column in np.mean(np.array(rows), axis=0)))


def _figures_of(places: list[int], relevant: frozenset[int]) -> tuple[float, ...]:
    hits = [place in relevant for place in places[:DEPTH]]
    gain = sum(hit / math.log2(rank + 2) for rank, hit in enumerate(hits[:10]))
    ideal = sum(1 / math.log2(rank + 2) for rank in range(min(10, len(relevant))))
    first = next((1 / (rank + 1) for rank, hit in enumerate(hits) if hit), 0.0)
    return sum(hits[:5]) / len(relevant), sum(hits[:10]) / len(relevant), gain / ideal, first, sum(hits[:5]) / 5


@dataclass(frozen=True, slots=True)
class Channel:
    """One user's memories as the rankings see them."""

    vectors: Scores
    mean: Scores
    terms: list[frozenset[str]]
    lengths: Scores
    df: Mapping[str, int]

    @classmethod
    def of(cls, contents: Sequence[str], vectors: Scores) -> "Channel":
        """From the texts and their unit vectors."""
        terms = [frozenset(index_terms(content)) for content in contents]
        lengths = np.array([len(some) for some in terms], dtype=np.float64)
        df = Counter(term for some in terms for term in some)
        return cls(vectors, vectors.mean(axis=0), terms, lengths / max(1.0, lengths.mean()), df)


@dataclass(frozen=True, slots=True)
class Asked:
    """A question with the vectors of its text and of its text without names."""

    question: Question
    whole: Scores
    views: Scores

    @property
    def terms(self) -> list[str]:
        """Its terms."""
        return query_terms(self.question.query)


def texts_of(question: Question) -> list[str]:
    """What is embedded for a question."""
    nameless = without_names(question.query)
    return [question.query] if nameless is None else [question.query, nameless]


def cosine(channel: Channel, query: Scores, *, centred: bool) -> Scores:
    """The cosine of every memory, 0 and more."""
    share = len(channel.terms) / (len(channel.terms) + CENTERING_PRIOR) if centred else 0.0
    rows, asked = channel.vectors - share * channel.mean, query - share * channel.mean
    norms = np.linalg.norm(rows, axis=1) * np.linalg.norm(asked)
    return np.clip(rows @ asked / np.where(norms == 0, 1.0, norms), 0.0, 1.0)


def coverage(channel: Channel, terms: Sequence[str], *, unseen: float) -> Scores:
    """The idf-coverage of every memory."""
    count = len(channel.terms)
    weights = {term: idf(count, channel.df.get(term, 0)) for term in set(terms)}
    weights = {term: weight if channel.df.get(term) else unseen * weight for term, weight in weights.items()}
    total = math.fsum(weights.values())
    found = [math.fsum(weight for term, weight in weights.items() if term in has) for has in channel.terms]
    return np.array(found) / (total or 1.0)


def _neighbours(channel: Channel, terms: Sequence[str]) -> Scores:
    """How many of the query's neighbouring pairs of terms a memory has, by weight."""
    pairs = list(itertools.pairwise(terms))
    if not pairs:
        return np.zeros(len(channel.terms))
    count = len(channel.terms)
    weights = [idf(count, channel.df.get(one, 0)) + idf(count, channel.df.get(two, 0)) for one, two in pairs]
    found = [
        math.fsum(weight for weight, (one, two) in zip(weights, pairs, strict=True) if one in has and two in has)
        for has in channel.terms
    ]
    return np.array(found) / math.fsum(weights)


def _ranks(scores: Scores) -> Scores:
    ranks = np.empty(len(scores))
    ranks[np.argsort(-scores, kind="stable")] = np.arange(1, len(scores) + 1)
    return ranks


def _rank_fusion(channel: Channel, asked: Asked) -> Scores:
    lexical = coverage(channel, asked.terms, unseen=1)
    dense = 1 / (_RRF_K + _ranks(cosine(channel, asked.whole, centred=False)))
    fused: Scores = dense + np.where(lexical > 0, 1 / (_RRF_K + _ranks(lexical)), 0.0)
    return fused


def _weighted(channel: Channel, asked: Asked, dense: float) -> Scores:
    near, shared = cosine(channel, asked.views, centred=True), coverage(channel, asked.terms, unseen=UNSEEN_SHARE)
    return dense * near + (1 - dense) * shared


def _plain(channel: Channel, asked: Asked, *, centred: bool, unseen: float = 1.0) -> Scores:
    return 0.6 * cosine(channel, asked.whole, centred=centred) + 0.4 * coverage(channel, asked.terms, unseen=unseen)


def as_served(channel: Channel, asked: Asked, unseen: float = UNSEEN_SHARE) -> Scores:
    """The service's score, but for other spellings of unseen words."""
    weights = fusion_weights(has_vector=True, has_terms=bool(asked.terms))
    near, shared = cosine(channel, asked.views, centred=True), coverage(channel, asked.terms, unseen=unseen)
    fused: Scores = weights.dense * near + weights.lexical * shared + weights.both * np.sqrt(near * shared)
    return fused


def _with_length(channel: Channel, asked: Asked) -> Scores:
    return as_served(channel, asked) / (0.9 + 0.1 * channel.lengths)


def _with_pairs(channel: Channel, asked: Asked) -> Scores:
    return 0.96 * as_served(channel, asked) + 0.04 * _neighbours(channel, asked.terms)


Method = Callable[[Channel, Asked], Scores]
RIVALS: dict[str, Method] = {
    "dense only": lambda channel, asked: cosine(channel, asked.whole, centred=False),
    "lexical only": lambda channel, asked: coverage(channel, asked.terms, unseen=1),
    "rank fusion, k 60": _rank_fusion,
}
"""What the field does."""
VARIANTS: dict[str, Method] = {
    ".6 cosine + .4 coverage": lambda channel, asked: _plain(channel, asked, centred=False),
    "… centred": lambda channel, asked: _plain(channel, asked, centred=True),
    "… unseen terms count half": lambda channel, asked: _plain(channel, asked, centred=True, unseen=UNSEEN_SHARE),
    "… and asked without names too": lambda channel, asked: _weighted(channel, asked, 0.6),
    "… and a tenth for both (the service's)": as_served,
    "the same, .5 / .5 for .6 / .4": lambda channel, asked: _weighted(channel, asked, 0.5),
    "the same, .7 / .3 for .6 / .4": lambda channel, asked: _weighted(channel, asked, 0.7),
    "the same, unseen terms count 0": lambda channel, asked: as_served(channel, asked, unseen=0.0),
    "the same, shorter memories first": _with_length,
    "the same, neighbouring terms": _with_pairs,
}
"""The steps from a plain weighted sum to the service's score, and what was tried on top of it."""


def best(scores: Scores) -> list[int]:
    """The places of the 20 best memories."""
    return [int(place) for place in np.argsort(-scores, kind="stable")[:DEPTH]]
