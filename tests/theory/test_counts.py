from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from scipy.stats import binom, poisson

from gradaudit.theory.counts import (
    binomial_at_least,
    binomial_at_most,
    binomial_quantile,
    log_heads,
    poisson_allowed,
)


@pytest.mark.parametrize("trials", [0, 1, 2, 7, 60, 4000])
@pytest.mark.parametrize("probability", [0.5, 0.02, 1e-6])
def test_tails_are_those_of_scipy(trials, probability):
    for count in (-1, 0, 1, trials // 2, trials - 1, trials, trials + 1):
        most = binomial_at_most(count, trials, probability)
        least = binomial_at_least(count, trials, probability)
        assert most == pytest.approx(binom.cdf(count, trials, probability), rel=1e-10)
        assert least == pytest.approx(binom.sf(count - 1, trials, probability), rel=1e-10)


@pytest.mark.parametrize("level", [1e-300, 1e-9, 1e-5, 0.1, 0.5, 0.75, 0.999])
def test_a_quantile_is_the_least_count_that_reaches_its_level(level):
    for trials in (1, 2, 3, 10, 33, 400, 1000, 20_000):
        found = binomial_quantile(level, trials)
        assert binomial_at_most(found, trials) >= level
        assert found == 0 or binomial_at_most(found - 1, trials) < level


def test_heads_sum_to_one_and_are_those_of_scipy():
    assert np.exp(log_heads(np.arange(61), 60)).sum() == pytest.approx(1)
    counts = np.arange(50)
    expected = binom.logpmf(counts, 40, 0.5)
    np.testing.assert_allclose(log_heads(counts, 40), expected, rtol=1e-12)


@pytest.mark.parametrize("rate", [1e-9, 1e-5, 0.01, 0.3])
def test_what_a_poisson_count_seldom_exceeds(rate):
    means = np.array([0.0, 1e-300, 1e-12, 1e-3, 0.7, 1.0, 25.0, 1e4])
    found = poisson_allowed(rate, means)
    assert found.tolist() == poisson.isf(rate, means).tolist()
    assert poisson_allowed(rate, 0.7).tolist() == [found[4]]


def test_the_command_line_does_without_scipy_stats():
    # It takes as long to import as everything else together.
    program = "import sys, gradaudit.cli.bulk_run; print('scipy.stats' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stdout.split() == [b"False"]
