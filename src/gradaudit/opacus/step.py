"""One step of DP-SGD as an update: as it was sent, and as it was before the noise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from gradaudit.opacus.mechanism import Mechanism, read_mechanism
from gradaudit.preprocessing import Preprocessing
from gradaudit.update import Update


@dataclass(frozen=True, eq=False)
class PrivateStep:
    """One step of a client that trains with Opacus.

    Attributes:
        number: The step's number from 1, among those that changed the model.
        sent: The update as a server sees it: the clipped and noised gradient, with the noise's
            standard deviation in ``noise``.
        before_noise: The same gradient before the noise was added. Only the client has it: it
            shows what the noise alone protects.
        mechanism: How much noise, and why.
        batch_size: Records that were really drawn, virtual batches added up; 0 for an empty batch.
            None with ghost clipping, which keeps no gradient per record to count.
    """

    number: int
    sent: Update
    before_noise: Update
    mechanism: Mechanism
    batch_size: int | None


def read_step(
    optimizer: Any,
    weights: Mapping[str, Tensor],
    names: Mapping[int, str],
    *,
    number: int,
    batch_size: int | None,
    preprocessing: Preprocessing | None,
) -> PrivateStep:
    """Read a step from within the optimizer's step hook, before the weights change.

    Args:
        optimizer: One that `check_optimizer` accepts; of its parameters ``grad`` and
            ``summed_grad`` are read.
        weights: The model's state dict at this moment.
        names: The parameters' names by their ``id``.
        number: The step's number from 1.
        batch_size: Records drawn, or None.
        preprocessing: How records became network inputs, if publicly known.

    Returns:
        The step; its tensors are copies.

    Raises:
        InputError: A gradient or a weight is not finite.
    """
    mechanism = read_mechanism(optimizer)
    # The optimizer reuses its tensors, and the step changes the weights in place.
    before = {name: tensor.detach().clone() for name, tensor in weights.items()}
    sent, clipped = {}, {}
    for parameter in optimizer.params:
        name = names[id(parameter)]
        sent[name] = parameter.grad.detach().clone()
        clipped[name] = parameter.summed_grad.detach().view_as(parameter) / mechanism.divisor
    return PrivateStep(
        number=number,
        sent=Update(before, sent, noise=mechanism.noise, preprocessing=preprocessing),
        before_noise=Update(before, clipped, preprocessing=preprocessing),
        mechanism=mechanism,
        batch_size=batch_size,
    )
