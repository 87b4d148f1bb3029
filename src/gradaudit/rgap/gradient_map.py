"""From inputs to the gradient of a network's loss, entry by entry over the observed one's noise."""

from __future__ import annotations

import torch
from jaxtyping import Float, Shaped
from torch import Tensor
from torch.func import functional_call, grad

from gradaudit.models.loaded import LoadedModel
from gradaudit.models.losses import Loss
from gradaudit.rgap.observed import Observed


class GradientMap:
    """The gradient of the mean loss as a function of the inputs, beside the observed one.

    Args:
        loaded: The network with the update's weights, in float64.
        loss: The client's.
        labels: Of the inputs, as the loss takes them.
        seen: What was observed, of one update.
    """

    def __init__(
        self, loaded: LoadedModel, loss: Loss, labels: Shaped[Tensor, "b ..."], seen: Observed
    ) -> None:
        self._loaded, self._loss, self._labels = loaded, loss, labels
        self._scale_known = seen.scale_known
        self.observed = {name: rows[0] for name, rows in seen.gradients.items()}
        # What is zero in every entry has no noise of its own, and is not infinitely exact.
        largest = max((float(g.abs().max()) for g in self.observed.values()), default=0.0)
        least = max(torch.finfo(torch.float64).eps * largest, torch.finfo(torch.float64).tiny)
        self._noise = {
            name: rows[0].reshape(-1, *[1] * (self.observed[name].ndim - 1)).clamp(min=least)
            for name, rows in seen.noise.items()
        }

    @property
    def equations(self) -> int:
        """Entries of the observed gradient that are not zero."""
        return sum(int((g != 0).sum()) for g in self.observed.values())

    def noise(self, name: str) -> Float[Tensor, " ..."]:
        """Standard deviation of a tensor's entries."""
        return self._noise[name].expand_as(self.observed[name])

    def predict(self, inputs: Float[Tensor, "b ..."]) -> Tensor:
        """The network's outputs."""
        outputs: Tensor = functional_call(self._loaded.module, self._loaded.tensors, (inputs,))
        return outputs

    def gradient(self, inputs: Float[Tensor, "b ..."]) -> dict[str, Float[Tensor, " ..."]]:
        """Of the mean loss, by parameter.

        Where the update is a multiple of it by an unknown positive factor, such as a learning rate,
        the multiple that fits best.
        """
        found = self._of_the_loss(inputs)
        if self._scale_known:
            return found
        factor = self._factor(found)
        return {name: g * factor for name, g in found.items()}

    def factor(self, inputs: Float[Tensor, "b ..."]) -> float:
        """What the gradient of the mean loss is multiplied by to fit the observed one best."""
        return 1.0 if self._scale_known else float(self._factor(self._of_the_loss(inputs)))

    def _of_the_loss(self, inputs: Float[Tensor, "b ..."]) -> dict[str, Float[Tensor, " ..."]]:
        tensors = self._loaded.tensors
        free = {name: tensors[name] for name in self.observed}

        def mean_loss(weights: dict[str, Tensor]) -> Tensor:
            outputs = functional_call(self._loaded.module, {**tensors, **weights}, (inputs,))
            return self._loss(outputs, self._labels)

        found: dict[str, Tensor] = grad(mean_loss)(free)
        return found

    def _factor(self, found: dict[str, Tensor]) -> Tensor:
        product = torch.stack([(found[n] * g).sum() for n, g in self.observed.items()]).sum()
        square = torch.stack([g.square().sum() for g in found.values()]).sum()
        # Of two classes, the other one's gradient is a negative multiple.
        return (product / square).clamp(min=0)

    def whitened(self, inputs: Float[Tensor, "b ..."]) -> Float[Tensor, " w"]:
        """The gradient over its noise, flat."""
        found = self.gradient(inputs)
        return torch.cat([(found[name] / self._noise[name]).flatten() for name in self.observed])

    @property
    def whitened_observed(self) -> Float[Tensor, " w"]:
        """The observed gradient over its noise, flat."""
        return torch.cat([(g / self._noise[name]).flatten() for name, g in self.observed.items()])

    def mismatch(self, inputs: Float[Tensor, "b ..."]) -> Float[Tensor, " w"]:
        """Observed less recomputed, over the noise, flat."""
        return self.whitened_observed - self.whitened(inputs)
