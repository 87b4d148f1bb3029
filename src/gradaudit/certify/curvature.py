"""How much the network's answer turns when a record changes: what a match with it excludes."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from gradaudit.certify.network import Network
from gradaudit.linear.tolerances import FLOAT64_EPS, ZERO_ROUNDINGS

# Pairs of records around a proposed one that the network is asked about.
PROBES = 6
# Small enough to change no neuron's activation, for a derivative.
SMALL_SPREAD = 1e-4


def curvature(network: Network, record: Float[Tensor, " n"], label: Int[Tensor, ""]) -> float:
    r"""Change of the activation gradient's direction for a change of the record, both relative.

    The smallest of some random changes d, from :math:`g(x \pm d)` as if no neuron changed its
    activation; 0 where it is no more than rounding.

    Args:
        network: Prepared for this record.
        record: x.
        label: Its class.
    """
    generator = torch.Generator().manual_seed(0)
    steps = torch.randn(PROBES, len(record), generator=generator, dtype=torch.float64)
    steps = steps.to(record)
    steps = steps / steps.norm(dim=1, keepdim=True) * (SMALL_SPREAD * record.norm())
    around = torch.cat([record + steps, record - steps])
    ahead, behind = network.activation_gradients(around, label.expand(len(around))).chunk(2)
    middle, change = (ahead + behind) / 2, (ahead - behind) / 2
    square = middle.square().sum(1, keepdim=True).clamp(min=torch.finfo(middle.dtype).tiny)
    turned = change - middle * ((change * middle).sum(1, keepdim=True) / square)
    relative = float((turned.norm(dim=1) / square[:, 0].sqrt()).min())
    return 0.0 if relative <= ZERO_ROUNDINGS * FLOAT64_EPS else relative / SMALL_SPREAD
