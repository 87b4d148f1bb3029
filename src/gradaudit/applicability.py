"""Whether an attack can work on an update and its layers at all, decided before any search."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from gradaudit.linear.blocks import row_blocks
from gradaudit.linear.factor import Factors
from gradaudit.linear.problem import Setting
from gradaudit.linear.proposers import PROPOSERS
from gradaudit.linear.tolerances import SURPLUS_ZEROS
from gradaudit.theory import expected_submatrices
from gradaudit.update import GradientStep, LinearLayer, Update, is_buffer

LAYER_ATTACKS = (
    "auto",
    "halfspace",
    "peeling",
    "spear",
    "spear++",
    "closed_form",
    "cocktail-party",
)
# On all layers together; they need the model.
NETWORK_ATTACKS = ("rgap", "dlg", "idlg", "inverting-gradients")
ATTACKS = (*LAYER_ATTACKS, *NETWORK_ATTACKS)
# Those that look below noise, where noise is all that is in the way.
NOISE_ATTACKS = ("auto", "halfspace")
# The proposers that work together unless one is asked for.
TOGETHER = ("peeling", "halfspace", "spear", "spear++")
# Sampling is left out where more submatrices than this are expected: hours of it.
MOST_SUBMATRICES = 1e8

# A true direction vanishes on about half of the rows, seldom on more than this part of them.
LARGEST_ZERO_SHARE = 0.75
# So many rows of one magnitude, to within this part of it, are signs.
SIGN_ROWS, SIGN_SPREAD = 3, 1e-3
# Every row of a gradient has values of its own. So few in all, and fewer than rows, are what
# rounding to four bits leaves; a batch of such rows has a rank and zeros that mean nothing.
FEW_LEVELS = 16
# Entries each way of the corner that is looked at first.
CORNER = 64


@dataclass(frozen=True)
class Refusal:
    """Why an attack does not apply, and what would change that."""

    cause: str
    remedy: str


def update_refusal(update: Update, attack: str) -> Refusal | None:
    """Why the way in which an update came about rules the attack out, or None.

    Args:
        update: As observed.
        attack: As asked for.

    Example:
        >>> from torch import ones
        >>> from gradaudit.update import LocalTraining
        >>> named = {"fc.weight": ones(3, 2)}
        >>> update = Update(named, delta=named, step=LocalTraining(optimizer="adam"))
        >>> update_refusal(update, "auto").cause[:37]
        "The client trained with 'adam': other"
    """
    step = update.step
    if isinstance(step, GradientStep):
        return None
    if not step.is_linear:
        return Refusal(
            f"The client trained with {step.optimizer!r}: other than SGD's, such steps rescale "
            "each entry of the gradient by itself, and the difference of weights is no "
            "combination of the records' gradients.",
            "Capture the gradients that the optimiser was given, or have clients train with SGD; "
            "what such a difference leaks by itself is not tested.",
        )
    steps = step.steps()
    if step.weight_decay and (steps is None or step.learning_rate is None):
        unknown = "learning rate" if step.learning_rate is None else "number of records"
        return Refusal(
            "Weight decay adds a multiple of the weights themselves to the difference, and how "
            f"large a one is not known without the client's {unknown}.",
            f"Give the {unknown}.",
        )
    if attack in NETWORK_ATTACKS and steps != 1:
        many = "an unknown number of" if steps is None else f"{steps:,}"
        return Refusal(
            f"The update sums the gradients of {many} local steps, each at other weights; the "
            f"attack {attack!r} recomputes a single one.",
            "Use an attack on a single layer, or capture the update of one step.",
        )
    return None


def inputs_refusal(update: Update, layer: LinearLayer, before: Sequence[str]) -> Refusal | None:
    """Why several steps of training leave nothing to recover in a layer behind others, or None.

    Args:
        update: As observed.
        layer: One of its layers.
        before: Names of the layers that come before it.

    Example:
        >>> from torch import ones
        >>> from gradaudit.update import LocalTraining
        >>> named = {"a.weight": ones(3, 2), "b.weight": ones(2, 3)}
        >>> update = Update(named, delta=named, step=LocalTraining(epochs=2))
        >>> first, second = update.linear_layers()
        >>> inputs_refusal(update, second, ["a"]).cause[:52]
        "Layer 'b' had other inputs in every step, since 'a' "
    """
    if not update.several_steps:
        return None
    for name, change in update.observed.items():
        trained = name.rpartition(".")[0]
        if trained in before and not is_buffer(name) and bool((change != 0).any()):
            return Refusal(
                f"Layer {layer.name!r} had other inputs in every step, since {trained!r} before it "
                "was trained as well: its change holds no record's features more than once.",
                "Audit the first layer that was trained, or an update of a single step.",
            )
    return None


def refusal(layer: LinearLayer, factors: Factors, attack: str) -> Refusal | None:
    """Why no attack applies to this layer, or None.

    Args:
        layer: As observed.
        factors: Of its weight gradient.
        attack: As asked for.
    """
    spectrum = factors.spectrum
    if factors.rank == 0 and bool(layer.weight_gradient.count_nonzero()):
        largest = float(torch.linalg.vector_norm(layer.weight_gradient, torch.inf))
        return Refusal(
            f"The gradient of layer {layer.name!r} has entries of up to {largest:.1g}, whose "
            "squares leave the range of float64.",
            "Multiply the whole update by a constant; records do not depend on it.",
        )
    rounded = _rounded_refusal(layer, factors.rank)
    if rounded is not None:
        return rounded
    if factors.rank == 0:
        return Refusal(
            f"The gradient of layer {layer.name!r} is zero in every entry.",
            "Check that the update belongs to these weights and that the layer is trained.",
        )
    if not spectrum.has_gap:
        if spectrum.numerical_rank >= spectrum.largest_possible_rank:
            return Refusal(
                f"The gradient of layer {layer.name!r} has the largest rank it can have, "
                f"{spectrum.largest_possible_rank:,}: the batch is at least that large, or the "
                "update carries noise.",
                "Records cannot be told apart in this layer; audit a wider one, or an update "
                "without noise.",
            )
        return Refusal(
            f"The singular values of layer {layer.name!r} show no gap: {spectrum.explanation}",
            "The update carries noise of about the signal's size; exact inversion needs a gap.",
        )
    return _unfit(layer, factors, attack)


def _unfit(layer: LinearLayer, factors: Factors, attack: str) -> Refusal | None:
    """Why the attack asked for does not apply where others may."""
    if attack == "peeling" and layer.bias is not None and layer.bias_gradient is None:
        return Refusal(
            f"Layer {layer.name!r} has a bias whose gradient was not observed, so that a record's "
            "scale against it is unknown, and with it which neurons the record fires.",
            "Capture the bias's gradient too, or use the attack 'auto'.",
        )
    if attack == "closed_form" and factors.rank > 1:
        return Refusal(
            f"Layer {layer.name!r} shows {factors.rank:,} records; the closed form takes one.",
            "Use the attack 'auto'.",
        )
    return None


def proposers_for(attack: str, setting: Setting, batch_size: int) -> tuple[str, ...]:
    """The proposers that an attack sets to work on a setting, the quickest first.

    Args:
        attack: One of `ATTACKS`.
        setting: Which factor is sparse.
        batch_size: Distinct records; sampling is for small batches.

    Example:
        >>> proposers_for("auto", Setting.SPARSE_GRADIENT, 16)
        ('peeling', 'halfspace', 'spear', 'spear++')
        >>> proposers_for("auto", Setting.SPARSE_GRADIENT, 100)
        ('peeling', 'halfspace', 'spear++')
    """
    if attack not in ("auto", "closed_form"):
        names: tuple[str, ...] = (attack,)
    elif batch_size > 1 and expected_submatrices(batch_size) > MOST_SUBMATRICES:
        names = tuple(name for name in TOGETHER if name != "spear")
    else:
        names = TOGETHER
    return tuple(name for name in names if setting in PROPOSERS[name].settings)


def attempts_for(
    role: str, output: bool, factors: Factors, *, live: tuple[int, int], attack: str = "auto"
) -> tuple[Setting, ...] | Refusal:
    """The sparsity settings worth trying on a layer, in order, or why there is none.

    A ReLU follows every layer but the last one and precedes every layer but the first one, unless
    the network says otherwise; the certificate tests the assumption. A single layer that is first
    and last can still have sparse, non-negative inputs (images with black pixels, one-hot columns).

    Args:
        role: ``"input"``, ``"interior"`` or ``"output"``.
        output: Whether the loss follows the layer directly.
        factors: Of the layer's gradient.
        live: Neurons and inputs with any gradient.
        attack: As asked for.
    """
    return attempts_at(role, output, factors.rank, live=live, attack=attack)


def attempts_at(
    role: str, output: bool, rank: int, *, live: tuple[int, int], attack: str = "auto"
) -> tuple[Setting, ...] | Refusal:
    """As `attempts_for`, from the sizes alone.

    Args:
        role: As `attempts_for` takes it.
        output: As `attempts_for` takes it.
        rank: Of the layer's gradient: its distinct records.
        live: As `attempts_for` takes it.
        attack: As asked for.

    Example:
        >>> attempts_at("input", False, 10, live=(200, 30))[0].name
        'SPARSE_GRADIENT'
    """
    if rank == 1:
        return (Setting.SPARSE_GRADIENT,)
    settings: tuple[Setting, ...] = (Setting.SPARSE_GRADIENT, Setting.SPARSE_INPUT)
    if output:
        settings = (Setting.SPARSE_INPUT,)
    elif role == "input":
        settings = (Setting.SPARSE_GRADIENT,)
    needed = rank + SURPLUS_ZEROS
    rows = {Setting.SPARSE_GRADIENT: live[0], Setting.SPARSE_INPUT: live[1]}
    searchable = tuple(s for s in settings if proposers_for(attack, s, rank))
    if not searchable:
        return Refusal(
            f"The attack {attack!r} does not search a layer with {settings[0].value}.",
            "Use the attack 'auto' or 'spear'.",
        )
    possible = tuple(s for s in searchable if needed <= LARGEST_ZERO_SHARE * rows[s])
    if possible:
        return possible
    return Refusal(
        f"{rank:,} records need more than {needed:,} zeros in a direction, which "
        f"{rows[settings[0]]:,} live rows cannot give.",
        "The layer is too narrow for this batch size; audit a wider layer.",
    )


def _rounded_refusal(layer: LinearLayer, rank: int) -> Refusal | None:
    """Why a gradient of which signs or a few levels are left is not attacked."""
    if _holds_signs(layer):
        return Refusal(
            f"All entries of the gradient of layer {layer.name!r} that are not zero have one "
            "magnitude: the update holds signs (of signSGD, or of Adam's first step), not a "
            "gradient.",
            "Audit the gradient that the signs were taken of. What signs alone leak is not tested.",
        )
    if rank > 1 and _is_coarse(layer):
        return Refusal(
            f"The entries of the gradient of layer {layer.name!r} have {FEW_LEVELS} values or "
            "fewer, as after rounding to a few bits, which makes zeros and a rank of its own.",
            "Audit the gradient before it was rounded. What so few levels leak is not tested.",
        )
    return None


def _holds_signs(layer: LinearLayer) -> bool:
    """Whether the gradient was reduced to its signs.

    Two rows may have one magnitude by themselves, before two classes and where inputs are 0 or 1.
    """
    rows, smallest, largest = 0, math.inf, 0.0
    for _, block in row_blocks(layer.weight_gradient):
        size = block.abs()
        rows += int((size > 0).any(1).sum())
        if not bool(size.any()):
            continue
        largest = max(largest, float(size.amax()))
        smallest = min(smallest, float(size[size > 0].amin()))
        if smallest < (1 - SIGN_SPREAD) * largest:
            return False
    return rows >= SIGN_ROWS


def _is_coarse(layer: LinearLayer) -> bool:
    """Whether the gradient was rounded to a few levels."""
    change = layer.weight_gradient
    # Sorting a large layer takes seconds; a few entries show that it is not needed.
    levels, rows = torch.unique(change[:CORNER, :CORNER]).double(), 0
    for _, block in row_blocks(change):
        if len(levels) > FEW_LEVELS + 1:
            return False
        levels = torch.unique(torch.cat([levels, torch.unique(block)]))
        rows += int((block != 0).any(1).sum())
    return int((levels != 0).sum()) <= min(FEW_LEVELS, rows - 1)
