"""How much the network's answer turns when a record changes: what a match with it excludes."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from gradaudit.certify.network import Network
from gradaudit.linear.tolerances import FLOAT64_EPS, ZERO_ROUNDINGS

# Changes of a proposed record that the network is asked about.
PROBES = 6
# Steps, relative to the record, from which a derivative is taken where there is no other way. A
# neuron that changes sides between them counts for ten times as much over the shorter one.
LONG_STEP, SHORT_STEP = 1e-4, 1e-5
# Slopes over the two steps that differ by this part are none.
SLOPE_SPREAD = 0.1


def curvature(network: Network, record: Float[Tensor, " n"], label: Int[Tensor, ""]) -> float:
    r"""Change of the activation gradient's direction for a change of the record, both relative.

    The smallest of some random changes, by the derivative at the record, as if no neuron changed
    sides: one close to its boundary would count as a slope without bounds, and the network as one
    that excludes everything. 0 where it is no more than rounding.

    Args:
        network: Prepared for this record.
        record: x.
        label: Its class.
    """
    generator = torch.Generator().manual_seed(0)
    steps = torch.randn(PROBES, len(record), generator=generator, dtype=torch.float64)
    steps = steps.to(record)
    steps = steps / steps.norm(dim=1, keepdim=True) * record.norm()
    try:
        turned = _turn(*network.gradient_changes(record, label, steps))
    except RuntimeError:
        # Not everything can be differentiated twice (fused attention cannot).
        turned = _by_differences(network, record, label, steps)
    relative = float(turned.min())
    return 0.0 if relative * LONG_STEP <= ZERO_ROUNDINGS * FLOAT64_EPS else relative


def _turn(middle: Float[Tensor, "p m"], change: Float[Tensor, "p m"]) -> Float[Tensor, " p"]:
    """Norms of what changes a direction, over the vector's own."""
    square = middle.square().sum(1, keepdim=True).clamp(min=torch.finfo(middle.dtype).tiny)
    across = change - middle * ((change * middle).sum(1, keepdim=True) / square)
    return across.norm(dim=1) / square[:, 0].sqrt()


def _by_differences(
    network: Network,
    record: Float[Tensor, " n"],
    label: Int[Tensor, ""],
    steps: Float[Tensor, "p n"],
) -> Float[Tensor, " p"]:
    """The same from records on both sides; 0 where the steps meet a neuron's boundary."""
    slopes = []
    for size in (LONG_STEP, SHORT_STEP):
        around = torch.cat([record + size * steps, record - size * steps])
        ahead, behind = network.activation_gradients(around, label.expand(len(around))).chunk(2)
        slopes.append(_turn((ahead + behind) / 2, (ahead - behind) / 2) / size)
    over_long, over_short = slopes
    smooth = (over_long - over_short).abs() <= SLOPE_SPREAD * over_long
    return torch.where(smooth, over_long, torch.zeros_like(over_long))
