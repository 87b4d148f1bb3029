r"""Whether a rank of one is one record, or the weighted mean of several.

The gradient of several records, :math:`\sum_i g_i x_i^T`, has rank one whenever their activation
gradients are proportional, and then shows :math:`\sum_i w_i x_i` as if it were a record. That is so
when the layer's output feeds a single linear function (two classes or one logit, and no activation
that tells records apart), when the weights are so small that the loss hardly sees the record, or
when the records are alike to within the gradient's rounding.
"""

from __future__ import annotations

import math
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from gradaudit.linear.blocks import times
from gradaudit.linear.problem import Problem, Setting
from gradaudit.linear.tolerances import CHANCE_LOG10, SINGLE_RECORD_ROWS

# Records that lie this far apart, relative to their size, must be told apart.
SINGLE_SPREAD = 1e-2
# The same where the record also silences just the neurons it must.
SILENT_SPREAD = 5e-2
# Rounding above which silent neurons alone do not tell records apart: that of float32.
FINE_EPS = 1e-6
# The same for records of one class in an output layer, where every record has its own zeros.
CLASS_SPREAD = 1e-1
# A second record must leave so many times more than what is left over.
VISIBLE_FACTOR = 2.0
# Share of an activation gradient that neurons' own slopes account for, as silence would.
SMALLEST_BEND = 0.2
# Of an activation gradient that the later layers' product explains: exactly linear.
LINEAR_RESIDUAL = 1e-12


@runtime_checkable
class NetworkView(Protocol):
    """What the network says about a record that reproduces its own share of the gradient."""

    def confirms(self, j: int) -> bool:
        """Whether the record's activation gradient is the observed one, and its own."""

    def trace_of_two(self, j: int, spread: float) -> float:
        """What two records, so far apart, would leave of rank two, at least; absolute."""


def single_record_reason(
    problem: Problem,
    records: Float[Tensor, "1 n"],
    gradients: Float[Tensor, "m 1"],
    *,
    scale_identified: bool,
    mismatches: int,
    judged: Bool[Tensor, " m"],
    left_over: float,
    only_rounding: bool,
    view: NetworkView | None,
    following: Float[Tensor, "c m"] | None,
) -> str:
    """Why a rank of one does not show one record; empty when it does.

    Args:
        problem: The layer.
        records: The one record.
        gradients: Its dL/dZ.
        scale_identified: Whether a bias gradient gives its scale and sign.
        mismatches: Neurons that contradict the activation the record predicts.
        judged: Neurons whose predicted activation is beyond doubt.
        left_over: Largest singular value of what the record does not explain.
        only_rounding: Whether that is no more than the observed type's rounding.
        view: The network's opinion, if there is a network.
        following: Product of the later layers' weights, if they are a chain.
    """
    silence_tells = only_rounding and _silence_tells(problem, records, judged, mismatches)
    if not scale_identified and not silence_tells:
        return "Without a bias gradient only silent neurons tell its sign, and they do not."
    fine = problem.observed_eps <= FINE_EPS
    limit = VISIBLE_FACTOR * left_over
    if view is not None and view.confirms(0):
        spread = SILENT_SPREAD if silence_tells else SINGLE_SPREAD
        if view.trace_of_two(0, spread) > limit:
            return ""
        return (
            "The network's gradient depends so little on the record, for the update's rounding or "
            "noise, that one record cannot be told from the mean of several."
        )
    objection = _objection(problem, mismatches)
    if objection:
        return objection
    curvature = _curvature(problem, records, gradients, following)
    size = float(gradients.norm() * records.norm())
    if (silence_tells and fine) or SINGLE_SPREAD**2 / 2 * curvature * size > limit:
        return ""
    return (
        "Nothing tells one record from the mean of several: the layer acts almost linearly on it, "
        "too few neurons are silent, or the update is rounded too coarsely."
    )


def _objection(problem: Problem, mismatches: int) -> str:
    """What speaks against one record before anything is measured."""
    live, total = int(problem.live.sum()), len(problem.live)
    if live < SINGLE_RECORD_ROWS:
        return (
            f"Only {live} neurons carry gradient; with fewer than {SINGLE_RECORD_ROWS} it can be "
            "a mean of several records."
        )
    if live < total and mismatches:
        return f"{total - live} neurons are silent, but not those that this record silences."
    return ""


def _curvature(
    problem: Problem,
    records: Float[Tensor, "1 n"],
    gradients: Float[Tensor, "m 1"],
    following: Float[Tensor, "c m"] | None,
) -> float:
    """How much the activation gradient's direction changes with the record, from 0 to 1."""
    if not bool(problem.live.all()) or problem.layer.several_steps:
        # The later layers changed from step to step, which bends their gradients as slopes do.
        return 0.0
    if following is None:
        # Before a softmax, what is not in its two largest entries moves with the record.
        sizes = gradients[:, 0].abs().sort().values
        return _reach(problem, records) * float(sizes[:-2].sum() / sizes.sum())
    curvature = _nonlinearity(gradients[:, 0], following)
    if curvature <= LINEAR_RESIDUAL:
        return 0.0
    before = times(problem.layer.weight, records[0])
    if problem.layer.bias is not None:
        if problem.layer.bias_gradient is None:
            # Which slopes the record has depends on its scale against the bias, which is unknown.
            return 0.0
        before = before + problem.layer.bias
    # Slopes that the biases decide are those of any record.
    varied = is_distinctive(problem, records, before < 0, torch.ones_like(before, dtype=torch.bool))
    return curvature if varied else 0.0


def two_class_reason(
    problem: Problem,
    records: Float[Tensor, "b n"],
    gradients: Float[Tensor, "m b"],
    *,
    mismatches: int,
    judged: Bool[Tensor, " m"],
    whole: bool,
    tells_multiples: bool,
    following: Float[Tensor, "c m"] | None,
) -> str:
    """The same where two classes make activation gradients proportional; empty when none.

    Args:
        problem: The layer.
        records: Proposed.
        gradients: Their dL/dZ.
        mismatches: Neurons that contradict the activation the record predicts.
        judged: Neurons whose predicted activation is beyond doubt.
        whole: Whether the record's weight in the update is a whole number of records.
        tells_multiples: Whether multiples of it, in its place, would have been seen.
        following: Product of the later layers' weights, if they are a chain.
    """
    if problem.batch_size == 1 and not _silence_tells(problem, records, judged, mismatches):
        bend = 0.0 if following is None else _curvature(problem, records, gradients, following)
        if bend < SMALLEST_BEND:
            return (
                "The network has one logit or two classes, and too few neurons are silent to tell "
                "one record from the mean of several."
            )
    if not whole:
        return (
            "Its weight in the update is no whole number of records: with one logit or two classes "
            "it can be the mean of several similar records, or the loss is another one than given."
        )
    if not tells_multiples:
        return (
            "Multiples of it fire the same neurons and weigh the same: with one logit or two "
            "classes it can be the mean of records that differ in size."
        )
    return ""


def reach_reason(problem: Problem, records: Float[Tensor, "b n"], left_over: float) -> str:
    """Why an output layer's records may be means of classes; empty when they are not."""
    size = float(problem.factors.values[-1])
    # Records that differ by all of their size, so that only vanishing weights are refused.
    if _reach(problem, records) * size > VISIBLE_FACTOR * left_over:
        return ""
    return (
        "The layer's weights are so small that records of one class have the same gradient; what "
        "is found can be their mean."
    )


def _silence_tells(
    problem: Problem, records: Float[Tensor, "1 n"], judged: Bool[Tensor, " m"], mismatches: int
) -> bool:
    """Whether another, independent record would hardly silence the same neurons."""
    if mismatches or problem.setting is not Setting.SPARSE_GRADIENT:
        return False
    return is_distinctive(problem, records, ~problem.live, judged)


def is_distinctive(
    problem: Problem,
    records: Float[Tensor, "1 n"],
    inactive: Bool[Tensor, " m"],
    judged: Bool[Tensor, " m"],
) -> bool:
    """Whether another, independent record would hardly leave the same neurons inactive.

    Two records agree on a neuron that is inactive with probability f in f^2 + (1 - f)^2 of cases.
    Neurons that their bias decides say nothing. Where the record's scale against the bias is
    unknown, it is taken as small as the neurons that went against their bias allow.
    """
    own = times(problem.layer.weight, records[0])
    bias = problem.layer.bias
    if bias is None:
        decided = judged
    else:
        if problem.layer.bias_gradient is None:
            against = judged & (own * bias < 0) & ((own < 0) == inactive)
            own = (
                own * (bias[against] / own[against]).abs().amax()
                if bool(against.any())
                else 0 * own
            )
        decided = judged & (own.abs() >= bias.abs()) & (own != 0)
    count = int(decided.sum())
    if not count:
        return False
    share = int((decided & inactive).sum()) / count
    return count * math.log10(share**2 + (1 - share) ** 2) <= CHANCE_LOG10


def _nonlinearity(gradient: Float[Tensor, " m"], following: Float[Tensor, "c m"]) -> float:
    """Part of an activation gradient that later layers without activations would not give."""
    basis = torch.linalg.svd(following.T, full_matrices=False).U
    return float((gradient - basis @ (basis.T @ gradient)).norm() / gradient.norm())


def _reach(problem: Problem, records: Float[Tensor, "b n"]) -> float:
    """How far records move the layer's output, from 0 to 1 where a softmax saturates."""
    return min(1.0, float(times(problem.layer.weight, records.T).abs().max()))
