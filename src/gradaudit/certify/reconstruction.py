r"""The verdict on reconstructed network inputs, by the gradient of the whole network.

Three things make a reconstruction a record of the batch, however it was found. Its gradient,
recomputed, is the observed one in every tensor, down to rounding or noise. Nothing near it has that
gradient too: the derivative of the gradient has full rank, or every layer's equations do. And
several records could not have left that gradient together: their mean would show.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from gradaudit.certify.scale_twins import ScaleTwin, rests_on_loss, scale_twin, tells_the_factor
from gradaudit.certify.sensitivity import (
    FEW_ITERATIONS,
    ITERATIONS,
    Sensitivity,
    sensitivity,
)
from gradaudit.certify.single import SINGLE_SPREAD, VISIBLE_FACTOR
from gradaudit.evidence import Certificate, Check, RecordEvidence
from gradaudit.linear.tolerances import (
    GRADIENT_RELATIVE_LIMIT,
    GRADIENT_ROUNDINGS,
    RECORD_RELATIVE_ERROR,
    RESIDUAL_FACTOR,
    SINGLE_RECORD_ROWS,
)
from gradaudit.models.loaded import LoadedModel
from gradaudit.models.losses import Loss
from gradaudit.rgap.gradient_map import GradientMap
from gradaudit.rgap.observed import GRADIENT_ROUNDINGS as COMPUTED_ROUNDINGS
from gradaudit.rgap.observed import observe
from gradaudit.solvers.derivative import DENSE_UNKNOWNS
from gradaudit.update import Update

# Random directions in which a second record is tried; the one that shows least counts.
DIRECTIONS = 3
# How the names of checks begin that compare a tensor.
_TENSOR = "gradient:"
# Stands for a tolerance of zero where one is divided by.
LEAST = 1e-300


@dataclass(frozen=True, eq=False)
class ReconstructionVerdict:
    """What the network says about reconstructed inputs.

    Attributes:
        evidence: By record.
        certificate: Of the whole.
        sensitivity: Error and uniqueness; None where the gradient does not match.
        residual: Relative norm of the difference of the two gradients.
        twin: The multiple of the record that has the same gradient, if there is one.
        reason: Why nothing is certified; empty if it is.
        size_by_loss: Whether the records' size follows from the loss alone: under another loss,
            multiples of them have the observed gradient.
        factor: What their gradient was multiplied by, if that was left open; else 1.
    """

    evidence: tuple[RecordEvidence, ...]
    certificate: Certificate
    sensitivity: Sensitivity | None
    residual: float
    twin: ScaleTwin | None
    reason: str
    size_by_loss: bool = False
    factor: float = 1.0

    @property
    def recovered(self) -> bool:
        """Whether all records are certified."""
        return not self.reason


def judge_reconstruction(
    loaded: LoadedModel,
    update: Update,
    loss: Loss,
    inputs: Float[Tensor, "b ..."],
    labels: Shaped[Tensor, "b ..."],
    *,
    generator: torch.Generator,
    determined: bool | None = None,
    spread: float = 0.0,
    rescaled: bool = False,
    stop: Callable[[], bool] = lambda: False,
    dense_unknowns: int = DENSE_UNKNOWNS,
) -> ReconstructionVerdict:
    """Judge reconstructed inputs of a network by its observed gradient alone.

    Args:
        loaded: The network with the update's weights, in float64.
        update: What was observed: the gradient of the mean loss, or a difference of weights.
        loss: The client's.
        inputs: One record each, in the network's input shape, float64.
        labels: As the loss takes them.
        generator: Of the noise and the directions that are tried.
        determined: Whether an analysis of the layers' equations showed that they leave no
            direction open; None where there is none, and the gradient's derivative must show it.
        spread: Root mean square by which an entry moves when the attack is run again on a gradient
            with fresh noise; the error is taken for no smaller.
        rescaled: Whether what was observed may be any positive multiple, as after clipping. Then,
            and where a learning rate is not known, three classes or more are needed under
            cross-entropy: with fewer, all records have multiples of one gradient at the outputs,
            and the factor makes up for a mean of several; under other losses, for another label.
        stop: Asked during iterations; true ends them with what there is.
        dense_unknowns: Unknowns up to which the derivative is formed, which can show by itself
            that no direction is open.

    Returns:
        The verdict. Records are certified together or not at all.

    Source:
        For the bound on the error, R-GAP (arXiv 2010.07733), section 3; what it needs is ours.
    """
    seen = observe([update], [loaded], rescaled=rescaled)
    judge = GradientMap(loaded, loss, labels, seen)
    with torch.inference_mode(False):
        inputs, labels = inputs.clone(), labels.clone()
        checks, residual = _compare(judge, inputs)
        if not seen.scale_known and not tells_the_factor(judge.predict, loss, inputs):
            return _refused(inputs, checks, residual, _FACTOR_IS_OPEN)
        unexplained = [check.name for check in checks if not check.passed]
        if unexplained:
            # A tensor that was observed to be zero has no tolerance.
            worst = max(checks, key=lambda check: check.value / max(check.tolerance, LEAST))
            reason = (
                f"Its gradient is not the observed one: {len(unexplained)} of {len(checks)} "
                f"tensors differ, {worst.name.removeprefix('gradient:')!r} by {worst.value:.1g} "
                f"of its size."
            )
            return _refused(inputs, checks, residual, reason)
        found = sensitivity(
            judge.whitened,
            inputs,
            judge.mismatch(inputs),
            generator=generator,
            stop=stop,
            dense_unknowns=dense_unknowns,
            iterations=FEW_ITERATIONS if spread else ITERATIONS,
        )
        twin = scale_twin(judge.predict, loss, inputs, labels)
        # What the layers' equations show is exact where the derivative was only multiplied with.
        found = replace(
            found,
            determined=determined if found.determined is None else found.determined,
            error=max(found.error, spread),
        )
        checks += _more(judge, inputs, found, generator)
        factor = judge.factor(inputs)
    reason = _reason(checks, found, inputs)
    if reason:
        return replace(_refused(inputs, checks, residual, reason), sensitivity=found, twin=twin)
    evidence = tuple(
        RecordEvidence(
            recovered=True,
            activation_gradient_residual=residual,
            estimated_error=found.error,
            label=int(label) if label.ndim == 0 and not label.is_floating_point() else None,
            # A mean gradient is the same of a record and of any number of copies of it.
            copies=None,
        )
        for label in labels
    )
    return ReconstructionVerdict(
        evidence,
        Certificate("full_gradient", _STATEMENT, checks),
        found,
        residual,
        twin,
        "",
        rests_on_loss(judge.predict, inputs),
        factor,
    )


_FACTOR_IS_OPEN = (
    "It has a multiple of the observed gradient, and so may the mean of several records have, "
    "under this loss and with so few outputs."
)


_STATEMENT = (
    "The full gradient of all layers, recomputed from the reconstruction, is the observed one in "
    "every tensor down to rounding or noise; no other input near it has that gradient."
)


def _compare(of: GradientMap, inputs: Tensor) -> tuple[tuple[Check, ...], float]:
    """By tensor, and as a whole: the difference relative to the observed size."""
    found = of.gradient(inputs)
    # The noise is as for one rounding of a sum; through several layers there are many.
    margin = max(RESIDUAL_FACTOR, GRADIENT_ROUNDINGS / COMPUTED_ROUNDINGS)
    checks, squares, total = [], 0.0, 0.0
    for name, theirs in of.observed.items():
        difference, size = float((found[name] - theirs).norm()), float(theirs.norm())
        squares, total = squares + difference**2, total + size**2
        allowed = min(margin * float(of.noise(name).norm()), GRADIENT_RELATIVE_LIMIT * size)
        value = difference / size if size else float(difference > 0)
        tolerance = allowed / size if size else 0.0
        checks.append(
            Check(
                f"{_TENSOR}{name}",
                value,
                tolerance,
                value <= tolerance,
                f"The gradient of {name!r}, recomputed from the reconstruction, is the observed "
                "one.",
            )
        )
    return tuple(checks), (squares / total) ** 0.5 if total else float("inf")


def _trace_of_two(of: GradientMap, inputs: Tensor, direction: Tensor) -> float:
    """What records at both sides, instead of one, would leave, over what is left or noise.

    In the tensor that tells them apart best.
    """
    first, second = of.gradient(inputs + direction), of.gradient(inputs - direction)
    ratios = []
    for name, middle in of.gradient(inputs).items():
        left = (middle - of.observed[name]).norm()
        trace = ((first[name] + second[name]) / 2 - middle).norm()
        ratios.append(float(trace / torch.maximum(left, of.noise(name).norm())))
    return max(ratios)


def _more(
    judge: GradientMap, inputs: Tensor, found: Sensitivity, generator: torch.Generator
) -> tuple[Check, ...]:
    """Whether the match says something: equations enough, no second record, a small error."""
    size = float(inputs.square().mean().sqrt())
    traces = []
    for _ in range(DIRECTIONS):
        drawn = torch.randn(
            inputs.shape, generator=generator, dtype=inputs.dtype, device=generator.device
        ).to(inputs.device)
        traces.append(_trace_of_two(judge, inputs, SINGLE_SPREAD * size * drawn))
    surplus = judge.equations - inputs.numel()
    error = found.error / size if size else float("inf")
    return (
        Check(
            "equations_beyond_the_unknowns",
            float(surplus),
            float(SINGLE_RECORD_ROWS),
            surplus >= SINGLE_RECORD_ROWS,
            "The observed gradient has more entries than the reconstruction, so that one cannot "
            "be made up to match the other.",
        ),
        Check(
            "trace_of_a_second_record",
            min(traces),
            VISIBLE_FACTOR,
            min(traces) > VISIBLE_FACTOR,
            f"Two records that lie {SINGLE_SPREAD:.0%} apart would leave another gradient than "
            "the one between them.",
        ),
        Check(
            "relative_error",
            error,
            RECORD_RELATIVE_ERROR,
            error <= RECORD_RELATIVE_ERROR,
            "What the gradient's rounding and what is left unexplained can change in the "
            "reconstruction is small.",
        ),
    )


def _reason(checks: tuple[Check, ...], found: Sensitivity, inputs: Tensor) -> str:
    """Why a match proves nothing; empty if it does."""
    failed = {check.name: check for check in checks if not check.passed}
    if "equations_beyond_the_unknowns" in failed:
        return "The gradient has hardly more entries than the reconstruction: a match is no proof."
    if not found.determined:
        return (
            "Other inputs near it have the same gradient."
            if found.determined is False
            else "It was not found out whether other inputs near it have the same gradient."
        )
    if "trace_of_a_second_record" in failed:
        return (
            "The network's gradient bends so little with the input, for the update's rounding or "
            "noise, that one record cannot be told from the mean of several."
        )
    if "relative_error" in failed:
        return f"Its predicted error is {failed['relative_error'].value:.0%} of its size."
    return ""


def _refused(
    inputs: Tensor, checks: tuple[Check, ...], residual: float, reason: str
) -> ReconstructionVerdict:
    blank = RecordEvidence(False, activation_gradient_residual=residual, reason=reason)
    return ReconstructionVerdict(
        (blank,) * len(inputs), Certificate(checks=checks), None, residual, None, reason
    )
