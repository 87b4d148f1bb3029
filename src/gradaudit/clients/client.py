"""What all simulated clients share: the model they were given, and what they do before sending."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from gradaudit.clients.gradients import batch_gradient, record_gradients, trained_parameters
from gradaudit.defenses import Defense, Pipeline
from gradaudit.errors import InputError
from gradaudit.models.losses import Loss, get_loss
from gradaudit.options import floating_dtype
from gradaudit.randomness import make_generator, make_own_generator


class Client:
    """The settings of a client; `FedSGD` and `FedAvg` say what it does with them.

    Args:
        model: The global model that the client was given.
        loss: A name or function that `gradaudit.models.get_loss` takes.
        reduction: ``"mean"`` or ``"sum"`` over a batch.
        dtype: Compute at this floating-point type instead of the model's.
        gradient_dtype: What is sent is rounded to this type.
        train: Compute in training mode.
        defenses: In the order in which they are applied.
        seed: Of everything that is drawn.

    Raises:
        InputError: An argument cannot be used.
    """

    def __init__(
        self,
        model: nn.Module,
        loss: str | Loss | Callable[[Tensor, Tensor], Tensor],
        *,
        reduction: str,
        dtype: torch.dtype | str | None,
        gradient_dtype: torch.dtype | str | None,
        train: bool,
        defenses: Sequence[Defense],
        seed: int,
    ) -> None:
        if not isinstance(model, nn.Module):
            raise InputError("model", type(model).__name__, "a torch.nn.Module")
        if not trained_parameters(model):
            raise InputError("model", "no parameter that requires a gradient", "a trainable model")
        if reduction not in ("mean", "sum"):
            raise InputError("reduction", repr(reduction), "'mean' or 'sum'")
        self.model = model
        self.loss = get_loss(loss)
        self.reduction = reduction
        self.dtype = None if dtype is None else floating_dtype("dtype", dtype)
        self.gradient_dtype = (
            None if gradient_dtype is None else floating_dtype("gradient_dtype", gradient_dtype)
        )
        self.train = train
        self.defenses = Pipeline.of(defenses)
        self.seed = seed

    def _copy(self) -> nn.Module:
        """The model as this client computes with it; the caller's own is left alone."""
        model = copy.deepcopy(self.model).train(self.train)
        if self.dtype is not None:
            model = model.to(self.dtype)
        model.zero_grad(set_to_none=True)
        return model

    def _order(self) -> torch.Generator:
        """Of the order of records in local training."""
        return make_generator(None, self.seed)

    def _noise(self) -> torch.Generator:
        """Of what defences draw; the model's weights may come from the same seed."""
        return make_own_generator(self.seed, "defences")

    @contextmanager
    def _randomness(self) -> Iterator[None]:
        """Make what training mode draws, such as dropout, a function of the seed alone."""
        with torch.random.fork_rng(devices=[], enabled=self.train):
            if self.train:
                torch.manual_seed(self.seed)
            yield

    def _gradient(
        self,
        model: nn.Module,
        inputs: Float[Tensor, "b ..."],
        labels: Shaped[Tensor, "b ..."],
        generator: torch.Generator,
    ) -> tuple[dict[str, Tensor], float]:
        """A batch's gradient, defended record by record, and the noise in each of its entries."""
        if not self.defenses.needs_records:
            return batch_gradient(model, self.loss, inputs, labels, self.reduction), 0.0
        records = record_gradients(model, self.loss, inputs, labels)
        hidden = self.defenses.hide(model, inputs, records)
        return self.defenses.reduce(hidden, len(inputs), self.reduction, generator)

    def _sent(
        self, change: dict[str, Tensor], noise: float | None, generator: torch.Generator
    ) -> tuple[dict[str, Tensor], float | None]:
        """What leaves the client, and the noise in it where it is known and not zero."""
        sent, noise = self.defenses.send(change, noise, generator)
        if self.gradient_dtype is not None:
            sent = {name: tensor.to(self.gradient_dtype) for name, tensor in sent.items()}
        return sent, noise or None
