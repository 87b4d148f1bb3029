"""Any small setting: an audit never raises anything but a refusal, and never certifies wrongly."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from certify.settings import audited, draw
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn

from gradaudit.auditing import audit
from gradaudit.budget import Budget
from gradaudit.clients import FedSGD
from gradaudit.errors import InputError
from gradaudit.models import mlp
from gradaudit.truth import Truth
from gradaudit.update import Update

ALIKE = 1 + 1e-9
POWERS = st.integers(-8, 8).map(lambda power: 10.0**power)


@dataclass(frozen=True)
class Client:
    """An odd but possible client, in a few numbers."""

    batch: int
    features: int
    widths: tuple[int, ...]
    classes: int
    bias: bool
    activation: str
    dtype: str
    seed: int
    weight_scale: float
    dead: float
    dead_bias: float
    input_scale: float
    positive: bool
    copies: tuple[tuple[int, int, float], ...]
    factor: float

    def update(self) -> tuple[Update, Truth, nn.Module]:
        model = mlp(
            self.features,
            list(self.widths),
            self.classes,
            bias=self.bias,
            activation=self.activation,
            dtype=self.dtype,
            seed=self.seed,
        )
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                parameter.mul_(self.weight_scale)
                if name == "fc1.bias" and self.widths:
                    parameter[: round(self.dead * len(parameter))] = self.dead_bias
        inputs = draw(self.batch, self.features, self.seed) * self.input_scale
        inputs = inputs.abs() if self.positive else inputs
        for source, target, scale in self.copies:
            inputs[target % self.batch] = inputs[source % self.batch] * scale
        generator = torch.Generator().manual_seed(self.seed)
        labels = torch.randint(self.classes, (self.batch,), generator=generator)
        update, truth = FedSGD(model).update(inputs, labels)
        scaled = {name: g * self.factor for name, g in update.gradient.items()}
        return Update(update.weights, scaled), truth, model


CLIENTS = st.builds(
    Client,
    batch=st.integers(1, 6),
    features=st.integers(10, 40),
    widths=st.lists(st.integers(20, 60), max_size=3).map(tuple),
    classes=st.sampled_from([2, 3, 10]),
    bias=st.booleans(),
    activation=st.sampled_from(["relu", "relu", "relu", "tanh", "identity", "leaky_relu"]),
    dtype=st.sampled_from(["float64", "float32"]),
    seed=st.integers(0, 10**6),
    weight_scale=st.sampled_from([1.0, 1.0, 1e-8, 1e-3, 1e3]),
    dead=st.floats(0, 1),
    dead_bias=st.sampled_from([-100.0, 0.0, 100.0]),
    input_scale=POWERS,
    positive=st.booleans(),
    copies=st.lists(
        st.tuples(
            st.integers(0, 5), st.integers(0, 5), st.sampled_from([1.0, 1.0, 0.5, ALIKE, -1.0])
        ),
        max_size=2,
    ).map(tuple),
    factor=st.one_of(POWERS, POWERS.map(lambda value: -value), st.just(1.0)),
)


@settings(max_examples=80, suppress_health_check=list(HealthCheck))
@given(CLIENTS, st.booleans())
def test_any_client(client, with_model):
    update, truth, model = client.update()
    # Records that differ by less than the gradient can show appear as one, their mean.
    alike = 1e-8 if any(scale == ALIKE for _, _, scale in client.copies) else 0.0
    result = audited(
        update, truth, model if with_model else None, Budget(seconds=0.1), allowed=alike
    )
    assert result.records_recovered <= len(truth.inputs)


@settings(max_examples=25, suppress_health_check=list(HealthCheck))
@given(
    shapes=st.lists(
        st.tuples(st.integers(0, 5), st.integers(0, 5)) | st.tuples(st.integers(0, 5)),
        min_size=1,
        max_size=4,
    ),
    values=st.sampled_from([0.0, 1.0, 1e300, 1e-320, -1.0]),
    seed=st.integers(0, 100),
)
def test_any_tensors(shapes, values, seed):
    """Tensors that are no network's: a status or a refusal."""
    generator = torch.Generator().manual_seed(seed)
    names = [f"{'abcd'[i]}.{'weight' if len(s) == 2 else 'bias'}" for i, s in enumerate(shapes)]
    weights = {n: torch.randn(s, generator=generator) for n, s in zip(names, shapes, strict=True)}
    gradient = {
        n: torch.randn(s, generator=generator, dtype=torch.float64) * values
        for n, s in zip(names, shapes, strict=True)
    }
    try:
        update = Update(weights, gradient)
        result = audit(update, budget=Budget(seconds=0.1))
    except InputError:
        return
    assert not result.status.leak_proven
