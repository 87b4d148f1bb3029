from __future__ import annotations

import pytest
import torch

from gradaudit.linear.independence import fast_ica, negentropy, whiten


def sources(count: int, samples: int = 4000) -> torch.Tensor:
    """Independent columns: flat, heavy-tailed and two-valued ones in turn."""
    generator = torch.Generator().manual_seed(count)
    flat = torch.rand(samples, count, generator=generator, dtype=torch.float64) - 0.5
    columns = [flat[:, j] if j % 3 == 0 else flat[:, j] ** 5 for j in range(count)]
    columns = [c.sign() if j % 3 == 2 else c for j, c in enumerate(columns)]
    return torch.stack(columns, 1)


def test_planted_sources_are_found_up_to_order_and_sign():
    truth = sources(9)
    generator = torch.Generator().manual_seed(0)
    mixed = truth @ torch.randn(9, 9, generator=generator, dtype=torch.float64) + 3.0
    white = whiten(mixed)
    rows = fast_ica(white.samples, torch.randn(9, 9, generator=generator, dtype=torch.float64))
    assert torch.allclose(rows @ rows.T, torch.eye(9, dtype=torch.float64), atol=1e-10)
    found = white.samples @ rows.T
    cosine = torch.corrcoef(torch.cat([found.T, truth.T]))[:9, 9:].abs()
    assert cosine.max(0).values.min() > 0.99
    assert cosine.argmax(0).unique().numel() == 9
    # The coefficients say the same of the mixtures themselves.
    again = mixed @ white.coefficients(rows).T
    assert torch.allclose(again - again.mean(0), found, atol=1e-10)


def test_negentropy_by_closed_forms():
    # A coin's log cosh is log cosh 1; a Gaussian's negentropy is 0 but for its sampling error,
    # whose standard deviation for E[log cosh] at a million draws is 5e-4.
    coin = torch.tensor([[1.0], [-1.0]]).double()
    expected = (torch.log(torch.cosh(torch.tensor(1.0).double())) - 0.3745672075) ** 2
    assert float(negentropy(coin)) == pytest.approx(float(expected), rel=1e-9)
    normal = torch.randn(10**6, 1, generator=torch.Generator().manual_seed(0)).double()
    assert float(negentropy(normal)) < (6 * 5e-4) ** 2
    assert float(negentropy(torch.full((2, 1), 1e4).double())) > 1e7
