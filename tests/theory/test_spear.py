from __future__ import annotations

import itertools
import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradaudit.errors import InputError
from gradaudit.theory import (
    coupon_collector,
    expected_submatrices,
    false_rejection_rate,
    hit_probability,
    sparsity_threshold,
)

batches = st.integers(1, 200)
widths = st.integers(1, 3000)


def exact_hit_rate(batch: int) -> float:
    """Fraction of all 0/1 matrices with b - 1 rows that have one zero column and rank b - 1.

    By counting every matrix: the event of Lemma 5.1, whose bound must lie below.
    """
    rows = batch - 1
    patterns = np.array(list(itertools.product((0, 1), repeat=rows * batch)), dtype=float)
    matrices = patterns.reshape(-1, rows, batch)
    alone = (matrices.sum(1) == 0).sum(1) == 1
    return float((alone & (np.linalg.matrix_rank(matrices) == rows)).mean())


@pytest.mark.parametrize("batch", [2, 3, 4])
def test_the_bound_lies_below_full_enumeration(batch):
    assert 0 < hit_probability(batch) < exact_hit_rate(batch)


@given(batches)
def test_hit_probability_is_lemma_5_1(batch):
    with mpmath.workdps(60):
        exact = (
            mpmath.mpf(batch)
            / mpmath.mpf(2) ** (batch - 1)
            * (1 - mpmath.mpf("0.939") ** (batch - 1))
        )
    expected = 1.0 if batch == 1 else float(exact)
    assert math.isclose(hit_probability(batch), expected, rel_tol=1e-12)


def test_hit_probability_survives_where_powers_of_two_overflow():
    assert 0.0 < hit_probability(1000) < 1e-290


@given(st.integers(5, 500))
def test_larger_batches_are_hit_more_rarely(batch):
    assert hit_probability(batch + 1) < hit_probability(batch)
    assert expected_submatrices(batch + 1) > expected_submatrices(batch)


def test_the_paper_s_count_at_sixteen():
    assert f"{expected_submatrices(16):.1e}" == "1.8e+05"


@given(batches)
def test_coupon_collector_is_harmonic(batch):
    with mpmath.workdps(50):
        exact = float(batch * mpmath.harmonic(batch))
    assert math.isclose(coupon_collector(batch), exact, rel_tol=1e-12)


@given(batches, st.data())
def test_coupons_found_already_save_their_share(batch, data):
    found = data.draw(st.integers(0, batch))
    rest = coupon_collector(batch, found)
    first = sum(batch / (batch - k) for k in range(found))
    assert math.isclose(rest + first, coupon_collector(batch), rel_tol=1e-9)
    assert coupon_collector(batch, batch) == 0.0


def test_coupon_collector_against_simulation():
    # The mean of 20,000 draws lies within five standard errors but once in 1.7 million runs.
    generator, batch, runs = np.random.default_rng(0), 8, 20_000
    needed = np.zeros(runs)
    for missing in range(batch, 0, -1):
        needed += generator.geometric(missing / batch, runs)
    error = needed.std() / runs**0.5
    assert abs(needed.mean() - coupon_collector(batch)) < 5 * error


def test_a_measured_rate_replaces_the_bound():
    assert expected_submatrices(2, 0.5) == pytest.approx(6.0)


@given(st.integers(1, 300), st.data())
def test_false_rejection_against_exact_binomial_sums(width, data):
    zeros = data.draw(st.integers(0, width))
    exact = sum(math.comb(width, k) for k in range(zeros + 1)) / 2**width
    measured = false_rejection_rate(width, zeros / width)
    assert math.isclose(measured, exact, rel_tol=1e-9, abs_tol=1e-300)


def test_the_paper_s_threshold():
    assert sparsity_threshold(400, 1e-5) == 0.395
    # 158 zeros are needed: fewer have a chance below 1e-5, fewer than 159 one above it.
    assert false_rejection_rate(400, 157 / 400) < 1e-5 < false_rejection_rate(400, 158 / 400)


@given(widths, st.floats(1e-12, 0.5))
def test_the_threshold_is_the_largest_that_keeps_the_promise(width, rate):
    needed = round(sparsity_threshold(width, rate) * width)
    lost = false_rejection_rate(width, (needed - 1) / width) if needed else 0.0
    assert lost <= rate * (1 + 1e-9)
    assert false_rejection_rate(width, needed / width) >= rate * (1 - 1e-9)


@given(widths, st.floats(1e-9, 0.1), st.floats(1.0, 3.0))
def test_thresholds_grow_with_the_rate_and_end_at_a_half(width, rate, factor):
    assert (
        sparsity_threshold(width, rate)
        <= sparsity_threshold(width, rate * factor)
        <= 0.5 + (1 / width)
    )


def test_wide_layers_need_nearly_half_zeros():
    assert 0.49 < sparsity_threshold(1_000_000) < 0.5


@pytest.mark.parametrize(
    "call",
    [
        lambda: hit_probability(0),
        lambda: coupon_collector(0),
        lambda: coupon_collector(3, 4),
        lambda: coupon_collector(3, -1),
        lambda: expected_submatrices(3, 0.0),
        lambda: expected_submatrices(3, math.nan),
        lambda: false_rejection_rate(0, 0.5),
        lambda: false_rejection_rate(3, 1.5),
        lambda: false_rejection_rate(3, math.nan),
        lambda: sparsity_threshold(0),
        lambda: sparsity_threshold(3, 0.0),
        lambda: sparsity_threshold(3, 1.0),
    ],
)
def test_impossible_arguments_are_named(call):
    with pytest.raises(InputError, match="expected"):
        call()
