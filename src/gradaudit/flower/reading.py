"""From what a Flower server sent and received to an `Update`."""

from __future__ import annotations

from typing import Literal

from torch import nn

from gradaudit.capture.assemble import assemble
from gradaudit.capture.positional import is_positional, name_by_position
from gradaudit.errors import InputError
from gradaudit.flower.arrays import Arrays, tensors_of
from gradaudit.preprocessing import Preprocessing
from gradaudit.update import GradientStep, Step, Update, strip_wrappers

SENT, RECEIVED = "the arrays sent", "the arrays received"

ReplyContains = Literal["weights_after", "delta", "gradient"]


def read_update(
    sent: Arrays,
    received: Arrays,
    *,
    model: nn.Module | None = None,
    contains: ReplyContains = "weights_after",
    step: Step | None = None,
    noise: float | None = None,
    preprocessing: Preprocessing | None = None,
) -> Update:
    """Make an `Update` of one client's reply; BatchNorm's buffers are left out of the change.

    Both interfaces of Flower are read: the ``ArrayRecord`` of a message, and the older
    ``FitIns``, ``FitRes``, ``Parameters`` and lists of ndarrays, which have no names.

    Args:
        sent: The global model that the client was given.
        received: What it returned.
        model: The network, for the names where Flower has none; they are given by position.
        contains: What is in ``received``: ``"weights_after"`` (Flower's usual), ``"delta"`` (after
            minus before) or ``"gradient"``.
        step: How the update came about; None: one gradient step of one batch.
        noise: Standard deviation of Gaussian noise in each entry, if known.
        preprocessing: How records became network inputs.

    Raises:
        InputError: The two are not of one model, or their names cannot be settled.

    Example:
        >>> import numpy as np
        >>> model = nn.Linear(3, 2)
        >>> before = [tensor.detach().numpy() for tensor in model.state_dict().values()]
        >>> after = [array + np.float32(0.5) for array in before]
        >>> read_update(before, after, model=model).delta["bias"]
        tensor([0.5000, 0.5000])
    """
    before = tensors_of(SENT, sent)
    after = tensors_of(RECEIVED, received)
    if is_positional(before):
        if model is None:
            raise InputError(
                SENT,
                f"{len(before)} arrays without names",
                "parameter names",
                "pass model=, or build the ArrayRecord from model.state_dict()",
            )
        before = name_by_position(SENT, before, model.state_dict(), weights_keep_order=True)
    if is_positional(after):
        after = name_by_position(RECEIVED, after, before, weights_keep_order=True)
    return assemble(
        strip_wrappers(SENT, before),
        strip_wrappers(RECEIVED, after),
        contains,
        where=RECEIVED,
        trusted=False,
        step=step or GradientStep(),
        noise=noise,
        preprocessing=preprocessing,
        source={},
    )
