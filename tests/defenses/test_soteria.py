"""Soteria against its formula, and what it leaves to an attack on the first layer."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import gradaudit as ga
from gradaudit.clients.gradients import record_gradients
from gradaudit.defenses import ClipPerRecord, Pipeline, Soteria, parse_defense
from gradaudit.defenses import soteria as module
from gradaudit.errors import InputError
from gradaudit.models.losses import get_loss


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def conv_net() -> nn.Sequential:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        layers = [nn.Conv2d(1, 3, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()]
        return nn.Sequential(*layers, nn.Linear(12, 10), nn.Sigmoid(), nn.Linear(10, 3)).double()


def gradients(model, inputs, labels):
    (portion,) = record_gradients(model, get_loss("cross_entropy"), inputs, labels)
    return portion


@pytest.mark.parametrize("block_bytes", [1, 2**27])
def test_a_layers_inputs_and_their_slopes_are_those_of_a_jacobian(monkeypatch, block_bytes):
    monkeypatch.setattr(module, "BLOCK_BYTES", block_bytes)
    model, inputs = conv_net(), normal(5, 1, 6, 6)
    name, values, slopes = module.representations(model, {"6": model[6], "4": model[4]}, inputs)
    assert name == "6"
    front = model[:6]
    torch.testing.assert_close(values, front(inputs))
    for i in range(5):
        jacobian = torch.autograd.functional.jacobian(front, inputs[i : i + 1])
        torch.testing.assert_close(slopes[i], jacobian.reshape(10, -1).norm(dim=1))
    assert all(p.grad is None for p in model.parameters())


@pytest.mark.parametrize("share", [0.0, 0.29, 0.5, 1.0])
def test_the_entries_of_greatest_worth_are_hidden(share):
    model, inputs, labels = conv_net(), normal(4, 1, 6, 6), torch.tensor([0, 2, 1, 1])
    before = gradients(model, inputs, labels)
    after = Soteria(share).on_representations(model, inputs, before)
    assert all(torch.equal(after[k], before[k]) for k in before if k != "6.weight")
    _, values, slopes = module.representations(model, {"6": model[6]}, inputs)
    for i in range(4):
        hidden = (after["6.weight"][i] == 0).all(0)
        assert int(hidden.sum()) == round(share * 10)
        kept = after["6.weight"][i][:, ~hidden]
        assert torch.equal(kept, before["6.weight"][i][:, ~hidden])
        worth = values[i].abs() / slopes[i]
        if 0 < share < 1:
            assert worth[hidden].min() > worth[~hidden].max()


def test_features_that_are_zero_are_hidden_last_and_constant_ones_first():
    with torch.no_grad():
        model = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 2)).double()
        # Features: off, constant, and two that move, the first of them less for its size.
        model[0].weight.copy_(torch.tensor([[1.0, 0], [0, 0], [1, 0], [0, 2]]))
        model[0].bias.copy_(torch.tensor([-9.0, 3, 3, 1]))
    inputs, before = torch.ones(1, 2).double(), {"2.weight": torch.ones(1, 2, 4).double()}
    for share, kept in [(0.25, [1, 0, 1, 1]), (0.5, [1, 0, 0, 1]), (0.75, [1, 0, 0, 0])]:
        after = Soteria(share).on_representations(model, inputs, before)["2.weight"]
        assert after[0, 0].tolist() == kept


def test_each_record_is_defended_by_itself():
    model, inputs, labels = conv_net(), normal(5, 1, 6, 6), torch.tensor([0, 2, 1, 1, 0])
    before = gradients(model, inputs, labels)
    together = Soteria(0.3).on_representations(model, inputs, before)
    for i in range(5):
        one = {name: rows[i : i + 1] for name, rows in before.items()}
        alone = Soteria(0.3).on_representations(model, inputs[i : i + 1], one)
        assert all(torch.equal(alone[n], together[n][i : i + 1]) for n in before)


def test_portions_of_a_batch_are_hidden_with_their_own_records():
    model, inputs, labels = conv_net(), normal(5, 1, 6, 6), torch.tensor([0, 2, 1, 1, 0])
    loss, pipeline = get_loss("cross_entropy"), Pipeline.of([Soteria(0.3), ClipPerRecord(0.5)])
    found = []
    for size in (2**30, 1):
        portions = record_gradients(model, loss, inputs, labels, size)
        hidden = pipeline.hide(model, inputs, portions)
        found.append(pipeline.reduce(hidden, 5, "mean", torch.Generator())[0])
    for name, tensor in found[0].items():
        torch.testing.assert_close(found[1][name], tensor, rtol=1e-12, atol=1e-15)


def test_it_comes_before_all_others():
    with pytest.raises(InputError, match=r"Soteria after ClipPerRecord.*put Soteria first"):
        Pipeline.of([ClipPerRecord(1.0), Soteria(0.5)])


def test_a_layer_may_be_called_by_a_number():
    assert parse_defense("soteria:share=0.5,layer=4") == Soteria(0.5, "4")


@pytest.mark.parametrize(
    ("model", "layer", "said"),
    [
        (nn.Sequential(nn.Flatten(), nn.Linear(36, 2)), "5", "layer: found '5', expected one of 1"),
        (nn.Sequential(nn.Conv2d(1, 2, 6), nn.Flatten()), "", "model: found no fully connected"),
        (
            nn.Sequential(nn.Linear(6, 2), nn.Flatten()),
            "",
            r"given shape \(2, 1, 6, 6\), expected one",
        ),
    ],
)
def test_models_without_such_a_layer(model, layer, said):
    client = ga.clients.FedSGD(model.double(), defenses=[Soteria(0.5, layer)])
    with pytest.raises(InputError, match=said):
        client.update(normal(2, 1, 6, 6), torch.tensor([0, 1]))


def test_a_layer_that_is_not_trained():
    model = conv_net()
    model[6].weight.requires_grad_(requires_grad=False)
    client = ga.clients.FedSGD(model, defenses=[Soteria(0.5)])
    with pytest.raises(InputError, match="whose weight is no trained parameter"):
        client.update(normal(2, 1, 6, 6), torch.tensor([0, 1]))


@pytest.mark.parametrize("share", [0.1, 0.9])
def test_it_hides_nothing_from_an_attack_on_the_first_layer(share):
    model = ga.models.mlp(40, [90, 30], 3, seed=1, dtype="float64")
    records, labels = normal(4, 40, seed=2), torch.tensor([0, 1, 2, 0])
    update, truth = ga.clients.FedSGD(model, defenses=[Soteria(share)]).update(records, labels)
    plain, _ = ga.clients.FedSGD(model).update(records, labels)
    assert not torch.equal(update.gradient["fc3.weight"], plain.gradient["fc3.weight"])
    result = ga.audit(update, budget=ga.Budget(seconds=60))
    assert result.records_recovered == 4
    assert float(torch.cdist(result.records, truth.inputs).min(1).values.max()) < 1e-9


def test_it_does_hide_a_record_from_rgap():
    model = ga.models.mlp(40, [90, 30], 3, seed=1, dtype="float64")
    record, label = normal(1, 40, seed=2), torch.tensor([1])
    update, _ = ga.clients.FedSGD(model, defenses=[Soteria(0.1)]).update(record, label)
    assert ga.audit(update, attack="rgap").records_recovered == 0


class Unusual(nn.Module):
    """Layers that are not called in the order in which they are defined, one of them never."""

    def __init__(self) -> None:
        super().__init__()
        self.head, self.front = nn.Linear(8, 3), nn.Linear(36, 8)
        self.auxiliary = nn.Linear(8, 3)
        self.double()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(input=torch.sigmoid(self.front(x.flatten(1))))


def test_the_last_layer_is_the_one_that_is_called_last_by_keyword_or_not():
    model, inputs, labels = Unusual(), normal(2, 1, 6, 6), torch.tensor([0, 1])
    before = gradients(model, inputs, labels)
    after = Soteria(0.5).on_representations(model, inputs, before)
    assert [k for k in before if not torch.equal(after[k], before[k])] == ["head.weight"]
    with pytest.raises(InputError, match="'auxiliary', never called"):
        Soteria(0.5, "auxiliary").on_representations(model, inputs, before)


def test_a_weight_that_layers_share_is_refused():
    layers = [nn.Flatten(), nn.Linear(36, 36), nn.Sigmoid(), nn.Linear(36, 36), nn.Linear(36, 3)]
    model = nn.Sequential(*layers).double()
    model[3].weight = model[1].weight
    for layer in ("1", "3"):
        client = ga.clients.FedSGD(model, defenses=[Soteria(0.5, layer)])
        with pytest.raises(InputError, match="whose weight is shared"):
            client.update(normal(2, 1, 6, 6), torch.tensor([0, 1]))


def test_features_that_no_record_moves_have_no_slope():
    class Constant(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.given, self.head = nn.Parameter(torch.ones(4)), nn.Linear(4, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(self.given.expand(len(x), 4)) + 0 * x.flatten(1)[:, :1]

    model, inputs = Constant().double(), normal(2, 1, 6, 6)
    name, values, slopes = module.representations(model, {"head": model.head}, inputs)
    assert (name, values.tolist(), slopes.tolist()) == ("head", [[1.0] * 4] * 2, [[0.0] * 4] * 2)
    for given in (lambda x: x.detach(), lambda x: x):
        moved = nn.Sequential(nn.Flatten(), nn.Linear(36, 3)).double()
        moved[0].forward = lambda x, _given=given: _given(x).flatten(1)
        slope = module.representations(moved, {"1": moved[1]}, inputs)[2]
        assert bool((slope == (0.0 if given(inputs) is not inputs else 1.0)).all())


def test_dropout_in_training_mode_is_refused():
    layers = [nn.Flatten(), nn.Linear(36, 20), nn.Sigmoid(), nn.Dropout(0.5), nn.Linear(20, 3)]
    model = nn.Sequential(*layers).double()
    batch = normal(2, 1, 6, 6), torch.tensor([0, 1])
    with pytest.raises(InputError, match=r"drawn anew at each pass.*leave train=False"):
        ga.clients.FedSGD(model, defenses=[Soteria(0.5)], train=True).update(*batch)
    assert ga.clients.FedSGD(model, defenses=[Soteria(0.5)]).update(*batch)


@pytest.mark.wrong_types
def test_one_defence_is_no_sequence_of_them():
    with pytest.raises(InputError, match=r"defenses: found Soteria, expected a sequence"):
        Pipeline.of(Soteria(0.5))
