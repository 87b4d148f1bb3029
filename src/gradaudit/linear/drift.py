"""What local training leaves certain of a neuron's activity, from the weights at both ends."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

# A neuron is on one side of its boundary in every step if its pre-activation halfway is so many
# times as large as half of what training changed it by: with 1 both ends agree, and more allows for
# steps whose weights are not between them. On CIFAR-10 (m = 200 and 1000, rates to 0.1, momentum to
# 0.9) 1 would settle up to 11 pairs of 4,000 wrongly, 2 one, and 3 none, until training changes
# pre-activations by half of their size.
SETTLED_DRIFTS = 3.0


# With this both ends agree. Below one neuron in a hundred is wrong so, at a drift of a quarter.
AGREED_DRIFTS = 1.0


def settled(
    middle: Float[Tensor, "*r m"],
    drift: Float[Tensor, "*r m"] | None,
    *,
    drifts: float = SETTLED_DRIFTS,
) -> Bool[Tensor, "*r m"]:
    r"""Which neurons a record kept on one side of their boundary, whatever step it took part in.

    Training moves the pre-activation from :math:`z - d` to :math:`z + d`, by no straight way, and
    its neurons' entries of dL/dZ, summed over steps, vanish where z was negative in all of the
    record's steps. Settled are neurons with :math:`|z| > 3 \max(|d|, \bar d)`, with
    :math:`\bar d` the root mean square of d over neurons: one that came back to where it started
    had time to be elsewhere.

    Args:
        middle: z, halfway between the ends; in any units, which may differ by record.
        drift: d, in the same units; None for a single gradient, which leaves no doubt.
        drifts: In place of the 3.

    Source:
        Ours.

    Example:
        >>> settled(torch.tensor([1.0, -9.0]), torch.tensor([0.1, -2.0])).tolist()
        [False, True]
    """
    if drift is None:
        return torch.ones_like(middle, dtype=torch.bool)
    size = drift.abs().maximum(drift.square().mean(-1, keepdim=True).sqrt())
    return middle.abs() > drifts * size
