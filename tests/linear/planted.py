"""Batches with known records, sent through a small ReLU network and differentiated by autograd."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import torch
from torch import Tensor

from gradaudit.budget import Budget, Control
from gradaudit.linear.factor import factor_gradient
from gradaudit.linear.invert import Inversion, invert
from gradaudit.linear.problem import Problem, Setting, build_problem
from gradaudit.update import LinearLayer


@dataclass(frozen=True, eq=False)
class Planted:
    """A layer as observed, and what the attacker must find."""

    layer: LinearLayer
    records: Tensor
    gradients: Tensor  # dL/dZ, (m, b)
    problem: Problem

    @property
    def true_directions(self) -> Tensor:
        """Rows: the unit directions of the true records."""
        factors = self.problem.factors
        if self.problem.setting is Setting.SPARSE_GRADIENT:
            columns = (factors.left.T @ self.gradients).T
        else:
            columns = self.records @ factors.right
        return columns / columns.norm(dim=1, keepdim=True)


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def gaussian(batch: int, inputs: int, seed: int) -> Tensor:
    return torch.randn(batch, inputs, generator=seeded(seed), dtype=torch.float64)


def network(sizes: list[int], seed: int, *, bias: bool = True) -> list[tuple[Tensor, Tensor]]:
    """Weights and biases, drawn as torch does by default."""
    generator, layers = seeded(seed + 1000), []
    for n, m in itertools.pairwise(sizes):
        draw = torch.rand(m, n + 1, generator=generator, dtype=torch.float64) * 2 - 1
        draw = draw / n**0.5
        layers.append((draw[:, :n].contiguous(), draw[:, n].contiguous() if bias else None))
    return layers


def plant(
    records: Tensor,
    *,
    width: int = 80,
    classes: int = 10,
    seed: int = 0,
    bias: bool = True,
    dtype: torch.dtype = torch.float64,
    setting: Setting = Setting.SPARSE_GRADIENT,
    layers: list[tuple[Tensor, Tensor]] | None = None,
    factor_like: torch.dtype | None = None,
) -> Planted:
    """One FedSGD step of a network with two hidden layers; cross entropy, random labels.

    The sparse gradient's layer is the first one; the sparse input's is the second, whose input
    the ReLU after the first has made sparse.
    """
    layers = layers or network([records.shape[1], width, width, classes], seed, bias=bias)
    labels = torch.randint(layers[-1][0].shape[0], (len(records),), generator=seeded(seed + 2000))
    parameters = []
    hidden, kept = records.to(dtype), []
    for index, (weight, offset) in enumerate(layers):
        weight = weight.to(dtype).requires_grad_()
        offset = None if offset is None else offset.to(dtype).requires_grad_()
        parameters.append((weight, offset))
        inputs = hidden
        before = inputs @ weight.T if offset is None else inputs @ weight.T + offset
        before.retain_grad()
        kept.append((inputs, before))
        hidden = before.relu() if index < len(layers) - 1 else before
    torch.nn.functional.cross_entropy(hidden, labels).backward()
    index = 0 if setting is Setting.SPARSE_GRADIENT else 1
    weight, offset = parameters[index]
    layer = LinearLayer(
        "fc",
        weight.detach(),
        None if offset is None else offset.detach(),
        weight.grad.to(factor_like or dtype),
        None if offset is None else offset.grad.to(factor_like or dtype),
    )
    factors = factor_gradient(layer.weight_gradient, generator=seeded(seed))
    problem = build_problem(layer, factors, setting)
    return Planted(
        layer,
        kept[index][0].detach().double(),
        kept[index][1].grad.T.double(),
        problem,
    )


def search(
    problem: Problem, *, submatrices: int = 200_000, seconds: float = 20.0, seed: int = 0, **kwargs
) -> Inversion:
    return invert(
        problem,
        proposer="spear",
        generator=seeded(seed),
        control=Control(Budget(seconds=seconds, submatrices=submatrices)),
        **kwargs,
    )


def worst_error(found: Tensor, truth: Tensor) -> float:
    """Largest relative error of a true record against the found one that is nearest to it."""
    # Not by the expansion of the square, which loses half the digits.
    exact = "donot_use_mm_for_euclid_dist"
    distance = torch.cdist(truth, found.to(truth), compute_mode=exact)
    nearest = distance.argmin(1)
    assert len(set(nearest.tolist())) == len(truth), "two true records share one found record"
    return float((distance.amin(1) / truth.norm(dim=1)).max())
