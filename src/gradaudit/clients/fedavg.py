"""A client of FedAvg: it trains for a while, and sends how its weights have changed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

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
from gradaudit.update import LocalTraining, Update, combination


class FedAvg(Client):
    """A client that trains on all its records with torch's SGD, and sends the difference.

    Every epoch takes the records in a new random order, in batches; the last one is what is left.
    Training happens on a copy of the model, as for `FedSGD`. What is sent is the difference of the
    rounded weights, after minus before, of the parameters that require a gradient; BatchNorm's
    statistics are not sent.

    Args:
        model: The global model that the client was given.
        loss: A name or function that `gradaudit.models.get_loss` takes.
        training: Epochs, batch size, learning rate and the rest; the optimizer must be SGD. The
            update repeats it, with the number of records, by which FedAvg weights its average.
        reduction: ``"mean"`` or ``"sum"`` over a batch.
        dtype: Compute at this floating-point type instead of the model's.
        gradient_dtype: What is sent is rounded to this type: float64, float32, float16, bfloat16.
        train: Compute in training mode.
        defenses: What the client does (`gradaudit.defenses`), in this order: those on single
            records at every step of its training, those on what is sent at the end. The update says
            how much Gaussian noise is in each entry where that is known exactly: that of the steps
            adds up as their gradients do.
        seed: Of the order of records, and of what training mode and defences draw.

    Raises:
        InputError: An argument cannot be used.

    Source:
        McMahan et al., Communication-efficient learning of deep networks from decentralized data,
        2017, algorithm 1, ClientUpdate.

    Example:
        >>> from gradaudit.models import mlp
        >>> training = LocalTraining(learning_rate=0.1, epochs=3, batch_size=2)
        >>> client = FedAvg(mlp(4, [3], 2, seed=1), training=training)
        >>> update, truth = client.update(torch.ones(5, 4), torch.tensor([0, 1, 1, 0, 1]))
        >>> update.step.steps(), truth.batch_size
        (9, 5)
    """

    def __init__(
        self,
        model: nn.Module,
        loss: str | Loss | Callable[[Tensor, Tensor], Tensor] = "cross_entropy",
        *,
        training: LocalTraining,
        reduction: str = "mean",
        dtype: torch.dtype | str | None = None,
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
        if training.learning_rate is None:
            raise InputError("training.learning_rate", "None", "the client's learning rate")
        if not training.is_linear:
            raise InputError("training.optimizer", repr(training.optimizer), "'sgd'")
        self.training = training

    def update(
        self,
        inputs: Float[Tensor, "b ..."],
        labels: Shaped[Tensor, "b ..."] | Sequence[int],
        preprocessing: Preprocessing | None = None,
    ) -> tuple[Update, Truth]:
        """Train on all records, and compute the difference of weights.

        Args:
            inputs: Network inputs, one record a row.
            labels: One label a record.
            preprocessing: How records became inputs; passed on to the update and the truth.

        Returns:
            What the client sends, and what it used: all its records, in the order given.

        Raises:
            InputError: The records do not fit the model or the loss, or training overflows.
        """
        model = self._copy()
        parameters = trained_parameters(model)
        like = next(iter(parameters.values()))
        rate, largest = self.training.learning_rate, torch.finfo(like.dtype).max
        if rate is not None and rate > largest:
            raise InputError("training.learning_rate", f"{rate:g}", f"at most {largest:.1e}")
        records, classes = place_batch(inputs, labels, preprocessing, like)
        step = replace(self.training, records=len(records))
        weights = {n: t.detach().clone() for n, t in model.state_dict().items()}
        generator = self._noise()
        with self._randomness():
            noises = self._train(model, records, classes, generator)
        change = {n: p.detach() - weights[n] for n, p in parameters.items()}
        sent, noise = self._sent(change, _noise_of_difference(step, noises), generator)
        update = Update(weights, delta=sent, step=step, preprocessing=preprocessing, noise=noise)
        return update, Truth(records, classes, preprocessing)

    def _train(
        self, model: nn.Module, records: Tensor, classes: Tensor, generator: torch.Generator
    ) -> list[float]:
        """Train the model in place; the noise in each step's gradient."""
        parameters = trained_parameters(model)
        rate = self.training.learning_rate
        assert rate is not None  # noqa: S101 - __init__ checked it
        optimiser = torch.optim.SGD(
            parameters.values(),
            lr=rate,
            momentum=self.training.momentum,
            dampening=self.training.dampening,
            weight_decay=self.training.weight_decay,
            nesterov=self.training.nesterov,
        )
        noises = []
        for chosen in self._batches(len(records)):
            rows = chosen.to(records.device)
            gradient, noise = self._gradient(model, records[rows], classes[rows], generator)
            for name, parameter in parameters.items():
                parameter.grad = gradient[name]
            optimiser.step()
            noises.append(noise)
        return noises

    def _batches(self, records: int) -> Iterator[Tensor]:
        """Which records each step takes."""
        generator = self._order()
        for _ in range(self.training.epochs):
            order = torch.randperm(records, generator=generator)
            yield from torch.split(order, self.training.batch_size or records)


def _noise_of_difference(training: LocalTraining, noises: Sequence[float]) -> float:
    """Standard deviation of the steps' noise in the difference, which weighs them alike."""
    if not any(noises):
        return 0.0
    weights = combination(training, len(noises)).gradients
    return math.hypot(*(w * noise for w, noise in zip(weights, noises, strict=True)))
