"""Records behind several steps of training: what the network can still say of them."""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from gradaudit.certify.forward import Forward
from gradaudit.certify.labels import best_labels, fit_classes
from gradaudit.evidence import RecordEvidence
from gradaudit.linear.problem import Problem, Setting

# What a class may leave of a record's share: relative to it, and to what the next class leaves. On
# CIFAR-10 (m = 200 and 1000, rates to 0.1, momentum to 0.9) the true one left up to 0.67, and 0.74
# of what the next one did. Where another class won, at drifts of a quarter, it left more than the
# next one, whose weight was of the wrong sign.
LABEL_RESIDUAL, LABEL_CONTRAST = 0.8, 0.8
# Part of the records that must have a clear class before any label is named: in an unrelated
# network (20 neurons behind the layer) one record in eight has.
LABELLED_SHARE = 0.5


def merging_reason(problem: Problem, forward: Forward | None) -> str:
    """Why records of several steps may be means of records whatever their zeros; or empty.

    Args:
        problem: The layer.
        forward: The network's pass for the records, if there is a network.
    """
    layer = problem.layer
    by_gradient = problem.setting is Setting.SPARSE_GRADIENT
    if by_gradient and layer.bias is not None and layer.bias_gradient is None:
        return (
            "The change of the layer's bias is unknown, and with it which neurons a record kept "
            "active or inactive through all steps."
        )
    if forward is not None and forward.classes <= 2:
        return (
            "With one logit or two classes, records that activate the same neurons appear as "
            "their weighted mean, and after several steps their weights do not show it."
        )
    return ""


def trained_statement(problem: Problem) -> str:
    """What a certificate by the layer alone says after several steps.

    Args:
        problem: In the sparse-gradient setting.
    """
    bias = "" if problem.layer.bias_gradient is None else " and of its bias"
    return (
        f"The records explain the change of the layer's weights{bias} exactly, and every record's "
        "share of it vanishes at precisely the neurons that the record leaves inactive by the "
        "weights before training and by those after it; neurons that training may have moved "
        "across their boundary in some step do not count."
    )


def labels_by_resemblance(
    forward: Forward,
    gradients: Float[Tensor, "m b"],
    evidence: list[RecordEvidence],
    *,
    sign: float,
) -> tuple[list[RecordEvidence], str]:
    """Add to each certified record the class that its share of the update resembles.

    A record's share sums its activation gradients over the steps that it took part in. Which those
    were, and at which weights, is the client's secret, so that nothing can be recomputed to
    rounding; but all of them are near that of the network halfway, for the record's class, and far
    from those of other classes. This names labels and proves nothing.

    Args:
        forward: The pass of the network with the weights halfway through training.
        gradients: The records' shares, dL/dZ summed over steps, one a column.
        evidence: By the layer.
        sign: -1 for a difference of weights.

    Returns:
        The evidence with labels, and what a reader should know about them.

    Source:
        Ours.
    """
    # Every class is worked out, as none explains a record to within a tolerance.
    everything = torch.ones_like(gradients[0])
    found = best_labels(fit_classes(forward, gradients, sign=sign, tolerances=everything), sign)
    clear = found.residuals <= LABEL_CONTRAST * found.rivals
    clear &= found.residuals <= LABEL_RESIDUAL
    clear &= clear.to(everything).mean() >= LABELLED_SHARE
    labelled = [
        replace(
            record,
            label=int(found.labels[j]) if record.recovered and bool(clear[j]) else None,
            activation_gradient_residual=float(found.residuals[j]),
        )
        for j, record in enumerate(evidence)
    ]
    return labelled, (
        "A label is the class whose gradient, by the network halfway through local training, is "
        f"nearest to the record's share of the update; clearly nearest for {int(clear.sum())} of "
        f"{len(evidence)} records."
    )
