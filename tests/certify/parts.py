"""Batches of which directions are missing, with what a hostile one could contain."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from gradaudit.certify import Network, Verdict, certify_partial
from gradaudit.clients import FedSGD
from gradaudit.linear.disaggregate import Batch
from gradaudit.linear.factor import factor_gradient
from gradaudit.linear.partial import partial_batch
from gradaudit.linear.pool import Pool
from gradaudit.linear.problem import Problem, Setting, build_problem
from gradaudit.models import mlp
from gradaudit.update import LinearLayer

# Records of which the search is made to miss the second.
SIZE, FEATURES, MISSING = 12, 40, 1


@dataclass
class Parts:
    """A layer's gradient, and all that an attacker does not know."""

    problem: Problem
    inputs: Tensor
    labels: Tensor
    directions: Tensor
    network: Network

    def found(self, kept: list[int]) -> Tensor:
        """Some of the true directions, as the search would hand them on."""
        pool = Pool(self.problem)
        pool.add(self.directions[kept], self.problem.zeros_needed + 1)
        return pool.basis()

    def batch(self, found: Tensor) -> Batch | None:
        return partial_batch(self.problem, found)

    def judge(self, batch: Batch, found: Tensor, *, network: bool = True) -> Verdict:
        return certify_partial(
            self.problem,
            batch,
            missing=self.problem.batch_size - len(found),
            network=self.network if network else None,
        )

    def errors(self, records: Tensor) -> tuple[Tensor, Tensor]:
        """Of each record the root mean square error, and the true record it is nearest to."""
        difference = (records[:, None] - self.inputs[None]).square().mean(-1)
        error, nearest = difference.min(1)
        return error.sqrt(), nearest


def parts(
    seed: int,
    *,
    neurons: int = 260,
    classes: int = 10,
    hidden: tuple[int, ...] = (),
    lowered: float = 0.4,
    near: float | None = None,
    twin: float | None = None,
    dtype: torch.dtype = torch.float64,
) -> Parts | None:
    """One step of a network whose neurons fire for few records.

    Args:
        seed: Of everything.
        neurons: Of the layer.
        classes: Of the network.
        hidden: Widths of further layers.
        lowered: By how much the layer's biases are.
        near: The second record is the first one plus so much noise, and of its class.
        twin: The second record's gradient is the first one's times so much, at all neurons that it
            fires; no network computes that.
        dtype: In which the gradient is observed.

    Returns:
        The parts, or None where the gradient's rank does not show all records.
    """
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    inputs = draw(SIZE, FEATURES) + 0.3 * draw(FEATURES)
    labels = torch.randint(classes, (SIZE,), generator=generator)
    if near is not None:
        inputs[1] = inputs[0] + near * draw(FEATURES)
        labels[1] = labels[0]
    model = mlp(FEATURES, [neurons, *hidden], classes, seed=seed, dtype=torch.float64)
    with torch.no_grad():
        model.get_parameter("fc1.bias").sub_(lowered)
    client = FedSGD(model)
    update, _ = client.update(inputs, labels)
    layer = next(iter(update.linear_layers()))
    gradients = torch.stack([_column(client, inputs, labels, j) for j in range(SIZE)]) / SIZE
    if twin is not None:
        firing = inputs[1] @ layer.weight.T + layer.bias > 0
        size = gradients[0].abs().mean()
        gradients[1] = (
            twin * firing * torch.where(gradients[0] != 0, gradients[0], size * draw(neurons))
        )
    seen = LinearLayer(
        "fc1",
        layer.weight,
        layer.bias,
        (gradients.T @ inputs).to(dtype),
        gradients.sum(0).to(dtype),
    )
    factors = factor_gradient(seen.weight_gradient, generator=generator)
    if factors.rank != SIZE:
        return None
    problem = build_problem(seen, factors, Setting.SPARSE_GRADIENT)
    columns = (factors.left.T @ gradients.T).T
    return Parts(
        problem,
        inputs,
        labels,
        columns / columns.norm(dim=1, keepdim=True),
        Network(model, update, layer="fc1"),
    )


def _column(client: FedSGD, inputs: Tensor, labels: Tensor, j: int) -> Tensor:
    """One record's loss gradient at the layer's output."""
    update, _ = client.update(inputs[j : j + 1], labels[j : j + 1])
    gradient = next(iter(update.linear_layers())).bias_gradient
    assert gradient is not None
    return gradient
