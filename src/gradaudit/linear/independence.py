"""Independent component analysis: the directions in which samples look least Gaussian."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

# E[log cosh(g)] of a standard Gaussian variable g, by quadrature.
GAUSSIAN_LOG_COSH = 0.3745672075
FIXED_POINT_STEPS = 100
# Rows that turn by less than this (1 - |cos|) have converged.
FIXED_POINT_TOLERANCE = 1e-6


@dataclass(frozen=True, eq=False)
class Whitened:
    r"""Mixtures with their means removed, uncorrelated and of unit variance.

    Attributes:
        samples: Z, one sample a row.
        unwhiten: R of the mixtures' QR factorisation over :math:`\sqrt n`: a component
            :math:`Z w` is the mixture with coefficients :math:`R^{-1} w`, less its mean.
    """

    samples: Float[Tensor, "n b"]
    unwhiten: Float[Tensor, "b b"]

    def coefficients(self, rows: Float[Tensor, "k b"]) -> Float[Tensor, "k b"]:
        """What the mixtures are to be weighed with for these components."""
        return torch.linalg.solve_triangular(self.unwhiten, rows.T, upper=True).T


def whiten(mixtures: Float[Tensor, "n b"]) -> Whitened:
    """Remove the mixtures' means over the samples, and their correlation.

    Args:
        mixtures: One sample a row.

    Example:
        >>> mixed = torch.randn(50, 3, generator=torch.Generator().manual_seed(0)).double()
        >>> samples = whiten(mixed).samples
        >>> torch.allclose(samples.T @ samples / 50, torch.eye(3).double())
        True
    """
    basis, triangle = torch.linalg.qr(mixtures - mixtures.mean(0))
    scale = len(mixtures) ** 0.5
    return Whitened(basis * scale, triangle / scale)


def negentropy(components: Float[Tensor, "n k"]) -> Float[Tensor, " k"]:
    r"""How far from Gaussian each component of unit variance is, nearly.

    .. math:: (E[\log \cosh y] - E[\log \cosh g])^2, \quad g \sim N(0, 1)

    Source:
        Hyvarinen (1998); the contrast of the Cocktail Party attack (arXiv 2209.05578).

    Example:
        >>> coin = torch.tensor([[1.0], [-1.0]])
        >>> float(negentropy(coin)) > 3e-3
        True
    """
    # log cosh y = |y| + log(1 + exp(-2 |y|)) - log 2, which does not overflow.
    size = components.abs()
    log_cosh = size + torch.log1p(torch.exp(-2 * size)) - torch.log(size.new_tensor(2.0))
    return (log_cosh.mean(0) - GAUSSIAN_LOG_COSH).square()


def fast_ica(samples: Float[Tensor, "n b"], start: Float[Tensor, "b b"]) -> Float[Tensor, "b b"]:
    r"""All components at once, by fixed-point steps and symmetric decorrelation.

    .. math:: w^+ = E[z \tanh(w^T z)] - E[1 - \tanh^2(w^T z)]\, w, \quad W = (W W^T)^{-1/2} W

    Args:
        samples: Whitened.
        start: Any invertible matrix.

    Returns:
        Orthonormal rows w; components are ``samples @ rows.T``.

    Source:
        Hyvarinen (1999), Fast and robust fixed-point algorithms for ICA.
    """
    rows = _orthonormal(start)
    for _ in range(FIXED_POINT_STEPS):
        bent = torch.tanh(samples @ rows.T)
        slope = 1 - bent.square().mean(0)
        turned = _orthonormal(bent.T @ samples / len(samples) - slope[:, None] * rows)
        # Asking at every step costs a GPU nothing: the SVD has waited for it already.
        change = float(1 - (turned * rows).sum(1).abs().min())
        rows = turned
        if change < FIXED_POINT_TOLERANCE:
            break
    return rows


def _orthonormal(rows: Float[Tensor, "b b"]) -> Float[Tensor, "b b"]:
    """The nearest matrix with orthonormal rows."""
    left, _, right = torch.linalg.svd(rows, full_matrices=False)
    return left @ right
