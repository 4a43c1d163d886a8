"""The fused score of a recall, as pure functions: what the SQL computes, written so that a test can compare.

    score = .54 * cosine + .36 * coverage + .1 * sqrt(cosine * coverage)        in 0..1

*Centred cosine*: the cosine of memory and query after subtracting the channel's mean vector, shrunk by
n / (n + 20), from both. What all memories of a channel have in common says nothing about any one of them;
without it, one pair of weights fits models whose cosines live on different scales.

*idf-coverage*: the idf of the query's terms that the memory has, over the idf of all the query's terms. It is
1 when the memory has them all, and a rare term counts for more than a common one. A term that no memory of the
channel has counts half: it says that the answer may not be here, and nothing about which memory is best.

A tenth is for what both say. Both parts are absolute, so a score means the same in every query. The weights, the
prior and the share of unseen terms are measured; docs/recall.md has the table of all that was tried, and `make
bench-recall ARGS=--variants` prints it.

The module may import nothing that does I/O.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

CENTERING_PRIOR: int = 20
"""How many memories a channel needs until half of its mean is subtracted; from the measurement above."""


UNSEEN_SHARE: float = 0.5
"""How much of its idf a query's term counts for that no memory of the channel has."""


@dataclass(frozen=True, slots=True)
class FusionWeights:
    """How much either kind of evidence counts.

    Attributes:
        dense: Weight of the centred cosine, 0 to 1.
        lexical: Weight of the idf-coverage, 0 to 1.
        both: Weight of the geometric mean of the two, 0 to 1. The three add up to 1, or are 0 without evidence.
    """

    dense: float
    lexical: float
    both: float = 0.0


def fusion_weights(*, has_vector: bool, has_terms: bool) -> FusionWeights:
    """Choose the weights for the evidence that a query has.

    Args:
        has_vector: The query was embedded; False when the embedder does not answer.
        has_terms: The query has terms; False for one of stop words only.

    Returns:
        .54, .36 and .1 with both kinds of evidence; all the weight on the one that is there; 0 with neither, so that
        nothing is found.
    """
    if has_vector and has_terms:
        return FusionWeights(dense=0.54, lexical=0.36, both=0.1)
    return FusionWeights(dense=float(has_vector), lexical=float(has_terms))


def idf(n: int, df: int) -> float:
    """Weigh a term by its rarity, as BM25 does: ln(1 + (n - df + .5) / (df + .5)).

    Args:
        n: Live memories of the channel, 0 or more.
        df: How many of them have the term. Counts read at two moments may disagree, so a `df` over `n` counts
            as `n`, and one under 0 as 0.

    Returns:
        A positive number; 0.69 for a term that no memory of an empty channel has.
    """
    known = min(max(df, 0), max(n, 0))
    return math.log1p((max(n, 0) - known + 0.5) / (known + 0.5))


def idf_coverage(query_terms: Collection[str], memory_terms: Collection[str], df: Mapping[str, int], n: int) -> float:
    """Say how much of what a query asks for, by weight, a memory has.

    Args:
        query_terms: The query's terms; a repeated term counts once.
        memory_terms: The memory's terms.
        df: In how many live memories of the channel each term stands; a missing term stands in none.
        n: Live memories of the channel.

    Returns:
        0 to 1; 0 when the query has no terms.
    """
    # Sorted, so that the sum of floats comes out the same in every process.
    weights = {
        term: idf(n, df.get(term, 0)) * (1 if df.get(term, 0) > 0 else UNSEEN_SHARE)
        for term in sorted(set(query_terms))
    }
    total = math.fsum(weights.values())
    if not total:
        return 0.0
    had = set(memory_terms)
    return _clip(math.fsum(weight for term, weight in weights.items() if term in had) / total)


def centred_cosine(a: Sequence[float], q: Sequence[float], mean: Sequence[float] | None, n: int) -> float:
    """Compare two embeddings after subtracting what the channel's memories have in common.

    Args:
        a: The memory's vector, of one space with the others; any length over 0.
        q: The query's vector.
        mean: The mean of the channel's live vectors, or None when it is not known: nothing is subtracted.
        n: How many vectors the mean is of; `mean` counts as n / (n + 20) of itself.

    Returns:
        -1 to 1; 0 when one of the centred vectors is zero, as with the only memory of a channel.

    Raises:
        ValueError: The vectors differ in length.
    """
    share = max(n, 0) / (max(n, 0) + CENTERING_PRIOR)
    centre = [0.0] * len(a) if mean is None else [share * value for value in mean]
    left = [value - middle for value, middle in zip(a, centre, strict=True)]
    right = [value - middle for value, middle in zip(q, centre, strict=True)]
    norm = math.hypot(*left) * math.hypot(*right)
    if not norm or not math.isfinite(norm):
        return 0.0
    return min(1.0, max(-1.0, math.fsum(x * y for x, y in zip(left, right, strict=True)) / norm))


def fuse(*, weights: FusionWeights, cosine: float | None, coverage: float | None) -> float:
    """Fuse both kinds of evidence into the score that a recall answers with.

    Args:
        weights: From `fusion_weights`.
        cosine: The centred cosine, -1 to 1; below 0 counts as 0. None (or NaN) is no evidence.
        coverage: The idf-coverage, 0 to 1. None (or NaN) is no evidence.

    Returns:
        0 to 1.
    """
    near, shared = _clip(cosine), _clip(coverage)
    return _clip(weights.dense * near + weights.lexical * shared + weights.both * math.sqrt(near * shared))


def _clip(value: float | None) -> float:
    if value is None or math.isnan(value):
        return 0.0
    return min(1.0, max(0.0, value))
