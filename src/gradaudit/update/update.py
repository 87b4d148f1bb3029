"""An update as it was observed, checked and frozen."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

import torch
from torch import Tensor

from gradaudit.errors import InputError
from gradaudit.preprocessing import Preprocessing
from gradaudit.tensorfile import write_tensors
from gradaudit.update.checks import check_match, check_values, drop_counters, strip_wrappers
from gradaudit.update.combination import combination, weights_coefficient
from gradaudit.update.linear_layer import LinearLayer
from gradaudit.update.naming import is_buffer, layer_name
from gradaudit.update.steps import GradientStep, LocalTraining, Step, step_to_text

FORMAT = "gradaudit.update"
FORMAT_VERSION = "1"


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
        step: How the update came about: one gradient, or local training, whose update is a delta.
        noise: Standard deviation of independent Gaussian noise in every observed entry, in the
            observed units (a delta's include the learning rate); None when unknown. Rounding is
            no part of it.
        preprocessing: How records became network inputs, if publicly known.
        source: Where it was read from: file names and their SHA-256, what was observed first.
        contains: What the file held that was observed: ``"gradient"``, ``"delta"`` or
            ``"weights_after"``, from which the weights before were subtracted; empty where the
            update was not read from a file.

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
    step: Step = field(default_factory=GradientStep)
    preprocessing: Preprocessing | None = None
    source: Mapping[str, str] = field(default_factory=dict)
    noise: float | None = None
    contains: str = ""

    def __post_init__(self) -> None:
        if (self.gradient is None) == (self.delta is None):
            both = "both" if self.gradient is not None else "neither"
            raise InputError("update", f"{both} of gradient and delta", "exactly one of them")
        kind = "gradient" if self.gradient is not None else "delta"
        if kind == "gradient" and not isinstance(self.step, GradientStep):
            raise InputError(
                "step",
                "local training with a gradient",
                "a delta, weights after minus before, with local training",
                "pass the update as delta",
            )
        _check_noise(self.noise)
        weights = strip_wrappers("weights", self.weights)
        observed = strip_wrappers(kind, self.gradient if self.gradient is not None else self.delta)
        # Integer buffers (BatchNorm's step counter) are no weights and are never differentiated.
        weights = {k: v for k, v in weights.items() if v.dtype.is_floating_point}
        if not weights:
            raise InputError("weights", "no floating-point tensors", "a state dict's tensors")
        observed = drop_counters(observed, kind)
        check_values("weights", weights)
        check_values(kind, observed)
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

    @property
    def gradient_scale(self) -> float | None:
        """What multiplies one batch's gradient to make what was observed, but for noise and decay.

        1 for a gradient, minus the learning rate for a step of SGD; None where that is unknown,
        and where several gradients make up the difference.

        Example:
            >>> weights, delta = {"w": torch.zeros(1)}, {"w": torch.ones(1)}
            >>> Update(weights, delta=delta, step=LocalTraining(0.5)).gradient_scale
            -0.5
            >>> Update(weights, delta=delta, step=LocalTraining(0.5, epochs=2)).gradient_scale
        """
        step = self.step
        if self.observed_kind == "gradient":
            return 1.0
        if step.learning_rate is None:
            return None
        if isinstance(step, GradientStep):
            return -step.learning_rate
        if not step.is_linear or step.steps() != 1:
            return None
        return combination(step, 1).gradients[0]

    @property
    def several_steps(self) -> bool:
        """Whether it is, or may be, the sum of several steps' gradients, each at other weights."""
        return isinstance(self.step, LocalTraining) and self.step.steps() != 1

    def halfway(self) -> Update:
        """The same update with the weights in the middle between those before and after it.

        Example:
            >>> update = Update({"w": torch.zeros(1)}, delta={"w": torch.ones(1)})
            >>> update.halfway().weights["w"]
            tensor([0.5000])
        """
        change = self.observed
        moved = {n: w + change[n] / 2 if n in change else w for n, w in self.weights.items()}
        return replace(self, weights=moved)

    def without_decay(self) -> Update:
        """The same update less what weight decay did to the weights before: gradients alone.

        SGD's difference of weights is ``c W_0 + sum_t c_t g_t`` (see `combination`); c is known
        from learning rate, momentum, decay and the number of steps, and c W_0 is subtracted from
        every parameter, in float64. What remains is the combination of gradients, in which those
        of early steps weigh less than they would without decay. An update without decay is
        returned as it is.

        Returns:
            An update whose step has no weight decay.

        Raises:
            InputError: The learning rate or the number of steps is unknown, or the optimiser is
                not SGD.

        Example:
            >>> weights, delta = {"w": torch.tensor([2.0])}, {"w": torch.tensor([-0.4])}
            >>> update = Update(weights, delta=delta, step=LocalTraining(0.5, weight_decay=0.1))
            >>> update.without_decay().delta["w"]
            tensor([-0.3000])
        """
        step = self.step
        if not isinstance(step, LocalTraining) or step.weight_decay == 0:
            return self
        steps = step.steps()
        if steps is None:
            raise InputError(
                "step.records",
                "None with weight decay and mini-batches",
                "the number of the client's records, by which its steps are counted",
            )
        coefficient = weights_coefficient(step, steps)
        remaining = {
            name: change
            if is_buffer(name)
            else (change.double() - coefficient * self.weights[name].double()).to(change.dtype)
            for name, change in self.observed.items()
        }
        return replace(self, delta=remaining, step=replace(step, weight_decay=0.0))

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
                    several_steps=self.several_steps,
                )

    def sha256(self) -> str:
        """Digest of names, shapes, dtypes and values, independent of the file format."""
        digest = hashlib.sha256()
        for kind, tensors in (("weights", self.weights), (self.observed_kind, self.observed)):
            for name in sorted(tensors):
                tensor = tensors[name].detach().cpu().contiguous()
                digest.update(f"{kind}/{name}:{tensor.dtype}:{tuple(tensor.shape)}".encode())
                # The buffer itself: a large layer's bytes are not copied to be read.
                digest.update(tensor.view(-1).view(torch.uint8).numpy().data)
        return digest.hexdigest()

    def save(self, path: str | Path, *, notes: Mapping[str, str] | None = None) -> None:
        """Write to a safetensors file in this package's own layout.

        Tensors are named ``weights/NAME`` and ``gradient/NAME`` (or ``delta/NAME``); the metadata
        holds ``format``, ``version``, ``step``, ``noise`` and ``preprocessing`` (JSON).

        Args:
            path: The file.
            notes: What else to keep in the metadata, each under ``note.NAME``, for people: it is
                not read back.
        """
        tensors = {f"weights/{name}": tensor for name, tensor in self.weights.items()}
        tensors |= {f"{self.observed_kind}/{name}": t for name, t in self.observed.items()}
        metadata = {
            "format": FORMAT,
            "version": FORMAT_VERSION,
            "step": step_to_text(self.step),
        }
        if self.noise is not None:
            metadata["noise"] = json.dumps(self.noise)
        if self.preprocessing is not None:
            metadata["preprocessing"] = self.preprocessing.to_text()
        metadata |= {f"note.{name}": text for name, text in (notes or {}).items()}
        write_tensors(path, tensors, metadata)


def _check_noise(noise: float | None) -> None:
    if noise is not None and (
        isinstance(noise, bool) or not isinstance(noise, int | float) or not 0 <= noise < math.inf
    ):
        raise InputError("noise", repr(noise), "a standard deviation, 0 or more, or None")
