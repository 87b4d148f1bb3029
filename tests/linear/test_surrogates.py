"""Surrogates of sparsity: values against closed forms, derivatives against autograd."""

from __future__ import annotations

import math

import pytest
import torch

from gradaudit.linear.surrogates import L1, SURROGATES, LogCosh, NegativeL4
from linear.planted import seeded

ENTRIES = torch.randn(4, 50, generator=seeded(0), dtype=torch.float64)


@pytest.mark.parametrize("surrogate", [*SURROGATES.values(), LogCosh(1.0), LogCosh(1e-3)], ids=repr)
def test_the_derivative_is_autograds(surrogate):
    entries = ENTRIES.clone().requires_grad_()
    (expected,) = torch.autograd.grad(surrogate.value(entries).sum(), entries)
    assert torch.allclose(surrogate.derivative(ENTRIES), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("surrogate", SURROGATES.values(), ids=repr)
def test_signs_do_not_matter(surrogate):
    assert torch.equal(surrogate.value(-ENTRIES), surrogate.value(ENTRIES))
    assert torch.equal(surrogate.derivative(-ENTRIES), -surrogate.derivative(ENTRIES))


def test_values_are_the_closed_forms():
    row = torch.tensor([[3.0, -4.0]], dtype=torch.float64)
    assert L1().value(row).item() == 7.0
    assert NegativeL4().value(row).item() == -(81 + 256) / 4
    expected = 2.0 * (math.log(math.cosh(1.5)) + math.log(math.cosh(2.0)))
    assert LogCosh(2.0).value(row).item() == pytest.approx(expected, rel=1e-14)


def test_log_cosh_is_finite_where_cosh_is_not_and_tends_to_l1():
    row = torch.tensor([[1e6, -2e6, 0.0]], dtype=torch.float64)
    assert LogCosh(1e-3).value(row).item() == pytest.approx(3e6)
    width = 1e-4
    gap = L1().value(ENTRIES) - LogCosh(width).value(ENTRIES)
    # |y| - h(y) lies between 0 and mu log 2.
    assert bool((gap >= 0).all())
    assert float(gap.max()) <= width * math.log(2) * ENTRIES.shape[1] + 1e-12


def test_a_sparse_vector_is_smaller_than_a_dense_one_of_its_norm_but_for_l4s_spikes():
    sparse = torch.zeros(1, 16, dtype=torch.float64)
    sparse[0, :4] = 0.5
    dense = torch.full((1, 16), 0.25, dtype=torch.float64)
    for surrogate in SURROGATES.values():
        assert surrogate.value(sparse).item() < surrogate.value(dense).item()


def test_at_a_kink_the_subgradient_is_zero():
    assert L1().derivative(torch.zeros(1, 3)).abs().max().item() == 0.0
