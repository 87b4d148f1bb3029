"""Records from a noisy gradient made more exact by the network, where there is one."""

from __future__ import annotations

from torch import Tensor

from gradaudit.certify import NetworkMismatchError, likeliest_classes
from gradaudit.linear.problem import Problem
from gradaudit.noisy import FeedForward, NoisyBatch, Polished, polish, use_all_layers
from gradaudit.session.setup import Setup

# Relative difference of outputs up to which layers in a row are the network: rounding in float64.
SAME_OUTPUTS = 1e-9


def polish_by_network(
    setup: Setup, problem: Problem, role: str, batch: NoisyBatch
) -> Polished | None:
    """Use what the layers behind the attacked one say, if they are known and all of one kind.

    Args:
        setup: The audit's.
        problem: The attacked layer.
        role: Its role.
        batch: As it was found.

    Returns:
        None without a network, behind several steps, or where the network is more than fully
        connected layers with ReLUs between them.
    """
    network = None if setup.update.several_steps else setup.network_of(problem.layer.name)
    if network is None:
        return None
    setup.control.report(f"layer {problem.layer.name}: more exactly, by the network")
    classes = likeliest_classes(
        problem, batch.records, network, image_shape=setup.image_shape, sign=setup.sign
    )
    layers = [layer for layer, _ in setup.plan.linear]
    names = [layer.name for layer in layers]
    place = problem.sparse.device
    row = FeedForward.of(
        layers[names.index(problem.layer.name) :],
        network.loss,
        device=place,
        whole=role == "input" and not setup.plan.other,
    )
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


def _same(outputs: Tensor, expected: Tensor) -> bool:
    if outputs.shape != expected.shape:
        return False
    return float((outputs - expected).norm()) <= SAME_OUTPUTS * float(expected.norm())
