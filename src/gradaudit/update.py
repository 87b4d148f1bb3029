"""What was observed: the weights a client was given and the change it sent back."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

import torch
from jaxtyping import Float
from torch import Tensor

from gradaudit.errors import InputError
from gradaudit.preprocessing import Preprocessing
from gradaudit.tensorfile import write_tensors

FORMAT = "gradaudit.update"
FORMAT_VERSION = "1"

# Put before a module's name by wrappers: Opacus, DataParallel and DDP, torch.compile.
WRAPPER_PREFIXES = ("_module.", "module.", "_orig_mod.")


@dataclass(frozen=True)
class GradientStep:
    """The update is one gradient of one batch (FedSGD).

    Attributes:
        learning_rate: What the gradient was multiplied by when the update is a difference of
            weights; None when unknown. Recovered records do not depend on it.
    """

    learning_rate: float | None = None

    def __post_init__(self) -> None:
        if self.learning_rate is not None and not 0 < self.learning_rate < float("inf"):
            raise InputError("learning_rate", repr(self.learning_rate), "a positive number")


@dataclass(frozen=True, eq=False)
class LinearLayer:
    """One fully connected layer as an attacker sees it.

    Attributes:
        name: The module path.
        weight: W, (outputs m, inputs n).
        bias: (m,), or None.
        weight_gradient: The observed change of W, up to a constant factor a gradient.
        bias_gradient: The observed change of the bias, or None.
    """

    name: str
    weight: Float[Tensor, "m n"]
    bias: Float[Tensor, " m"] | None
    weight_gradient: Float[Tensor, "m n"]
    bias_gradient: Float[Tensor, " m"] | None

    @property
    def shape(self) -> tuple[int, int]:
        """(outputs, inputs)."""
        return self.weight.shape[0], self.weight.shape[1]


@dataclass(frozen=True, eq=False)
class Update:
    """A captured model update, checked and frozen.

    Names are those of a PyTorch state dict; wrappers' prefixes are stripped. Give either the
    gradient or the difference of weights (after minus before). A layer is named by its module
    path: the weight's name without ``.weight``. Tensors are referenced, not copied.

    Attributes:
        weights: The global weights the client started from, by name. Buffers may be among them.
        gradient: The observed gradient by name, or None.
        delta: The observed weight difference, after minus before, by name, or None.
        step: How the update came about.
        preprocessing: How records became network inputs, if publicly known.
        source: Where it was read from: file names and their SHA-256.

    Raises:
        InputError: Names, shapes, dtypes or values cannot be an update; says which and why.

    Example:
        >>> weights = {"fc.weight": torch.zeros(3, 2), "fc.bias": torch.zeros(3)}
        >>> gradient = {"fc.weight": torch.ones(3, 2), "fc.bias": torch.ones(3)}
        >>> [layer.name for layer in Update(weights, gradient).linear_layers()]
        ['fc']
    """

    weights: Mapping[str, Tensor]
    gradient: Mapping[str, Tensor] | None = None
    delta: Mapping[str, Tensor] | None = None
    step: GradientStep = field(default_factory=GradientStep)
    preprocessing: Preprocessing | None = None
    source: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if (self.gradient is None) == (self.delta is None):
            both = "both" if self.gradient is not None else "neither"
            raise InputError("update", f"{both} of gradient and delta", "exactly one of them")
        kind = "gradient" if self.gradient is not None else "delta"
        weights = strip_wrappers("weights", self.weights)
        observed = strip_wrappers(kind, self.gradient if self.gradient is not None else self.delta)
        # Integer buffers (BatchNorm's step counter) are no weights and are never differentiated.
        weights = {k: v for k, v in weights.items() if v.dtype.is_floating_point}
        if not weights:
            raise InputError("weights", "no floating-point tensors", "a state dict's tensors")
        observed = _drop_counters(observed, kind)
        _check_values("weights", weights)
        _check_values(kind, observed)
        check_match(weights, observed, kind)
        object.__setattr__(self, "weights", MappingProxyType(weights))
        object.__setattr__(self, kind, MappingProxyType(observed))
        object.__setattr__(self, "source", MappingProxyType(dict(self.source)))

    @property
    def observed(self) -> Mapping[str, Tensor]:
        """The gradient or the difference, whichever was given."""
        observed = self.gradient if self.gradient is not None else self.delta
        assert observed is not None  # noqa: S101 - __post_init__ checked it
        return observed

    @property
    def observed_kind(self) -> str:
        """``"gradient"`` or ``"delta"``."""
        return "gradient" if self.gradient is not None else "delta"

    def linear_layers(self) -> Iterator[LinearLayer]:
        """The fully connected layers whose weight change was observed, in the update's order."""
        for name, change in self.observed.items():
            if name.endswith("weight") and change.ndim == 2:
                bias_name = name[: -len("weight")] + "bias"
                yield LinearLayer(
                    name=layer_name(name),
                    weight=self.weights[name],
                    bias=self.weights.get(bias_name),
                    weight_gradient=change,
                    bias_gradient=self.observed.get(bias_name),
                )

    def sha256(self) -> str:
        """Digest of names, shapes, dtypes and values, independent of the file format."""
        digest = hashlib.sha256()
        for kind, tensors in (("weights", self.weights), (self.observed_kind, self.observed)):
            for name in sorted(tensors):
                tensor = tensors[name].detach().cpu().contiguous()
                digest.update(f"{kind}/{name}:{tensor.dtype}:{tuple(tensor.shape)}".encode())
                digest.update(tensor.view(-1).view(torch.uint8).numpy().tobytes())
        return digest.hexdigest()

    def save(self, path: str | Path) -> None:
        """Write to a safetensors file in this package's own layout.

        Tensors are named ``weights/NAME`` and ``gradient/NAME`` (or ``delta/NAME``); the metadata
        holds ``format``, ``version``, ``step`` and ``preprocessing`` (JSON).
        """
        tensors = {f"weights/{name}": tensor for name, tensor in self.weights.items()}
        tensors |= {f"{self.observed_kind}/{name}": t for name, t in self.observed.items()}
        metadata = {
            "format": FORMAT,
            "version": FORMAT_VERSION,
            "step": json.dumps({"kind": "gradient", "learning_rate": self.step.learning_rate}),
        }
        if self.preprocessing is not None:
            metadata["preprocessing"] = self.preprocessing.to_text()
        write_tensors(path, tensors, metadata)


def layer_name(weight_name: str) -> str:
    """The module path of a weight: its name without ``.weight`` (``""`` for a bare layer)."""
    return weight_name[: -len("weight")].rstrip(".")


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
        short = name
        while prefix := next((p for p in WRAPPER_PREFIXES if short.startswith(p)), ""):
            short = short[len(prefix) :]
        if short in stripped:
            raise InputError(what, f"{short!r} twice once prefixes are stripped", "one of each")
        stripped[short] = tensor.detach()
    return stripped


def _drop_counters(observed: dict[str, Tensor], kind: str) -> dict[str, Tensor]:
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


def _check_values(what: str, tensors: Mapping[str, Tensor]) -> None:
    for name, tensor in tensors.items():
        # A sum is finite only if no entry is nan or inf, and costs no temporary of full size;
        # it may overflow, so that only a suspicious tensor is looked at entry by entry.
        if tensor.numel() and not bool(torch.isfinite(tensor.sum(dtype=torch.float64))):
            bad = int((~torch.isfinite(tensor)).sum())
            if bad:
                raise InputError(
                    f"{what}[{name!r}]",
                    f"{bad:,} of {tensor.numel():,} values not finite (nan or inf)",
                    "finite numbers",
                    "capture the update before it overflows",
                )


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
