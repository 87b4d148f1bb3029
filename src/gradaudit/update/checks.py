"""Whether named tensors can be an update's: names, layouts, types, values, shapes."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from gradaudit.errors import InputError
from gradaudit.update.naming import without_wrappers

# Entries that are looked at together: 32 MiB in float64.
PART_ENTRIES = 1 << 22


def strip_wrappers(what: str, tensors: Mapping[str, Tensor] | None) -> dict[str, Tensor]:
    """Detach every tensor and drop the wrappers' prefixes from its name."""
    if not isinstance(tensors, Mapping) or not tensors:
        found = "an empty mapping" if isinstance(tensors, Mapping) else type(tensors).__name__
        raise InputError(what, found, "a mapping from name to tensor")
    stripped: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if not isinstance(name, str) or not isinstance(tensor, Tensor):
            raise InputError(
                f"{what}[{name!r}]",
                f"{type(tensor).__name__} under a {type(name).__name__} key",
                "a torch tensor under a text key",
            )
        if tensor.layout != torch.strided or tensor.is_quantized or tensor.device.type == "meta":
            raise InputError(
                f"{what}[{name!r}]", "a sparse, quantized or empty tensor", "a dense tensor"
            )
        # torch cannot even test these for finiteness.
        if tensor.dtype.is_floating_point and tensor.dtype.itemsize < 2:
            raise InputError(
                f"{what}[{name!r}]",
                str(tensor.dtype).removeprefix("torch."),
                "floating-point numbers of 16 bits or more",
                "convert the tensor with .float() before saving",
            )
        short = without_wrappers(name)
        if short in stripped:
            raise InputError(what, f"{short!r} twice once prefixes are stripped", "one of each")
        stripped[short] = tensor.detach()
    return stripped


def drop_counters(observed: dict[str, Tensor], kind: str) -> dict[str, Tensor]:
    """Drop a difference's integer buffers; refuse integer gradients."""
    kept = {}
    for name, tensor in observed.items():
        if tensor.dtype.is_floating_point:
            kept[name] = tensor
        elif not name.endswith("num_batches_tracked"):
            raise InputError(
                f"{kind}[{name!r}]",
                str(tensor.dtype).removeprefix("torch."),
                "floating-point numbers",
                "dequantise the update, or leave this tensor out",
            )
    if not kept:
        raise InputError(kind, "no floating-point tensors", "at least one layer's change")
    return kept


def check_values(what: str, tensors: Mapping[str, Tensor]) -> None:
    """Refuse values that are not finite."""
    for name, tensor in tensors.items():
        # A sum is finite only if no entry is nan or inf; it may overflow, so that only a suspicious
        # tensor is looked at entry by entry. Torch copies what it sums in another type: in parts.
        sums = torch.stack([part.sum(dtype=torch.float64) for part in _parts(tensor)])
        if not bool(torch.isfinite(sums).all()):
            bad = sum(int((~torch.isfinite(part)).sum()) for part in _parts(tensor))
            if bad:
                raise InputError(
                    f"{what}[{name!r}]",
                    f"{bad:,} of {tensor.numel():,} values not finite (nan or inf)",
                    "finite numbers",
                    "capture the update before it overflows",
                )


def _parts(tensor: Tensor) -> tuple[Tensor, ...]:
    """A tensor in slices of a bounded number of entries."""
    if tensor.ndim == 0:
        return (tensor,)
    return torch.split(tensor, max(1, PART_ENTRIES // max(1, tensor[:1].numel())))


def check_match(weights: Mapping[str, Tensor], observed: Mapping[str, Tensor], kind: str) -> None:
    """Refuse an observed tensor that no weight has the name or the shape of."""
    for name, tensor in observed.items():
        if name not in weights:
            known = ", ".join(repr(k) for k in list(weights)[:3])
            raise InputError(
                f"{kind}[{name!r}]",
                "a name that the weights do not have",
                f"a name such as {known}",
                "give the weights and the update of one model",
            )
        if tensor.shape != weights[name].shape:
            raise InputError(
                f"{kind}[{name!r}]",
                f"shape {tuple(tensor.shape)}",
                f"{tuple(weights[name].shape)}, the weight's",
                "give the weights and the update of one model",
            )
