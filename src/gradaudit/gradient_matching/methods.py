"""The published attacks as settings of one search."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gradaudit.errors import InputError
from gradaudit.gradient_matching.objective import cosine_distance, squared_distance

DISTANCES: dict[str, Callable[[Mapping[str, Any], Mapping[str, Any]], Tensor]] = {
    "squared": squared_distance,
    "cosine": cosine_distance,
}


@dataclass(frozen=True)
class Method:
    """One way to match gradients; make another with `dataclasses.replace`.

    Attributes:
        name: As an audit calls it.
        distance: ``"squared"`` or ``"cosine"``.
        optimiser: ``"lbfgs"`` or ``"signed_adam"``.
        iterations: Steps of each restart.
        restarts: Random starts; the candidate with the least distance is kept.
        learning_rate: The optimiser's.
        total_variation: Weight of `total_variation`, where inputs are images.
        boxed: Whether candidates are kept where pixels can be, if the preprocessing tells.
        soft_labels: Whether labels that are not given are searched for together with the records;
            they are inferred otherwise.
        largest_batch: Records at most, or None.
        dtype: In which the search computes; what it finds is judged in float64.

    Raises:
        InputError: A setting is impossible.

    Example:
        >>> from dataclasses import replace
        >>> replace(INVERTING_GRADIENTS, restarts=8).restarts
        8
    """

    name: str
    distance: str
    optimiser: str
    iterations: int
    restarts: int
    learning_rate: float
    total_variation: float = 0.0
    boxed: bool = False
    soft_labels: bool = False
    largest_batch: int | None = None
    dtype: torch.dtype = torch.float64

    def __post_init__(self) -> None:
        if self.distance not in DISTANCES:
            raise InputError("distance", repr(self.distance), "one of " + ", ".join(DISTANCES))
        if self.optimiser not in ("lbfgs", "signed_adam"):
            raise InputError("optimiser", repr(self.optimiser), "'lbfgs' or 'signed_adam'")
        for name in ("iterations", "restarts", "learning_rate"):
            if not getattr(self, name) > 0:
                raise InputError(name, repr(getattr(self, name)), "a positive number")
        if not self.total_variation >= 0:
            raise InputError("total_variation", repr(self.total_variation), "0 or more")

    @property
    def needs_scale(self) -> bool:
        """Whether the gradient's size matters."""
        return self.distance == "squared"


# Deep Leakage from Gradients (arXiv 1906.08935), section 4: L-BFGS with learning rate 1, history
# 100, up to 20 inner steps in each of 300 rounds. The line search, restarts and float64 are ours:
# without the first the search often diverges, and a proof needs a small residual.
DLG = Method("dlg", "squared", "lbfgs", 6000, 4, 1.0, soft_labels=True)

# iDLG (arXiv 2001.02610), section 3: the same search with the label read off the last layer.
IDLG = Method("idlg", "squared", "lbfgs", 6000, 4, 1.0, largest_batch=1)

# Inverting Gradients (arXiv 2003.14053), section 5 and appendix: Adam on signed gradients, rate
# 0.1, divided by ten after 3/8, 5/8 and 7/8 of 4,800 iterations; the box is the range of pixels.
# Its weights of the total variation go from 1e-6 to 1e-1 with the network and the batch; 1e-2 and
# one restart are ours.
INVERTING_GRADIENTS = Method(
    "inverting-gradients",
    "cosine",
    "signed_adam",
    4800,
    1,
    0.1,
    total_variation=1e-2,
    boxed=True,
    dtype=torch.float32,
)

METHODS = {method.name: method for method in (DLG, IDLG, INVERTING_GRADIENTS)}
