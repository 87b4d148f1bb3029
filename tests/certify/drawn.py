"""Random clients: their records, networks and updates, all decided by a seed."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from gradaudit.clients import FedAvg, FedSGD
from gradaudit.models import mlp
from gradaudit.models.losses import Loss, get_loss
from gradaudit.update import LocalTraining, Update

INPUTS = ("centred", "centred", "images", "table", "binary", "sparse")
TWISTS = ("none",) * 6 + ("duplicates", "near-duplicates", "zero record", "multiples")
INITIALISATIONS = ("pytorch", "pytorch", "kaiming", "xavier", "uniform", "orthogonal", "sparse")
BIASES = ("drawn",) * 5 + ("zero", "large", "ties", "none")


@dataclass(frozen=True)
class Client:
    """An odd but possible client, in words and numbers; a seed decides all of it."""

    seed: int
    batch: int
    features: int
    widths: tuple[int, ...]
    classes: int
    inputs: str
    twist: str
    initialisation: str
    biases: str
    dead: float
    weights: float
    labels: str
    dtype: str
    rounded: str | None
    factor: float
    loss: str
    activation: str = "relu"
    convolution: bool = False
    training: LocalTraining | None = None

    def records(self) -> Tensor:
        """The batch; in [0, 1] for images and tables."""
        generator = torch.Generator().manual_seed(self.seed)
        found = _RECORDS[self.inputs](self.batch, self.features, generator)
        if self.batch > 1 and self.twist == "duplicates":
            found[1] = found[0]
        elif self.batch > 1 and self.twist == "near-duplicates":
            distance = 10 ** -(1 + 6 * float(torch.rand(1, generator=generator)))
            step = torch.randn(self.features, generator=generator, dtype=torch.float64)
            found[1] = found[0] + distance * found[0].square().mean().sqrt() * step
        elif self.batch > 1 and self.twist == "multiples":
            found[1] = found[0] * (1 + float(torch.rand(1, generator=generator)))
        elif self.twist == "zero record":
            found[0] = 0
        return found

    def classes_of(self) -> Tensor:
        """A label for each record."""
        generator = torch.Generator().manual_seed(self.seed + 1)
        count = max(self.classes, 2)
        if self.labels == "one class":
            return torch.full((self.batch,), int(torch.randint(count, (1,), generator=generator)))
        if self.labels == "in turn":
            return torch.arange(self.batch) % count
        return torch.randint(count, (self.batch,), generator=generator)

    def model(self) -> nn.Module:
        """The network."""
        bias = self.biases != "none"
        known = self.initialisation not in ("orthogonal", "sparse")
        model: nn.Module = mlp(
            self.features,
            list(self.widths),
            self.classes,
            activation=self.activation,
            bias=bias,
            init=self.initialisation if known else "pytorch",
            seed=self.seed,
            dtype=self.dtype,
        )
        generator = torch.Generator().manual_seed(self.seed + 2)
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if name.endswith("weight"):
                    self._redraw(parameter, generator)
                    parameter.mul_(self.weights)
                elif self.biases == "zero":
                    parameter.zero_()
                elif self.biases == "large":
                    parameter.mul_(10)
                elif self.biases == "ties":
                    parameter.fill_(0.05)
            if self.widths and bias and self.dead:
                model.get_parameter("fc1.bias")[: round(self.dead * self.widths[0])] = -1e3
            if self.widths and self.biases == "ties":
                # Neurons that are another one's copy fire together.
                model.get_parameter("fc1.weight")[1] = model.get_parameter("fc1.weight")[0]
        if not self.convolution:
            return model
        side = math.isqrt(self.features)
        front = nn.Conv2d(1, 2, 3, padding=1).to(next(model.parameters()).dtype)
        with torch.no_grad():
            for parameter in front.parameters():
                drawn = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
                parameter.copy_(drawn / 3)
        inner = mlp(2 * side**2, list(self.widths), self.classes, bias=bias, seed=self.seed)
        inner = inner.to(next(model.parameters()).dtype)
        return nn.Sequential(nn.Unflatten(1, (1, side, side)), front, nn.ReLU(), inner)

    def _redraw(self, weight: Tensor, generator: torch.Generator) -> None:
        if self.initialisation == "orthogonal":
            drawn = torch.empty_like(weight)
            nn.init.orthogonal_(drawn, generator=generator)
            weight.copy_(drawn)
        elif self.initialisation == "sparse":
            drawn = torch.rand(weight.shape, generator=generator, dtype=torch.float64)
            weight.mul_(drawn < 0.2)

    def send(self) -> tuple[Update, Tensor, Tensor, nn.Module]:
        """The update, the records and labels, and the network."""
        model, records, labels = self.model(), self.records(), self.classes_of()
        loss = loss_of(self.loss)
        records = records.to(next(model.parameters()).dtype)
        if self.training is not None:
            client: FedAvg | FedSGD = FedAvg(model, loss, training=self.training)
            return client.update(records, labels)[0], records.double(), labels, model
        client = FedSGD(model, loss, gradient_dtype=self.rounded)
        update, _ = client.update(records, labels)
        assert update.gradient is not None
        # As float32 what 16 bits cannot hold can be scaled.
        wide = {n: g.float() if g.itemsize == 2 else g for n, g in update.gradient.items()}
        scaled = {name: g * self.factor for name, g in wide.items()}
        return Update(update.weights, scaled), records.double(), labels, model


def draw_client(seed: int, *, largest: bool = True) -> Client:
    """A client drawn from a seed: batches of 1 to 40, 10 to 3072 features, 1 to 6 layers.

    Args:
        seed: Decides everything.
        largest: Whether layers may be as large as that, or a tenth of it.
    """
    pick = random.Random(seed)

    def between(low: float, high: float) -> int:
        return round(math.exp(pick.uniform(math.log(low), math.log(high))))

    batch = between(1, 40) if largest else between(1, 10)
    features = max(between(10, 3072 if largest else 150), 2 * batch)
    depth = pick.choice([1, 2, 2, 3, 3, 3, 4, 6])
    first = max(between(20, 400 if largest else 120), pick.choice([2, 8, 12]) * batch + 20)
    widths = (first, *(between(10, 100) for _ in range(depth - 2)))[: depth - 1]
    convolution = bool(widths) and pick.random() < 0.08
    if convolution:
        features = math.isqrt(features) ** 2
    classes = pick.choice([1, 2, 3, 10, 10, 10, 50])
    several = depth > 1 and pick.random() < 0.12
    return Client(
        seed=seed,
        batch=batch,
        features=features,
        widths=widths,
        classes=classes,
        inputs=pick.choice(INPUTS),
        twist=pick.choice(TWISTS),
        initialisation=pick.choice(INITIALISATIONS),
        biases=pick.choice(BIASES),
        dead=pick.choice([0.0, 0.0, 0.0, 0.3]),
        weights=pick.choice([1.0] * 15 + [1e-8, 1e-3, 10.0]),
        labels=pick.choice(["drawn", "one class", "in turn"]),
        dtype=pick.choice(["float64", "float64", "float32"]),
        rounded=pick.choice([None] * 5 + ["float32", "float32", "bfloat16"]),
        factor=10.0 ** pick.randint(-8, 8),
        loss="binary_cross_entropy"
        if classes == 1
        else pick.choice(["cross_entropy"] * 4 + ["mse"]),
        activation=pick.choice(["relu"] * 14 + ["leaky_relu", "tanh"]),
        convolution=convolution,
        training=LocalTraining(pick.choice([1e-3, 0.03]), epochs=3, batch_size=4)
        if several
        else None,
    )


def loss_of(name: str) -> Loss:
    """A loss by name; one more, with smoothed labels, has no name of its own."""

    def smoothed(outputs: Tensor, labels: Tensor) -> Tensor:
        return nn.functional.cross_entropy(outputs, labels, reduction="none", label_smoothing=0.1)

    return get_loss(smoothed if name == "smoothed" else name)


def _centred(batch: int, features: int, generator: torch.Generator) -> Tensor:
    plain = torch.randn(batch, features, generator=generator, dtype=torch.float64)
    shared = torch.randn(features, generator=generator, dtype=torch.float64)
    return plain + shared / 2


def _images(batch: int, features: int, generator: torch.Generator) -> Tensor:
    """Smooth, in [0, 1]: neighbouring values are alike."""
    coarse = max(features // 8, 2)
    plain = torch.rand(batch, 1, coarse, generator=generator, dtype=torch.float64)
    smooth = nn.functional.interpolate(plain, size=features, mode="linear", align_corners=True)
    return smooth[:, 0]


def _table(batch: int, features: int, generator: torch.Generator) -> Tensor:
    """A few numbers, and one-hot columns in groups of five."""
    found = torch.zeros(batch, features, dtype=torch.float64)
    numbers = max(features // 10, 2)
    found[:, :numbers] = torch.randn(batch, numbers, generator=generator, dtype=torch.float64)
    for start in range(numbers, features, 5):
        size = min(5, features - start)
        chosen = torch.randint(size, (batch,), generator=generator)
        found[torch.arange(batch), start + chosen] = 1
    return found


def _binary(batch: int, features: int, generator: torch.Generator) -> Tensor:
    return (torch.rand(batch, features, generator=generator) < 0.5).double()


def _sparse(batch: int, features: int, generator: torch.Generator) -> Tensor:
    shown = torch.rand(batch, features, generator=generator) < 0.3
    return shown * torch.rand(batch, features, generator=generator, dtype=torch.float64)


_RECORDS = {
    "centred": _centred,
    "images": _images,
    "table": _table,
    "binary": _binary,
    "sparse": _sparse,
}
