"""The fused score: bounded, absolute, and reduced to what evidence there is."""

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from memlane.domain.scoring import (
    CENTERING_PRIOR,
    FusionWeights,
    centred_cosine,
    fuse,
    fusion_weights,
    idf,
    idf_coverage,
)

numbers = st.floats(min_value=-1, max_value=1, allow_subnormal=False)
vectors = st.lists(numbers, min_size=3, max_size=3)
terms = st.sets(st.sampled_from("abcdefgh"))


@pytest.mark.parametrize(
    ("has_vector", "has_terms", "weights"),
    [
        (True, True, FusionWeights(0.54, 0.36, 0.1)),
        (True, False, FusionWeights(1, 0)),
        (False, True, FusionWeights(0, 1)),
        (False, False, FusionWeights(0, 0)),
    ],
)
def test_all_the_weight_is_on_the_evidence_there_is(
    *, has_vector: bool, has_terms: bool, weights: FusionWeights
) -> None:
    assert fusion_weights(has_vector=has_vector, has_terms=has_terms) == weights


def test_idf_is_the_one_of_bm25() -> None:
    assert idf(100, 3) == pytest.approx(math.log(1 + (100 - 3 + 0.5) / 3.5))
    assert idf(0, 0) == pytest.approx(math.log(2))


@given(st.integers(-5, 10**6), st.integers(-5, 10**6))
def test_idf_is_positive_and_a_rarer_term_weighs_more(n: int, df: int) -> None:
    assert idf(n, df) > 0
    assert idf(n, df) >= idf(n, df + 1)


@given(terms, terms, st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 50)), st.integers(0, 50))
def test_coverage_is_a_share(query: set[str], memory: set[str], df: dict[str, int], n: int) -> None:
    share = idf_coverage(query, memory, df, n)
    assert 0 <= share <= 1
    assert idf_coverage(query, memory | query, df, n) == (1 if query else 0)
    assert share + idf_coverage(query, query - memory, df, n) == pytest.approx(1 if query else 0)
    assert (share > 0) == bool(query & memory)


def test_a_rare_term_counts_for_more_than_a_common_one() -> None:
    df = {"rare": 1, "common": 90}
    assert idf_coverage(["rare", "common"], ["rare"], df, 100) > 0.9
    assert idf_coverage(["rare", "common"], ["common"], df, 100) < 0.1


def test_a_repeated_term_counts_once() -> None:
    assert idf_coverage(["a", "a", "b"], ["a"], {}, 10) == pytest.approx(0.5)


@given(vectors, vectors, vectors, st.integers(0, 10**6))
def test_a_centred_cosine_is_symmetric_and_bounded(a: list[float], q: list[float], mean: list[float], n: int) -> None:
    cosine = centred_cosine(a, q, mean, n)
    assert -1 <= cosine <= 1
    assert cosine == pytest.approx(centred_cosine(q, a, mean, n))


@given(vectors, vectors, st.integers(0, 100))
def test_without_a_mean_or_without_memories_it_is_the_plain_cosine(a: list[float], q: list[float], n: int) -> None:
    norm = math.hypot(*a) * math.hypot(*q)
    assume(norm > 1e-6)
    plain = sum(x * y for x, y in zip(a, q, strict=True)) / norm
    assert centred_cosine(a, q, None, n) == pytest.approx(plain)
    assert centred_cosine(a, q, [1.0, 1.0, 1.0], 0) == pytest.approx(plain)


@given(vectors)
def test_a_vector_is_most_like_itself(a: list[float]) -> None:
    assume(math.hypot(*a) > 1e-3)
    assert centred_cosine(a, a, None, 0) == pytest.approx(1)


def test_the_mean_counts_half_at_the_prior() -> None:
    halved = centred_cosine([1.0, 0.0], [0.0, 1.0], [0.5, 0.5], CENTERING_PRIOR)
    # What is left of the two vectors is .75 and -.25, and the other way round.
    assert halved == pytest.approx(-0.375 / 0.625)


def test_what_every_memory_has_in_common_is_no_evidence() -> None:
    near, far, query, mean = [0.9, 0.436], [0.9, -0.436], [0.95, 0.312], [0.9, 0.0]
    plain = centred_cosine(near, query, None, 200) - centred_cosine(far, query, None, 200)
    centred = centred_cosine(near, query, mean, 200) - centred_cosine(far, query, mean, 200)
    assert centred > plain


def test_a_zero_vector_is_like_nothing() -> None:
    assert centred_cosine([0.0, 0.0], [1.0, 0.0], None, 5) == 0


def test_vectors_of_different_length_are_refused() -> None:
    with pytest.raises(ValueError, match="zip"):
        centred_cosine([1.0], [1.0, 0.0], None, 0)


evidence = st.one_of(st.none(), st.floats())


@given(st.booleans(), st.booleans(), evidence, evidence)
def test_a_score_is_in_0_to_1_whatever_comes(
    has_vector: bool, has_terms: bool, cosine: float | None, coverage: float | None
) -> None:
    weights = fusion_weights(has_vector=has_vector, has_terms=has_terms)
    assert 0 <= fuse(weights=weights, cosine=cosine, coverage=coverage) <= 1


@given(numbers, numbers, st.floats(0, 1))
def test_more_evidence_never_lowers_a_score(low: float, high: float, coverage: float) -> None:
    low, high = sorted((low, high))
    weights = fusion_weights(has_vector=True, has_terms=True)
    assert fuse(weights=weights, cosine=low, coverage=coverage) <= fuse(weights=weights, cosine=high, coverage=coverage)


def test_the_score_is_the_weighted_sum_with_a_tenth_for_both_and_a_negative_cosine_counts_as_none() -> None:
    weights = fusion_weights(has_vector=True, has_terms=True)
    assert fuse(weights=weights, cosine=0.5, coverage=0.5) == pytest.approx(0.5)
    assert fuse(weights=weights, cosine=1, coverage=0) == pytest.approx(0.54)
    assert fuse(weights=weights, cosine=0.36, coverage=0.25) == pytest.approx(0.1944 + 0.09 + 0.03)
    assert fuse(weights=weights, cosine=-0.5, coverage=0.25) == pytest.approx(0.09)


def test_a_term_that_no_memory_has_counts_half() -> None:
    df = {"known": 3}
    with_unseen = idf_coverage(["known", "unseen"], ["known"], df, 100)
    assert with_unseen == pytest.approx(idf(100, 3) / (idf(100, 3) + 0.5 * idf(100, 0)))
