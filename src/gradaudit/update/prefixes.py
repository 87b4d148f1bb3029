"""One model under two roots: a network, and the module that holds it as an attribute."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor


def outer_prefix(inner: Mapping[str, Tensor], outer: Mapping[str, Tensor]) -> str:
    """The path at which one set of named tensors lies in another.

    A LightningModule with ``self.net = network`` saves the network's ``0.weight`` as
    ``net.0.weight``; a Hugging Face classifier saves those of its BERT with ``bert.`` before them.

    Args:
        inner: Named tensors; those that are no floating-point numbers are not looked at.
        outer: Others, with more before their names.

    Returns:
        What must be put before every name of ``inner`` to find a tensor of its shape in ``outer``,
        such as ``"net."``. Empty if the names agree as they are, or if no prefix or more than one
        does it.

    Example:
        >>> import torch
        >>> inner = {"0.weight": torch.ones(2, 3)}
        >>> outer_prefix(inner, {"net.0.weight": torch.ones(2, 3), "scale": torch.ones(1)})
        'net.'
    """
    shapes = {name: t.shape for name, t in inner.items() if t.dtype.is_floating_point}
    # The longest name lies in the fewest places.
    longest = max(shapes, key=len, default="")
    if not shapes or shapes.keys() <= outer.keys():
        return ""
    prefixes = {name[: -len(longest)] for name in outer if name.endswith(f".{longest}")}
    fitting = [p for p in prefixes if all(_has(outer, p + n, s) for n, s in shapes.items())]
    return fitting[0] if len(fitting) == 1 else ""


def _has(tensors: Mapping[str, Tensor], name: str, shape: tuple[int, ...]) -> bool:
    return name in tensors and tensors[name].shape == shape
