"""The three kinds of defence."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor, nn


class RepresentationDefense(ABC):
    """Changes what a record's gradient shows of its representation, the inputs of a layer.

    It needs the model and the records themselves, and so comes before all others.
    """

    @abstractmethod
    def on_representations(
        self, model: nn.Module, inputs: Float[Tensor, "b ..."], gradients: Mapping[str, Tensor]
    ) -> dict[str, Tensor]:
        """Change gradients of single records, each without regard to the others.

        Args:
            model: As it computed these gradients; it is left as it is.
            inputs: Network inputs, one record a row.
            gradients: By parameter, one record a row, (b, ...); all of the model's trained
                parameters.

        Returns:
            The same names and shapes.

        Raises:
            InputError: The model has no such representation.
        """


class RecordDefense(ABC):
    """Changes the gradient of each record by itself, before they are summed.

    The client then sums them, adds the noise that `noise_of_sum` asks for, and divides by
    `divisor`.
    """

    @abstractmethod
    def on_records(self, gradients: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Change gradients of single records, each without regard to the others.

        Args:
            gradients: By parameter, one record a row, (b, ...); all of the model's trained
                parameters.

        Returns:
            The same names and shapes.
        """

    @property
    def noise_of_sum(self) -> float:
        """Standard deviation of the Gaussian noise added to each entry of the sum."""
        return 0.0

    def divisor(self, batch_size: float) -> float:
        """What a mean over the batch divides the sum by; the batch size, unless it hides that."""
        return batch_size


class SentDefense(ABC):
    """Changes what the client sends: its gradient, or its difference of weights."""

    @abstractmethod
    def on_sent(self, sent: Mapping[str, Tensor], generator: torch.Generator) -> dict[str, Tensor]:
        """Change what is sent.

        Args:
            sent: By parameter.
            generator: Of everything that is drawn.

        Returns:
            The same names, shapes and types.
        """

    def noise_after(self, noise: float) -> float | None:
        """The noise in what is sent, if it is still independent and Gaussian; None if it is not.

        Args:
            noise: Standard deviation before, 0 for none.
        """
        return None if noise else 0.0


Defense = RepresentationDefense | RecordDefense | SentDefense


def draw_noise(like: Tensor, deviation: float, generator: torch.Generator) -> Tensor:
    """Gaussian noise of a tensor's shape, type and device.

    It is drawn in float32 or wider, where the generator is.
    """
    wide = torch.promote_types(like.dtype, torch.float32)
    drawn = torch.randn(like.shape, generator=generator, dtype=wide, device=generator.device)
    return (deviation * drawn).to(like.device, like.dtype)
