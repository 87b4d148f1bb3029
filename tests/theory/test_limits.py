from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from gradaudit.errors import InputError
from gradaudit.theory import limits

GROWTH = Path(__file__).parents[2] / "benchmarks" / "results" / "growth.json"
WIDTHS = st.integers(1, 5000)


def test_the_wall_is_the_power_law_through_what_was_measured():
    if not GROWTH.exists():
        pytest.skip("the benchmarks are not beside the tests")
    largest = {}
    known = json.loads(GROWTH.read_text())
    for entry in (known["m = 200"], known["m = 400"], known["m = 1000"]):
        for row in entry["rows"]:
            if row["status"] == "recovered":
                m = row["width"]
                largest[m] = max(largest.get(m, 0), row["batch_size"])
    for m, b in largest.items():
        limit = limits.halfspace_limit(m)
        assert limit.low <= b <= limit.high


@given(WIDTHS)
def test_information_is_the_binomials_quantile(width):
    k = limits.information_limit(width)
    # Fewer than k zeros are as rare as asked for; fewer than k + 1 are not.
    if k > 1:
        assert binom.cdf(k - 1, width, 0.5) <= 1e-5 * (1 + 1e-9)
    assert binom.cdf(k, width, 0.5) > 1e-5 * (1 - 1e-9)


@settings(deadline=None)
@given(WIDTHS, st.floats(1, 1e4), st.floats(1, 10))
def test_a_wider_layer_and_more_time_give_no_smaller_limit(width, seconds, more):
    weights = 10**6
    here = limits.halfspace_limit(width, seconds, weights=weights)
    assert here.batch_size <= limits.halfspace_limit(width + 1, seconds, weights=weights).batch_size
    longer = limits.halfspace_limit(width, seconds * more, weights=weights)
    assert here.batch_size <= longer.batch_size <= limits.information_limit(width)
    assert 1 <= here.low <= here.batch_size <= here.high


def test_shares_fall_from_all_to_nothing():
    limit = limits.Limit(100, 80, 125, True, "")
    shares = [limit.share(b) for b in range(1, 200)]
    assert shares == sorted(shares, reverse=True)
    assert limit.share(100) == pytest.approx(0.5)


def test_outside_what_was_fitted_it_says_so():
    assert limits.halfspace_limit(1000).measured
    assert not limits.halfspace_limit(100).measured
    assert not limits.halfspace_limit(16_000).measured


@given(st.floats(0, 1), st.integers(1, 300), WIDTHS, WIDTHS)
def test_noise_only_takes_away(noise, batch, width, inputs):
    share = limits.certified_share_under_noise(noise, batch, width, inputs)
    assert 0 <= share <= 1
    assert limits.certified_share_under_noise(noise * 1.5, batch, width, inputs) <= share


def test_the_edge_of_noise_is_its_largest_singular_value():
    # The largest of a Gaussian matrix is within a few percent of the edge at this size, always:
    # it leaves 5 % with a probability below 1e-5 (its deviation is of order sigma, 0.5 of 56).
    np = pytest.importorskip("numpy")
    noise = np.random.default_rng(0).standard_normal((400, 1300))
    largest = np.linalg.svd(noise, compute_uv=False)[0]
    assert limits.noise_edge(1.0, 400, 1300) == pytest.approx(largest, rel=0.05)


@pytest.mark.parametrize("noise", [-1.0, math.inf, math.nan])
def test_no_such_noise(noise):
    with pytest.raises(InputError):
        limits.noise_edge(noise, 2, 2)
