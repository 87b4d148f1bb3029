"""Updates that look like something they are not: the audit may fail, but never certify wrongly."""

from __future__ import annotations

from itertools import cycle

import pytest
import torch
from certify.drawn import Client
from certify.settings import audited, draw, never_wrong
from properties.clients import audit_client
from torch import nn

from gradaudit.auditing import audit
from gradaudit.budget import Budget
from gradaudit.clients import FedSGD
from gradaudit.errors import InputError
from gradaudit.evidence import Status
from gradaudit.models import mlp
from gradaudit.update import GradientStep, Update

SHORT = Budget(seconds=0.1)
BOTH = pytest.mark.parametrize("given", [False, True], ids=["guessed", "model given"])


def update_of(model, inputs, labels, loss="cross_entropy", **options):
    return FedSGD(model, loss, **options).update(inputs, labels)


@BOTH
@pytest.mark.parametrize("gradient", ["float64", "float32"])
@pytest.mark.parametrize("size", [0.0, 1e-12, 1e-8, 1e-6])
def test_a_class_mean_behind_vanishing_weights(size, gradient, given):
    """Logistic regression at its start: every record of a class has the same p - y."""
    model = mlp(30, [], 10, dtype="float64")
    model.fc1.weight.data.mul_(size)
    update, truth = update_of(
        model, draw(6, 30, 1).abs(), torch.full((6,), 3), gradient_dtype=gradient
    )
    result = audited(update, truth, model if given else None, SHORT)
    assert not result.status.leak_proven


@pytest.mark.parametrize("labels", [[0, 0, 0, 0], [0, 1, 0, 1]])
@pytest.mark.parametrize("outputs", [1, 2])
def test_one_layer_with_two_classes_has_rank_one(outputs, labels):
    loss = "cross_entropy" if outputs == 2 else "binary_cross_entropy"
    model = mlp(30, [], outputs, dtype="float64")
    update, truth = update_of(model, draw(4, 30, 2), torch.tensor(labels), loss)
    result = audited(update, truth, None, SHORT, loss=loss)
    assert result.status is Status.NOT_APPLICABLE


@BOTH
@pytest.mark.parametrize("batch", [2, 8])
@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("kind", ["identity", "always active", "bottleneck"])
def test_two_classes_behind_a_linear_layer(kind, outputs, batch, given):
    """The gradient is that of the records' weighted mean, whatever their number."""
    loss = "cross_entropy" if outputs == 2 else "binary_cross_entropy"
    widths = [40, 1] if kind == "bottleneck" else [40]
    activation = "relu" if kind == "always active" else "identity"
    model = mlp(30, widths, outputs, activation=activation, dtype="float64")
    if kind == "always active":
        model.fc1.bias.data += 20
    labels = torch.arange(batch) % 2
    for chosen in (labels, torch.zeros_like(labels)):
        update, truth = update_of(model, draw(batch, 30, 3), chosen, loss)
        result = audited(update, truth, model if given else None, SHORT, loss=loss)
        assert not result.status.leak_proven, result.cause


@pytest.mark.parametrize("others", [0, 3])
@pytest.mark.parametrize("distance", [1e-2, 1e-3, 1e-4])
def test_near_duplicates_of_two_classes(distance, others):
    """Alike to the last neuron, they are one column of dL/dZ: their mean, which is no record."""
    model = mlp(30, [60], 2, dtype="float64")
    records = draw(2 + others, 30, 4)
    # Scaled copies activate the same neurons where the bias is nothing.
    model.fc1.bias.data.zero_()
    records[1] = records[0] * (1 + distance)
    update, truth = update_of(model, records, torch.arange(2 + others).clamp(min=1) % 2)
    result = audited(update, truth, None, SHORT)
    assert result.batch_size == 1 + others
    never_wrong(result, truth.inputs)


def test_near_duplicates_of_many_classes_are_not_mixed():
    """The same neurons, two ranks: any mixture of the two has the same zeros."""
    model = mlp(30, [60], 10, dtype="float64")
    model.fc1.bias.data.zero_()
    records = draw(4, 30, 4)
    records[1] = records[0] * 1.3
    update, truth = update_of(model, records, [0, 0, 1, 2])
    never_wrong(audited(update, truth, None, SHORT), truth.inputs)


@pytest.mark.parametrize("neurons", [1, 2, 3, 7])
@pytest.mark.parametrize("classes", [2, 10])
def test_few_neurons(neurons, classes):
    model = mlp(30, [neurons], classes, dtype="float64")
    model.fc1.bias.data += 20
    update, truth = update_of(model, draw(4, 30, 5), [0, 0, 0, 0])
    for model_given in (None, model):
        assert not audited(update, truth, model_given, SHORT).status.leak_proven


@BOTH
@pytest.mark.parametrize("alive", [1, 2, 9])
def test_all_neurons_dead_but_a_few(alive, given):
    model = mlp(30, [40], 10, dtype="float64")
    model.fc1.bias.data[alive:] = -50
    model.fc1.bias.data[:alive] = 20
    update, truth = update_of(model, draw(5, 30, 6), [0, 1, 2, 3, 4])
    assert not audited(update, truth, model if given else None, SHORT).status.leak_proven


@BOTH
@pytest.mark.parametrize("classes", [2, 10])
@pytest.mark.parametrize("activation", ["tanh", "sigmoid", "identity", "gelu", "leaky_relu"])
def test_other_activations_with_several_records(activation, classes, given):
    model = mlp(30, [40], classes, activation=activation, dtype="float64")
    for batch in (2, 4):
        update, truth = update_of(model, draw(batch, 30, 7), [0] * batch)
        result = audited(update, truth, model if given else None, SHORT)
        assert result.layer != "fc1" or not result.status.leak_proven


@pytest.mark.parametrize("gradient", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("spread", [0.3, 0.1])
@pytest.mark.parametrize("batch", [2, 40])
def test_records_with_a_large_common_part(batch, spread, gradient):
    """One singular value towers above the others, as one record with noise would show."""
    model = mlp(60, [40], 10, dtype="float64")
    records = 1 + spread * torch.rand(
        batch, 60, generator=torch.Generator().manual_seed(8), dtype=torch.float64
    )
    for labels in ([0] * batch, [i % 10 for i in range(batch)]):
        update, truth = update_of(model, records, labels, gradient_dtype=gradient)
        result = audited(update, truth, None, SHORT, allowed=0.01)
        assert not (batch > 30 and result.status.leak_proven and result.layer == "fc1")


@pytest.mark.parametrize("batch", [40, 60])
def test_a_batch_of_the_layers_width_or_more(batch):
    model = mlp(30, [40], 10, dtype="float64")
    update, truth = update_of(model, draw(batch, 30, 9), [i % 10 for i in range(batch)])
    assert not audited(update, truth, model, SHORT).status.leak_proven


@BOTH
@pytest.mark.parametrize("batch", [1, 4])
@pytest.mark.parametrize("noise", [1e-9, 1e-6, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 30.0])
def test_noise_as_of_differential_privacy(noise, batch, given):
    """Whatever is certified is within its own error bar; much noise certifies nothing.

    A record spreads over so many entries that it survives noise as large as all of them together.
    """
    model = mlp(50, [80], 10, dtype="float64")
    update, truth = update_of(model, draw(batch, 50, 10), list(range(batch)))
    generator = torch.Generator().manual_seed(1)
    size = max(float(g.norm()) for g in update.gradient.values())
    noisy = {
        name: g + noise * size * torch.randn(g.shape, generator=generator, dtype=g.dtype) / 60
        for name, g in update.gradient.items()
    }
    result = audited(Update(update.weights, noisy), truth, model if given else None, SHORT)
    if noise <= 1e-6 and batch == 1:
        assert result.records_recovered == 1, result.cause
    if noise >= 30.0:
        assert not result.status.leak_proven


@BOTH
def test_weights_of_another_round(given):
    model = mlp(50, [80, 40], 10, dtype="float64")
    update, truth = update_of(model, draw(4, 50, 11), [0, 1, 2, 3])
    generator = torch.Generator().manual_seed(2)
    for step in (1e-6, 1e-2, 1.0):
        moved = {
            name: w + step * w.std() * torch.randn(w.shape, generator=generator, dtype=w.dtype)
            for name, w in update.weights.items()
        }
        wrong = Update(moved, update.gradient)
        never_wrong(audited(wrong, truth, model if given else None, SHORT), truth.inputs)


@pytest.mark.parametrize("classes", [2, 10])
@pytest.mark.parametrize("batch", [1, 5])
def test_a_difference_given_as_a_gradient(batch, classes):
    model = mlp(50, [80, 40], classes, dtype="float64")
    labels = [i % classes for i in range(batch)]
    update, truth = update_of(
        model, draw(batch, 50, 12), labels, observe="delta", learning_rate=0.1
    )
    mistaken = Update(update.weights, dict(update.delta))
    result = audited(mistaken, truth, None, SHORT)
    if classes == 10:
        assert result.records_recovered == batch
        assert any("opposite sign" in line for line in result.assumptions)
    if result.records_recovered == batch:
        labels_found = [label for label in result.labels if label is not None]
        assert labels_found in ([], sorted(labels_found)) or len(labels_found) == batch


@pytest.mark.parametrize("batch", [2, 6])
def test_several_local_steps(batch):
    """Full-batch steps: the same records, other activation patterns."""
    model = mlp(50, [80, 40], 10, dtype="float64")
    records = draw(batch, 50, 13)
    labels = torch.arange(batch) % 10
    before = {name: w.detach().clone() for name, w in model.state_dict().items()}
    for rate in (1e-3, 1.0):
        model.load_state_dict(before)
        optimizer = torch.optim.SGD(model.parameters(), lr=rate)
        for _ in range(5):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(records), labels).backward()
            optimizer.step()
        delta = {name: w.detach() - before[name] for name, w in model.state_dict().items()}
        update = Update(before, delta=delta, step=GradientStep(rate))
        never_wrong(audit(update, budget=SHORT), records)


@BOTH
@pytest.mark.parametrize("factor", [-3.0, 1e-9, 0.5, 7.0, 1e12])
@pytest.mark.parametrize("classes", [2, 10])
def test_a_loss_scaled_by_a_factor(classes, factor, given):
    model = mlp(50, [80, 40], classes, dtype="float64")
    labels = [i % classes for i in range(5)]
    update, truth = update_of(model, draw(5, 50, 14), labels)
    scaled = Update(update.weights, {n: g * factor for n, g in update.gradient.items()})
    result = audited(scaled, truth, model if given else None, Budget(seconds=5))
    assert result.records_recovered == 5
    assert any(f"{factor:.6g} times the mean" in line for line in result.assumptions)


class Dropped(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(50, 80).double(), nn.Linear(80, 10).double()
        self.drop = nn.Dropout(0.3)

    def forward(self, x):
        return self.fc2(self.drop(self.fc1(x).relu()))


class Normalised(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(50, 80).double(), nn.Linear(80, 10).double()
        self.norm = nn.BatchNorm1d(80).double()

    def forward(self, x):
        return self.fc2(self.norm(self.fc1(x)).relu())


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("kind", [Dropped, Normalised])
def test_training_mode(kind, train):
    torch.manual_seed(0)
    model = kind()
    for batch in (2, 5):
        update, truth = update_of(model, draw(batch, 50, 15), list(range(batch)), train=train)
        for given in (None, model):
            never_wrong(audited(update, truth, given, SHORT), truth.inputs)


@pytest.mark.parametrize("classes", [2, 10])
@pytest.mark.parametrize("batch", [1, 4])
def test_the_wrong_loss(batch, classes):
    model = mlp(50, [80, 40], classes, dtype="float64")
    labels = torch.arange(batch) % classes
    update, truth = update_of(model, draw(batch, 50, 16), labels, "mse")
    result = audited(update, truth, model, Budget(seconds=5), loss="cross_entropy")
    right = audited(update, truth, model, Budget(seconds=5), loss="mse")
    assert right.records_recovered == batch
    assert sorted(right.labels) == sorted(labels.tolist())
    if result.status.leak_proven:
        assert result.certificate.kind != "full_gradient"


def test_a_first_layer_that_starts_at_zero():
    for part in ("weight", "bias"):
        model = mlp(30, [40], 10, dtype="float64")
        getattr(model.fc1, part).data.zero_()
        update, truth = update_of(model, draw(4, 30, 17), [0, 1, 2, 3])
        never_wrong(audited(update, truth, model, SHORT), truth.inputs)
    model.fc1.weight.data.zero_()
    model.fc1.bias.data.fill_(1.0)
    update, truth = update_of(model, draw(4, 30, 17), [3, 3, 3, 3])
    result = audited(update, truth, model, SHORT)
    assert result.layer == "fc2" or not result.status.leak_proven


def test_binary_inputs_whose_differences_are_binary():
    """x1 - x2 + x3 of one-hot rows is a one-hot row that was never in the batch."""
    model = mlp(40, [], 20, dtype="float64")
    rows = torch.zeros(3, 40, dtype=torch.float64)
    rows[0, :20], rows[1, 10:30], rows[2, 20:40] = 1, 1, 1
    update, truth = update_of(model, rows, [0, 1, 2])
    never_wrong(audited(update, truth, None, SHORT), truth.inputs)


# Every value of each meets every scale of the weights, in ever other company.
ODD = {
    "twist": ("none", "duplicates", "near-duplicates", "multiples", "zero record"),
    "biases": ("drawn", "ties", "zero", "large", "drawn", "none"),
    "dead": (0.0, 0.3, 0.95),
    "widths": ((), (90,), (90, 20), (90, 60, 40, 20, 15)),
    "labels": ("one class", "drawn", "in turn"),
    "classes": (10, 2, 3, 1),
    "rounded": (None, "float32", None, "bfloat16"),
    "inputs": ("centred", "images", "sparse", "binary", "table"),
}
PER_SCALE = 12


@pytest.mark.parametrize("scale", [10.0**power for power in range(-8, 9, 2)])
def test_odd_clients_of_every_scale(scale):
    """Duplicates, dead neurons, ties, depth and one class, behind weights of any size."""
    values = {name: cycle(several) for name, several in ODD.items()}
    shown = 0
    for turn in range(PER_SCALE):
        # Scales begin elsewhere in the cycles, so that together they see other combinations.
        chosen = {name: next(each) for name, each in values.items()}
        seed = int(turn + 100 * abs(torch.log10(torch.tensor(scale))))
        client = Client(
            seed=seed,
            batch=2 + turn % 5,
            features=40,
            initialisation="pytorch",
            weights=scale,
            dtype="float32" if turn % 4 == 3 else "float64",
            factor=1.0,
            loss="binary_cross_entropy" if chosen["classes"] == 1 else "cross_entropy",
            **chosen,
        )
        try:
            found = audit_client(client, with_model=turn % 2 == 0, seconds=0.1)
        except InputError as refused:
            # What such weights make of a deep network in float32.
            if scale <= 1 or "not finite" not in str(refused):
                raise
            continue
        said = f"{client}: {found.result.cause}"
        assert found.outcome != "false", f"{found.trial.describe()}: {said}"
        assert found.missed == 0, said
        shown += found.trial is not None
    print(f"weights times {scale:g}: {shown} of {PER_SCALE} gave records")
