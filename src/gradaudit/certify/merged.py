"""Records behind two classes, where no network can be asked: what their neurons say of means."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from gradaudit.certify.single import is_distinctive
from gradaudit.linear.problem import Problem

# Multiples of one record by a factor of so much less and more must be told from their mean by the
# layer's neurons alone. With PyTorch's biases some three in a hundred do; with none, none does.
MULTIPLES_SPREAD = 0.3
_FEW = (
    "With one logit or two classes, records that activate the same neurons appear as their "
    "weighted mean, and this layer has too few neurons to tell unrelated records apart."
)
_MULTIPLES = (
    "With one logit or two classes, multiples of it that activate the same neurons appear as their "
    "weighted mean, and no neuron of this layer tells such multiples apart."
)


def merged_reason(problem: Problem, record: Float[Tensor, " n"]) -> str:
    """Why a record can be the weighted mean of several that activate the same neurons, or empty.

    The gradients of such records have one direction, whatever their classes, so that the layer's
    gradient shows their mean. Where the network can be run on it, its weight tells; inputs of inner
    layers cannot be fed to it.

    Args:
        problem: A layer with a bias gradient, from which the record has its scale.
        record: Certified by all else.
    """
    linear = problem.layer.weight @ record
    bias = problem.layer.bias
    before = linear if bias is None else linear + bias
    everything = torch.ones_like(before, dtype=torch.bool)
    if not is_distinctive(problem, record[None], before <= 0, everything):
        return _FEW
    # Neurons on other sides for the two multiples would have shown two records.
    if not bool((before.abs() <= MULTIPLES_SPREAD * linear.abs()).any()):
        return _MULTIPLES
    return ""
