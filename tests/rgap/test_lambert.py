from __future__ import annotations

import mpmath
import pytest
import torch

from gradaudit.rgap.lambert import BRANCH_MARGIN, LEAST_PRODUCT, margins, product


def numbers(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def test_margins_come_back():
    known = numbers(-700, -30, -2, -0.5, -1e-7, 1e-7, 0.5, 1.2, 1.4, 3, 12, 60, 300)
    larger, smaller = margins(product(known))
    from_either = torch.minimum((larger[0] - known).abs(), (smaller[0] - known).abs())
    assert (from_either <= 1e-12 * known.abs().clamp(min=1)).all()
    assert torch.equal(larger[2], known > 0)
    assert smaller[2].all()
    # Where there are two, both have the same product, on either side of where they meet.
    two = larger[2]
    assert torch.allclose(product(larger[0])[two], product(smaller[0])[two], rtol=1e-10, atol=0)
    assert (larger[0][two] > BRANCH_MARGIN).all()
    assert (smaller[0] < BRANCH_MARGIN).all()


def test_where_both_meet():
    meeting = mpmath.findroot(lambda m: mpmath.diff(lambda t: -t / (1 + mpmath.exp(t)), m), 1.3)
    assert pytest.approx(float(meeting), abs=1e-10) == BRANCH_MARGIN
    larger, smaller = margins(numbers(LEAST_PRODUCT * (1 + 1e-9)))
    assert larger[2].all()
    assert smaller[2].all()
    assert torch.allclose(larger[0], numbers(BRANCH_MARGIN), atol=1e-6)
    beyond = margins(numbers(-0.3))
    assert not beyond[0][2].any()
    assert not beyond[1][2].any()


def test_slopes_are_derivatives():
    margin = numbers(-3.0, 0.4, 2.5)
    found = margins(product(margin))[1]
    step = 1e-6
    slope = (product(found[0] + step) - product(found[0] - step)) / (2 * step)
    assert torch.allclose(found[1], slope, rtol=1e-8)
