from __future__ import annotations

import json
import re
import statistics
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradaudit.errors import InputError
from gradaudit.theory import costs

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
# Of the machine, the seed and the fit; what the plan promises on new settings.
FACTOR = 3.0


def rows(file):
    path = RESULTS / file
    if not path.exists():
        pytest.skip("the benchmarks are not beside the tests")
    return json.loads(path.read_text()).items()


def six_layers(m):
    return 3072 * m + 4 * m * m + 10 * m


@pytest.mark.parametrize("file", ["exact_recovery.json", "plan.json"])
def test_predictions_are_near_what_was_measured(file):
    compared = 0
    for name, entry in rows(file):
        found = re.fullmatch(r"(?:CIFAR-10, )?b = (\d+), m = (\d+)", name)
        if found:
            b, m = map(int, found.groups())
            measured = statistics.median(row["core_seconds"] for row in entry["rows"])
            predicted = costs.halfspace_seconds(b, m, six_layers(m))
            assert 1 / FACTOR <= predicted / measured <= FACTOR, name
            compared += 1
    assert compared >= 5


def test_spear_is_near_what_was_measured():
    compared = 0
    for name, entry in rows("exact_recovery.json"):
        found = re.fullmatch(r"SPEAR alone: CIFAR-10, b = (\d+), m = (\d+)", name)
        if found:
            b, m = map(int, found.groups())
            measured = statistics.median(row["core_seconds"] for row in entry["rows"])
            assert 1 / FACTOR <= costs.spear_seconds(b, six_layers(m)) / measured <= FACTOR, name
            compared += 1
    assert compared == 3


@given(st.integers(1, 600), st.integers(1, 5000), st.integers(1, 10**8))
def test_more_takes_longer(batch, width, weights):
    for cost in (costs.halfspace_seconds, costs.dictionary_seconds, costs.peeling_seconds):
        here = cost(batch, width, weights)
        assert here <= cost(batch + 1, width, weights)
        assert here <= cost(batch, width, weights + 1)
    plain = costs.halfspace_seconds(batch, width, weights)
    assert plain <= costs.halfspace_seconds(batch, width, weights, harder=True)
    assert costs.gpu_seconds(plain) <= plain


def test_sizes_are_checked():
    with pytest.raises(InputError):
        costs.halfspace_seconds(0, 1, 1)
    with pytest.raises(InputError):
        costs.gpu_seconds(float("nan"))
