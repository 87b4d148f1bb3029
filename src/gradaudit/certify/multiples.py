"""Whether multiples of a record, in its place, would show: they often fire the same neurons."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from gradaudit.certify.network import Network
from gradaudit.certify.single import VISIBLE_FACTOR

# Multiples of one record by a factor of so much less and more must be told from their mean.
MULTIPLES_SPREAD = 0.1


def multiples_show(
    network: Network,
    record: Float[Tensor, " n"],
    label: Int[Tensor, ""],
    *,
    tolerance: float,
    weighed: bool,
) -> bool:
    r"""Whether two multiples of a record instead of it would be seen.

    Records (1 - d) x and (1 + d) x leave the mean of :math:`a\,g(a x)\,x^T`, of rank one, and the
    mean of g(a x) in the bias gradient. Without biases, or where they are small, both fire the same
    neurons, and behind one logit or two classes their gradients have one direction: then only the
    weight of their mean tells, and with small weights of the network not even that.

    Args:
        network: Prepared for this record.
        record: x.
        label: Its class.
        tolerance: Relative difference of activation gradients that would not be seen.
        weighed: Whether the record's weight in the update is known, and a difference of it as well.

    Source:
        Ours.
    """
    factors = torch.tensor([1 - MULTIPLES_SPREAD, 1 + MULTIPLES_SPREAD]).to(record)
    both = network.activation_gradients(factors[:, None] * record, label.expand(2))
    column, bias = (factors[:, None] * both).mean(0), both.mean(0)
    size = bias.norm()
    if not bool(size > 0):
        return False
    # The scale that the bias gradient gives their mean, and what the network says of that.
    scale = (column @ bias) / size.square()
    own = network.activation_gradients((scale * record)[None], label[None])[0]
    weight = (bias @ own) / own.square().sum().clamp(min=torch.finfo(own.dtype).tiny)
    seen = [(column / scale - bias).norm() / size, (bias - weight * own).norm() / size]
    if weighed:
        seen.append((weight - 1).abs())
    return bool(torch.stack(seen).max() > VISIBLE_FACTOR * tolerance)
