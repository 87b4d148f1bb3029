from __future__ import annotations

import itertools
import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradaudit.errors import InputError
from gradaudit.theory import (
    failure_probability,
    hit_probability,
    log_hit_probability,
    nonsingular_probability,
    submatrices_for_success,
)


def lemma_5_3(batch: int, width: int, bound: str, rejection: float) -> float:
    base = mpmath.mpf("0.939") if bound == "upper" else mpmath.mpf("0.5")
    rows = batch - 1
    with mpmath.workdps(60):
        found = mpmath.fsum(
            mpmath.binomial(width, k)
            / mpmath.mpf(2) ** width
            * (1 - base ** (rows * mpmath.binomial(k, rows)))
            for k in range(rows, width + 1)
        )
        rejected = 1 - (1 - mpmath.mpf(rejection)) ** batch
        missed = batch * (1 - found) if bound == "upper" else 1 - found**batch
        return float(min(1, missed + rejected))


@settings(max_examples=60)
@given(
    st.integers(2, 30),
    st.integers(1, 120),
    st.sampled_from(["upper", "approximate"]),
    st.sampled_from([0.0, 1e-5, 0.1]),
)
def test_failure_probability_is_lemma_5_3(batch, width, bound, rejection):
    expected = lemma_5_3(batch, width, bound, rejection)
    assert failure_probability(batch, width, bound, rejection) == pytest.approx(expected, rel=1e-9)


def exact_failure(batch: int, width: int) -> float:
    """By counting every 0/1 matrix: some column has no non-singular submatrix where it is zero."""
    cells = width * batch
    bits = np.array(list(itertools.product((0, 1), repeat=cells)), dtype=float)
    patterns = bits.reshape(-1, width, batch)
    found = np.zeros((len(patterns), batch), dtype=bool)
    for rows in itertools.combinations(range(width), batch - 1):
        chosen = patterns[:, rows]
        for column in range(batch):
            rank = np.linalg.matrix_rank(np.delete(chosen, column, axis=2))
            found[:, column] |= (rank == batch - 1) & (chosen[:, :, column] == 0).all(1)
    return float(1 - found.all(1).mean())


@pytest.mark.parametrize(("batch", "width"), [(2, 3), (2, 6), (3, 4)])
def test_the_truth_lies_between_the_approximation_and_the_bound(batch, width):
    exact = exact_failure(batch, width)
    assert failure_probability(batch, width, "approximate", 0.0) < exact
    assert exact <= failure_probability(batch, width, "upper", 0.0)


@given(st.integers(2, 40), st.integers(1, 300), st.sampled_from(["upper", "approximate"]))
def test_wider_layers_fail_less_often_and_larger_batches_more(batch, width, bound):
    here = failure_probability(batch, width, bound)
    assert failure_probability(batch, width + 1, bound) <= here * (1 + 1e-9)
    if width >= batch + 1:
        assert 0 <= here <= 1


def test_limits_of_the_failure_probability():
    assert failure_probability(1, 5, false_rejection=0.0) == 0.0
    assert failure_probability(7, 5) == 1.0
    assert failure_probability(5, 50, false_rejection=1.0) == 1.0
    assert failure_probability(3000, 8000, "upper", 0.0) < 1e-100


@pytest.mark.parametrize("batch", [2, 3, 5, 10, 16])
@pytest.mark.parametrize("wanted", [1e-8, 0.01, 0.5])
def test_as_many_submatrices_as_lemma_a_1_says_are_enough(batch, wanted):
    # Each sample hits a given direction with probability q / b; exactly, by inclusion-exclusion.
    samples = math.ceil(submatrices_for_success(batch, wanted))
    with mpmath.workdps(80):
        each = mpmath.mpf(hit_probability(batch)) / batch
        failing = mpmath.fsum(
            (-1) ** (k + 1) * mpmath.binomial(batch, k) * (1 - k * each) ** samples
            for k in range(1, batch + 1)
        )
    assert 0 < failing <= wanted


def test_the_paper_s_example_needs_a_filter_that_rejects_nothing():
    assert submatrices_for_success(10, 1e-8) == pytest.approx(4e4, rel=0.1)
    with pytest.raises(InputError, match="filter"):
        submatrices_for_success(10, 1e-8, false_rejection=1e-5)


@given(st.integers(2, 900), st.floats(1e-12, 0.5))
def test_more_certainty_needs_more_submatrices(batch, wanted):
    here = submatrices_for_success(batch, wanted)
    assert here < submatrices_for_success(batch, wanted / 2)
    assert submatrices_for_success(batch, wanted, wanted / (4 * batch)) > here


def test_limits_of_the_number_of_submatrices():
    assert submatrices_for_success(1, 0.1) == 1.0
    assert submatrices_for_success(3000, 0.1) == math.inf


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_non_singular_matrices_are_counted(size):
    bits = np.array(list(itertools.product((0, 1), repeat=size**2)), dtype=float)
    regular = np.abs(np.linalg.det(bits.reshape(-1, size, size))) > 0.5
    assert nonsingular_probability(size, "exact") == regular.mean()


@pytest.mark.parametrize("size", [5, 6, 7, 8])
def test_random_matrices_are_non_singular_as_often_as_counted(size):
    # Five standard errors each: a fair run of all four leaves them once in 430 000.
    matrices = np.random.default_rng(size).integers(0, 2, (40_000, size, size))
    share = (np.abs(np.linalg.det(matrices.astype(float))) > 0.5).mean()
    exact = nonsingular_probability(size, "exact")
    assert abs(share - exact) < 5 * (exact * (1 - exact) / 40_000) ** 0.5
    assert nonsingular_probability(size) < exact < nonsingular_probability(size, "approximate")


def test_the_empty_matrix_is_not_singular():
    assert nonsingular_probability(0) == nonsingular_probability(0, "exact") == 1.0


@given(st.integers(1, 5000))
def test_logarithms_hold_where_the_probability_underflows(batch):
    with mpmath.workdps(40):
        rows = batch - 1
        factor = 1 - mpmath.mpf("0.939") ** rows if rows else mpmath.mpf(1)
        exact = mpmath.log(batch) - rows * mpmath.log(2) + mpmath.log(factor)
    assert log_hit_probability(batch) == pytest.approx(float(exact), rel=1e-12, abs=1e-15)


@pytest.mark.parametrize(
    "call",
    [
        lambda: failure_probability(0, 5),
        lambda: failure_probability(2, 0),
        lambda: failure_probability(2, 5, false_rejection=2.0),
        lambda: submatrices_for_success(2, 1.0),
        lambda: submatrices_for_success(0, 0.5),
        lambda: nonsingular_probability(9, "exact"),
        lambda: nonsingular_probability(-1),
    ],
)
def test_impossible_arguments_are_named(call):
    with pytest.raises(InputError, match="expected"):
        call()
