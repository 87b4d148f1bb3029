"""A client of FedSGD: it sends the gradient of one batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from gradaudit.clients.batch import place_batch
from gradaudit.clients.client import Client
from gradaudit.clients.gradients import trained_parameters
from gradaudit.defenses import Defense
from gradaudit.errors import InputError
from gradaudit.models.losses import Loss
from gradaudit.preprocessing import Preprocessing
from gradaudit.truth import Truth
from gradaudit.update import GradientStep, Update


class FedSGD(Client):
    """A client that computes one gradient of one batch and sends it.

    The gradient is that of the loss, reduced over the batch, with respect to every parameter that
    requires one. It is computed on a copy of the model at the model's own floating-point type: the
    caller's model keeps its mode, has no gradients left on it, and its buffers do not move. Unless
    `train` is set, the copy is in evaluation mode: no dropout, and BatchNorm uses running
    statistics.

    Args:
        model: The global model that the client was given.
        loss: A name or function that `gradaudit.models.get_loss` takes.
        reduction: ``"mean"`` or ``"sum"`` over the batch.
        dtype: Compute at this floating-point type instead of the model's.
        observe: ``"gradient"``: the gradient itself is sent. ``"delta"``: one step of gradient
            descent is made and the difference of the rounded weights, after minus before, is sent;
            it carries the rounding error of the weights, as a real difference does.
        learning_rate: Of that step; needed for ``"delta"`` and for nothing else.
        gradient_dtype: What is sent is rounded to this type: float64, float32, float16, bfloat16.
        train: Compute in training mode.
        defenses: What the client does to its gradient before sending it (`gradaudit.defenses`), in
            this order; those on what is sent see the difference of weights if that is observed.
            The update says how much Gaussian noise is in each entry where that is known exactly.
        seed: Of what training mode and defences draw at random.

    Raises:
        InputError: An argument cannot be used.

    Example:
        >>> from gradaudit.models import mlp
        >>> client = FedSGD(mlp(4, [3], 2, seed=1))
        >>> update, truth = client.update(torch.ones(5, 4), torch.tensor([0, 1, 1, 0, 1]))
        >>> update.gradient["fc1.weight"].shape, truth.batch_size
        (torch.Size([3, 4]), 5)
    """

    def __init__(
        self,
        model: nn.Module,
        loss: str | Loss | Callable[[Tensor, Tensor], Tensor] = "cross_entropy",
        *,
        reduction: str = "mean",
        dtype: torch.dtype | str | None = None,
        observe: str = "gradient",
        learning_rate: float | None = None,
        gradient_dtype: torch.dtype | str | None = None,
        train: bool = False,
        defenses: Sequence[Defense] = (),
        seed: int = 0,
    ) -> None:
        super().__init__(
            model,
            loss,
            reduction=reduction,
            dtype=dtype,
            gradient_dtype=gradient_dtype,
            train=train,
            defenses=defenses,
            seed=seed,
        )
        if observe not in ("gradient", "delta"):
            raise InputError("observe", repr(observe), "'gradient' or 'delta'")
        if (observe == "delta") != (learning_rate is not None):
            raise InputError(
                "learning_rate",
                f"{learning_rate} with observe={observe!r}",
                "a learning rate with observe='delta', and none with 'gradient'",
            )
        self.observe = observe
        self.step = GradientStep(learning_rate)

    def update(
        self,
        inputs: Float[Tensor, "b ..."],
        labels: Shaped[Tensor, "b ..."] | Sequence[int],
        preprocessing: Preprocessing | None = None,
    ) -> tuple[Update, Truth]:
        """Compute the update of one batch.

        Args:
            inputs: Network inputs, one record a row.
            labels: One label a record.
            preprocessing: How records became inputs; passed on to the update and the truth.

        Returns:
            What the client sends, and what it used.

        Raises:
            InputError: The batch does not fit the model or the loss, or what is sent overflows.
        """
        model = self._copy()
        like = next(iter(trained_parameters(model).values()))
        records, classes = place_batch(inputs, labels, preprocessing, like)
        # Buffers move in training mode; the server knows them as they were before.
        weights = {n: t.detach().clone() for n, t in model.state_dict().items()}
        generator = self._noise()
        with self._randomness():
            change, noise = self._gradient(model, records, classes, generator)
        rate = self.step.learning_rate
        if rate is not None:
            change = {n: (weights[n] - rate * g) - weights[n] for n, g in change.items()}
            noise *= rate
        sent, told = self._sent(change, noise, generator)
        update = Update(
            weights,
            gradient=sent if self.observe == "gradient" else None,
            delta=sent if self.observe == "delta" else None,
            step=self.step,
            preprocessing=preprocessing,
            noise=told,
        )
        return update, Truth(records, classes, preprocessing)
