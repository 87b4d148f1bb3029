"""What gradient matching minimises: a distance of gradients, and a prior on images."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor


def squared_distance(
    found: Mapping[str, Float[Tensor, "r ..."]], observed: Mapping[str, Float[Tensor, " ..."]]
) -> Float[Tensor, " r"]:
    r"""Squared Euclidean distance of gradients, :math:`\sum_l \lVert g_l - g^*_l \rVert^2`.

    Args:
        found: Gradients of r candidates, by parameter.
        observed: The gradient to match.

    Source:
        Deep Leakage from Gradients (arXiv 1906.08935), equation 1.

    Example:
        >>> squared_distance({"w": torch.tensor([[1.0, 2.0]])}, {"w": torch.zeros(2)})
        tensor([5.])
    """
    parts = [(found[name] - g).flatten(1).square().sum(1) for name, g in observed.items()]
    return torch.stack(parts).sum(0)


def cosine_distance(
    found: Mapping[str, Float[Tensor, "r ..."]], observed: Mapping[str, Float[Tensor, " ..."]]
) -> Float[Tensor, " r"]:
    r"""One minus the cosine of all layers' gradients as one vector; blind to their size.

    Args:
        found: Gradients of r candidates, by parameter.
        observed: The gradient to match.

    Source:
        Inverting Gradients (arXiv 2003.14053), equation 4.

    Example:
        >>> cosine_distance({"w": torch.tensor([[3.0, 0.0], [0.0, 1.0]])}, {"w": torch.eye(2)[0]})
        tensor([0., 1.])
    """
    inner = torch.stack([(found[name] * g).flatten(1).sum(1) for name, g in observed.items()])
    sizes = torch.stack([found[name].flatten(1).square().sum(1) for name in observed])
    whole = torch.stack([g.square().sum() for g in observed.values()]).sum().sqrt()
    smallest = torch.finfo(inner.dtype).tiny
    return 1 - inner.sum(0) / (whole * sizes.sum(0).clamp(min=smallest).sqrt())


def total_variation(images: Float[Tensor, "... c h w"]) -> Float[Tensor, " ..."]:
    r"""Mean absolute difference of neighbours, along rows plus along columns.

    Args:
        images: Channels first.

    Returns:
        One number an image.

    Source:
        Inverting Gradients (arXiv 2003.14053), section 5, after Rudin et al. (1992); the
        anisotropic form.

    Example:
        >>> total_variation(torch.tensor([[[0.0, 1.0], [0.0, 1.0]]]))
        tensor(1.)
    """
    down = (images[..., 1:, :] - images[..., :-1, :]).abs().flatten(-3)
    right = (images[..., 1:] - images[..., :-1]).abs().flatten(-3)
    # An image of one row or column has no neighbours that way.
    return sum(
        (part.mean(-1) for part in (down, right) if part.shape[-1]), images.new_zeros(())
    ).expand(images.shape[:-3])
