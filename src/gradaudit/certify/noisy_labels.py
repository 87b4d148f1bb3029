"""Classes of records from a noisy gradient, where none fits exactly."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from gradaudit.certify.labels import Labelling, best_labels, fit_classes
from gradaudit.certify.network import Network, NetworkMismatchError
from gradaudit.certify.shares import share_out
from gradaudit.linear.problem import Problem

# Residual of the best class over that of the next, for a label to be told.
LABEL_MARGIN = 0.9


def likeliest_classes(
    problem: Problem,
    records: Float[Tensor, "b n"],
    network: Network,
    *,
    image_shape: tuple[int, ...] | None,
    sign: float,
) -> Labelling | None:
    """The class that fits each record's share of a noisy gradient best, clearly or not.

    Args:
        problem: The layer.
        records: Proposed inputs.
        network: The client's.
        image_shape: Of the network's inputs, if known.
        sign: Of the update against the gradient.

    Returns:
        None where the records or the network do not allow it.
    """
    solved = share_out(problem, records, float(problem.sparse_noise.mean()))
    return solved and fit_noisy_classes(network, records, solved[0], image_shape, sign)[0]


def fit_noisy_classes(
    network: Network | None,
    records: Float[Tensor, "b n"],
    gradients: Float[Tensor, "m b"],
    image_shape: tuple[int, ...] | None,
    sign: float,
) -> tuple[Labelling | None, tuple[str, ...]]:
    """Each record's best class, or why there is none."""
    if network is None:
        return None, ()
    try:
        network.prepare(records, image_shape)
        # No class fits exactly: all of them are to be worked out, and compared.
        all_of_them = torch.zeros_like(records[:, 0])
        fits = fit_classes(network.forward(records), gradients, sign=sign, tolerances=all_of_them)
    except NetworkMismatchError as mismatch:
        return None, (f"Labels were not determined: {mismatch}",)
    return best_labels(fits, sign), ()


def clear_classes(best: Labelling) -> list[int | None]:
    """Each record's class, where one fits its activation gradient clearly better than others."""
    told = best.residuals < LABEL_MARGIN * best.rivals
    return [
        int(label) if bool(clear) else None for label, clear in zip(best.labels, told, strict=True)
    ]
