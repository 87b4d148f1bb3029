"""Simulated clients whose updates the benchmarks audit, and which of their records are there."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor, nn

import gradaudit as ga

CIFAR, MNIST, ADULT = "cifar10_2000.npz", "mnist_3000.npz", "adult_4000.csv.gz"
UNIT = "?normalise=unit"

# A record whose gradient is smaller than this part of the batch's largest is no part of a float64
# gradient to speak of: a saturated softmax leaves such records.
SIGNAL = 1e-10

TRAINING_BATCH, TRAINING_RATE = 64, 0.05
TWIN_NOISE = 0.01


def noisy(images: Tensor, generator: torch.Generator) -> Tensor:
    """The same images with a little noise."""
    noise = torch.randn(images.shape, generator=generator, dtype=images.dtype)
    return images + TWIN_NOISE * noise


def shifted(images: Tensor, generator: torch.Generator) -> Tensor:
    """The same images one pixel to the right."""
    return images.roll(1, dims=-1)


@dataclass(frozen=True)
class Case:
    """A client: its data, its network, and what it sends.

    Attributes:
        data: A file of the data folder, with options.
        batch_size: Records.
        widths: Neurons of the hidden layers.
        label: The one class of the records, or None.
        dtype: Of the network and its gradient.
        gradient_dtype: What the gradient is rounded to, if it is.
        steps: Of SGD that the network was trained for on all of the data.
        twins: What makes the second half of the batch of the first, if it is not drawn.
        frozen: Whether the first layer is not trained, so that the update starts with the second.
        weight_deviation: Of normal weights without biases; None for PyTorch's initialisation.
    """

    data: str
    batch_size: int
    widths: tuple[int, ...] = (200,) * 5
    label: int | None = None
    dtype: torch.dtype = torch.float64
    gradient_dtype: torch.dtype | None = None
    steps: int = 0
    twins: Callable[[Tensor, torch.Generator], Tensor] | None = None
    frozen: bool = False
    weight_deviation: float | None = None


@dataclass(frozen=True, eq=False)
class Sent:
    """An update and the truth about it.

    Attributes:
        update: What the audit sees.
        truth: What the attacked layer was given.
        group: For every record the number of its like in the batch: equal records have one.
        signals: For every group, whether its gradient can be seen at all.
    """

    update: ga.Update
    truth: ga.Truth
    group: Tensor
    signals: Tensor


@lru_cache(maxsize=8)
def source(data: str) -> ga.data.Source:
    """A source of records from the data folder."""
    return ga.data.load_source(os.path.join(os.environ["GRADAUDIT_DATA"], data))


def simulate(case: Case, seed: int) -> Sent:
    """One client of the case; another seed draws another batch and another network."""
    inputs, labels, preprocessing = _batch(case, seed)
    model = _network(case, seed)
    update, truth = ga.clients.FedSGD(model, gradient_dtype=case.gradient_dtype).update(
        inputs, labels, preprocessing
    )
    before = 3 if case.frozen else 1
    if case.frozen:
        with torch.no_grad():
            truth = ga.Truth(model[:before](inputs), labels)
    features = truth.inputs.flatten(1)
    group = torch.unique(features, dim=0, return_inverse=True)[1]
    size = _gradient_sizes(model[before], model[before + 1 :], features, labels, group)
    return Sent(update, truth, group, size > SIGNAL * size.max())


def _batch(case: Case, seed: int) -> tuple[Tensor, Tensor, ga.Preprocessing]:
    drawn = case.batch_size // 2 if case.twins else case.batch_size
    batch = source(case.data).batch(drawn, seed=seed, label=case.label, dtype=case.dtype)
    inputs, labels = batch.inputs, batch.labels
    if case.twins:
        twins = case.twins(inputs, torch.Generator().manual_seed(seed))
        inputs, labels = torch.cat([inputs, twins]), labels.repeat(2)
    return inputs, labels, batch.preprocessing


def _network(case: Case, seed: int) -> nn.Sequential:
    model = _trained(case.data, case.widths, case.weight_deviation, case.dtype, case.steps, seed)
    for parameter in model[1].parameters():
        parameter.requires_grad_(not case.frozen)
    return model


@lru_cache(maxsize=1)
def _trained(
    data: str,
    widths: tuple[int, ...],
    weight_deviation: float | None,
    dtype: torch.dtype,
    steps: int,
    seed: int,
) -> nn.Sequential:
    records = source(data)
    everything = records.batch(1, dtype=dtype) if not steps else _all_of(data, dtype)
    model = ga.models.mlp(
        everything.inputs[0].numel(),
        list(widths),
        max(records.classes, 2),
        init="pytorch" if weight_deviation is None else "normal",
        init_std=weight_deviation,
        seed=seed,
        dtype=dtype,
    )
    if weight_deviation is not None:
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(parameter)
    optimiser = torch.optim.SGD(model.parameters(), TRAINING_RATE)
    generator = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        chosen = torch.randint(len(everything.labels), (TRAINING_BATCH,), generator=generator)
        loss = nn.functional.cross_entropy(
            model(everything.inputs[chosen]), everything.labels[chosen]
        )
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return model


@lru_cache(maxsize=1)
def _all_of(data: str, dtype: torch.dtype) -> ga.data.Batch:
    records = source(data)
    return records.batch(len(records), dtype=dtype)


def _gradient_sizes(
    layer: nn.Linear, after: nn.Module, features: Tensor, labels: Tensor, group: Tensor
) -> Tensor:
    """The norm of each group's part of the layer's gradient."""
    outputs = layer(features).detach().requires_grad_()
    loss = nn.functional.cross_entropy(after(outputs), labels, reduction="sum")
    (gradient,) = torch.autograd.grad(loss, outputs)
    groups = int(group.max()) + 1
    total = gradient.new_zeros(groups, gradient.shape[1]).index_add(0, group, gradient)
    length = features.new_zeros(groups).index_put((group,), features.norm(dim=1))
    return total.norm(dim=1) * length
