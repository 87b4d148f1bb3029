"""What is said of a gradient of which the largest entries alone were sent."""

from __future__ import annotations

from dataclasses import replace

from gradaudit.evidence import Status
from gradaudit.linear.cutoff import find_cutoff
from gradaudit.outcome.outcome import Outcome
from gradaudit.update import LinearLayer


def explain_pruned(outcome: Outcome, layer: LinearLayer) -> Outcome:
    """Say of an attack without a proof that the gradient was pruned, if it shows that.

    Pruning adds ranks and zeros that are no record's: the rank is then not the batch size, and a
    larger budget would not help.

    Args:
        outcome: Of the layer.
        layer: As observed.
    """
    if outcome.status.leak_proven or outcome.spectrum is None:
        return outcome
    found = find_cutoff(layer.weight_gradient)
    if found is None:
        return outcome
    rank = outcome.spectrum.numerical_rank
    cause = (
        f"The gradient of layer {layer.name!r} has {found.zeros:.0%} zeros and no other entry "
        f"below {found.least:.2g}, as where a client sends its largest entries alone (pruning): "
        f"its rank, {rank:,}, need not be the batch size, and the zeros that tell records apart "
        "are lost among others."
    )
    if outcome.status is not Status.NOT_APPLICABLE:
        cause = f"{outcome.cause} {cause}"
    return replace(
        outcome,
        cause=cause,
        remedy="Audit the gradient before it was pruned; a larger budget seldom helps. What a "
        "pruned gradient leaks to attacks made for it is not tested.",
        batch_size=None,
    )
