"""Records from a noisy gradient made more exact by the network, where there is one."""

from __future__ import annotations

import torch
from torch import Tensor

from gradaudit.certify import Network, NetworkMismatchError, likeliest_classes
from gradaudit.linear.problem import Problem
from gradaudit.noisy import FeedForward, NoisyBatch, Polished, polish, use_all_layers
from gradaudit.session.setup import Setup

# A record that grows by more is blown up; one that was certified moves by so many standard errors
# at most: of 2,500 images that zeros alone certified, the farthest was at 3.2 from the truth.
LARGEST_GROWTH, MOVED_SIGMAS = 4.0, 4.0
# Relative difference of outputs up to which layers in a row are the network: rounding in float64.
SAME_OUTPUTS = 1e-9


def polish_by_network(
    setup: Setup, problem: Problem, batch: NoisyBatch, network: Network | None
) -> Polished | None:
    """Use what the layers behind the attacked one say, if they are known and all of one kind.

    Args:
        setup: The audit's.
        problem: The attacked layer.
        batch: As it was found.
        network: The client's, with the update's weights; None if there is none.

    Returns:
        None without a network, behind several steps, or where the network is more than fully
        connected layers with ReLUs between them.
    """
    if network is None or setup.update.several_steps:
        return None
    setup.control.report(f"layer {problem.layer.name}: more exactly, by the network")
    classes = likeliest_classes(
        problem, batch.records, network, image_shape=setup.image_shape, sign=setup.sign
    )
    layers = [layer for layer, _ in setup.plan.linear]
    first = [layer.name for layer in layers].index(problem.layer.name)
    row = FeedForward.of(layers[first:], network.loss, device=problem.sparse.device)
    if classes is None or row is None:
        return None
    try:
        expected = network.forward(batch.records).outputs.detach()
    except NetworkMismatchError:
        return None
    if not _same(row.run(batch.records).outputs, expected):
        return None
    level = float(problem.sparse_noise.mean())
    polished = polish(
        row,
        batch.records,
        classes.labels,
        classes.weights,
        entry_error=batch.errors.entry,
        level=level,
        generator=setup.generator,
        control=setup.control,
    )
    return polished and use_all_layers(
        row,
        polished,
        classes.labels,
        level=level,
        generator=setup.generator,
        control=setup.control,
    )


def contradicts(batch: NoisyBatch, polished: Polished, proven: list[bool]) -> bool:
    """Whether records are no longer what they were found to be.

    A network that is not the client's may leave a gradient nearly explained, by records that it
    drives away from where they were proven to be, or blows up.

    Args:
        batch: As it was found.
        polished: What the network made of it.
        proven: Which of the records were certified as they were found.
    """
    size, now = (x.square().mean(1).sqrt() for x in (batch.records, polished.records))
    moved = (polished.records - batch.records).square().mean(1).sqrt()
    allowed = (batch.errors.entry.square() + polished.entry_error.square()).sqrt()
    kept = torch.tensor(proven, device=moved.device)
    return bool((now > LARGEST_GROWTH * size).any() or (moved > MOVED_SIGMAS * allowed)[kept].any())


def _same(outputs: Tensor, expected: Tensor) -> bool:
    if outputs.shape != expected.shape:
        return False
    return float((outputs - expected).norm()) <= SAME_OUTPUTS * float(expected.norm())
