from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from gradaudit.errors import InputError
from gradaudit.theory import log10_separable_by_chance


@given(st.integers(0, 400), st.integers(1, 60))
def test_cover_s_count(points, dimension):
    counted = sum(math.comb(points - 1, k) for k in range(min(dimension, points))) if points else 1
    exact = mpmath.log10(mpmath.mpf(2 * counted if points else 1) / mpmath.mpf(2) ** points)
    assert log10_separable_by_chance(points, dimension) == pytest.approx(
        float(exact), rel=1e-9, abs=1e-12
    )


@given(st.integers(1, 300), st.integers(1, 40))
def test_more_points_are_harder_and_more_dimensions_easier(points, dimension):
    here = log10_separable_by_chance(points, dimension)
    assert log10_separable_by_chance(points + 1, dimension) <= here + 1e-12
    assert log10_separable_by_chance(points, dimension + 1) >= here - 1e-12
    assert here <= 0.0


def test_half_of_all_colourings_at_twice_the_dimension():
    assert 10 ** log10_separable_by_chance(2 * 17, 17) == pytest.approx(0.5)


def test_wide_layers_leave_finite_logarithms():
    assert -math.inf < log10_separable_by_chance(10_000, 20) < -2500


def test_colourings_of_random_points_separate_as_often():
    # 400 linear programs; a fair run leaves five standard errors once in 1.7 million.
    generator, points, dimension, runs = np.random.default_rng(1), 12, 4, 400
    separable = 0
    for _ in range(runs):
        signed = generator.normal(size=(points, dimension)) * generator.choice(
            (-1, 1), size=(points, 1)
        )
        result = linprog(
            np.zeros(dimension), A_ub=-signed, b_ub=-np.ones(points), bounds=[(None, None)] * 4
        )
        separable += result.status == 0
    chance = 10 ** log10_separable_by_chance(points, dimension)
    assert abs(separable / runs - chance) < 5 * (chance * (1 - chance) / runs) ** 0.5


@pytest.mark.parametrize(("points", "dimension"), [(-1, 2), (3, 0)])
def test_impossible_arguments_are_named(points, dimension):
    with pytest.raises(InputError, match="expected"):
        log10_separable_by_chance(points, dimension)


@pytest.mark.parametrize("positive", range(0, 9))
def test_few_points_of_one_colour_can_always_be_cut_off(positive):
    # By enumeration in the plane through the origin: 2 N colourings of N points on a half circle.
    points, dimension = 8, 2
    angles = [math.pi * (k + 0.5) / points for k in range(points)]
    made = set()
    for k in range(4 * points):
        normal = math.pi * (k + 0.25) / (2 * points)
        made.add(tuple(math.cos(angle - normal) > 0 for angle in angles))
    assert len(made) == 2 * points
    fraction = min(len(made) / math.comb(points, positive), 1.0)
    assert log10_separable_by_chance(points, dimension, positive) == pytest.approx(
        math.log10(fraction), abs=1e-9
    )
