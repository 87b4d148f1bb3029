"""R-GAP in an audit: what it says, and what it does not."""

from __future__ import annotations

import pytest
import torch
from rgap.networks import ACTIVATIONS, drawn, uniform
from torch import nn

import gradaudit as ga
from gradaudit.clients import FedSGD
from gradaudit.evidence import Status

GREY = ga.Preprocessing(image_shape=(1, 8, 8))


def grey_cnn(activation: str = "leaky_relu", *, outputs: int = 3, seed: int = 0) -> nn.Module:
    act = ACTIVATIONS[activation]
    return drawn(
        nn.Sequential(
            nn.Conv2d(1, 8, 3, stride=2, padding=1, bias=False),
            act(),
            nn.Conv2d(8, 12, 3, padding=1, bias=False),
            act(),
            nn.Flatten(),
            nn.Linear(192, outputs, bias=False),
        ),
        seed,
        1.7,
    )


def audited(model, images, labels, *, loss="cross_entropy", given=None, show=GREY, **client):
    update, _ = FedSGD(model, loss=loss, **client).update(images, torch.tensor(labels), show)
    return ga.audit(update, attack="rgap", model=model if given is None else given, loss=loss)


def test_a_record_is_recovered_with_its_label_and_proven():
    images = uniform(1, 1, 8, 8)
    result = audited(grey_cnn(), images, [2])
    assert result.status is Status.RECOVERED
    assert result.certificate.kind == "full_gradient"
    assert result.labels == (2,)
    assert torch.allclose(result.records, images.flatten(1), atol=1e-8)
    assert result.batch_size == 1
    assert result.layer == "0"
    assert [layer.role for layer in result.layers] == ["input", "interior", "output"]
    assert "64 unknowns, 64 independent equations: a deficit of 0" in result.layers[0].reason
    assert result.search.attack == "rgap"
    assert result.search.counters["unknowns without equation"] == 0


def test_the_network_of_a_module_around_it():
    """A LightningModule with ``self.net`` saves every name with a prefix."""
    model, images = grey_cnn(), uniform(1, 1, 8, 8)
    sent, _ = FedSGD(model).update(images, torch.tensor([2]), GREY)
    named = [{f"net.{k}": t for k, t in part.items()} for part in (sent.weights, sent.gradient)]
    result = ga.audit(ga.Update(*named, preprocessing=GREY), attack="rgap", model=model)
    assert result.status is Status.RECOVERED
    assert result.layer == "net.0"


def test_a_result_survives_the_disk(tmp_path):
    result = audited(grey_cnn(), uniform(1, 1, 8, 8), [2])
    result.save(tmp_path / "result.json")
    again = ga.AuditResult.load(tmp_path / "result.json")
    assert again.to_json() == {**result.to_json(), "arrays": again.to_json()["arrays"]}


def test_the_multiple_outside_the_range_of_pixels_is_named_and_ruled_out():
    model = grey_cnn(outputs=1)
    images = uniform(1, 1, 8, 8)
    label = int(model(images)[0, 0] > 0)
    result = audited(model, images, [label], loss="binary_cross_entropy")
    assert result.status is Status.RECOVERED
    assert result.scale_identified
    assert torch.allclose(result.records, images.flatten(1), atol=1e-8)
    assert "times the record" in result.cause
    assert "outside the range" in result.cause


def test_two_multiples_that_nothing_tells_apart_are_a_direction():
    model = drawn(
        nn.Sequential(
            nn.Linear(20, 40, bias=False), nn.LeakyReLU(0.2), nn.Linear(40, 1, bias=False)
        ),
        0,
        3.0,
    )
    records = uniform(1, 20)
    label = int(model(records)[0, 0] > 0)
    result = audited(model, records, [label], loss="binary_cross_entropy", show=None)
    assert result.status is Status.RECOVERED
    assert not result.scale_identified
    assert "up to a positive factor" in result.cause
    assert torch.allclose(result.records, records / records.norm(), atol=1e-8)
    assert result.approximate_records is not None
    assert len(result.approximate_records) == 2
    assert (result.approximate_records - records).abs().amax(1).min() < 1e-7


def test_a_record_and_its_negative_are_both_given_and_none_is_claimed():
    model = drawn(
        nn.Sequential(nn.Linear(20, 60, bias=False), nn.Tanh(), nn.Linear(60, 1, bias=False)),
        0,
        3.0,
    )
    records = uniform(1, 20)
    result = audited(model, records, [1], loss="binary_cross_entropy", show=None)
    assert result.status is Status.NOT_RECOVERED
    assert "2 different inputs" in result.cause
    assert len(result.approximate_records) == 2


def test_a_deficit_is_no_success():
    model = drawn(
        nn.Sequential(
            nn.Conv2d(1, 2, 3, stride=2, padding=1),
            nn.Tanh(),
            nn.Flatten(),
            nn.Linear(32, 3),
        ),
        0,
        1.5,
    )
    result = audited(model, uniform(1, 1, 8, 8), [1])
    assert result.status is Status.NOT_RECOVERED
    assert "layer '0' leave" in result.cause
    assert "of its 64 inputs open" in result.cause
    assert "inverting-gradients" in result.remedy
    assert "does not show that other attacks fail" in result.remedy
    assert result.records is None


def test_a_batch_is_refused_or_contradicts_itself():
    images = uniform(2, 1, 8, 8)
    refused = audited(grey_cnn(), images, [0, 1])
    assert refused.status is Status.NOT_APPLICABLE
    assert "'auto'" in refused.remedy
    behind_one_logit = audited(grey_cnn(outputs=1), images, [0, 1], loss="binary_cross_entropy")
    assert behind_one_logit.status is Status.NOT_RECOVERED
    assert "contradict" in behind_one_logit.cause


def test_another_network_or_loss_proves_nothing():
    images = uniform(1, 1, 8, 8)
    other = audited(grey_cnn(), images, [2], given=grey_cnn("sigmoid"))
    assert other.status is Status.NOT_RECOVERED


def test_a_size_that_only_the_loss_tells_is_not_known_while_the_loss_is_a_guess():
    images, logit = uniform(1, 1, 8, 8), grey_cnn(outputs=1)
    update, _ = FedSGD(logit, loss="mse").update(images, torch.tensor([[0.5]]), GREY)
    result = ga.audit(update, attack="rgap", model=logit)
    assert result.status is Status.RECOVERED
    assert not result.scale_identified
    assert "Name the loss" in result.cause
    record = images.flatten(1)
    assert torch.allclose(result.records, record / record.norm(), atol=1e-8)


@pytest.mark.parametrize("noise", [1e-1, 1e-2, 1e-3])
def test_noise_is_no_proof(noise):
    model, images = grey_cnn(), uniform(1, 1, 8, 8)
    update, _ = FedSGD(model).update(images, torch.tensor([1]), GREY)
    source = torch.Generator().manual_seed(3)
    noisy = {
        name: g + noise * g.abs().mean() * torch.randn(g.shape, generator=source, dtype=g.dtype)
        for name, g in update.observed.items()
    }
    result = ga.audit(
        ga.Update(update.weights, gradient=noisy, preprocessing=GREY), attack="rgap", model=model
    )
    assert not result.status.leak_proven


def test_what_it_needs():
    model = grey_cnn()
    update, _ = FedSGD(model).update(uniform(1, 1, 8, 8), torch.tensor([1]), GREY)
    without = ga.audit(update, attack="rgap")
    assert without.status is Status.NOT_APPLICABLE
    assert "no network was given" in without.cause
    with pytest.raises(ga.InputError, match="layer"):
        ga.audit(update, attack="rgap", model=model, layer="5")


def test_an_interrupted_recursion_says_so():
    control = ga.Control(ga.Budget(seconds=60))
    control.interrupt()
    update, _ = FedSGD(grey_cnn()).update(uniform(1, 1, 8, 8), torch.tensor([1]), GREY)
    result = ga.audit(update, attack="rgap", model=grey_cnn(), control=control)
    assert result.status is Status.BUDGET_EXHAUSTED
    assert "interrupted" in result.cause


@pytest.mark.parametrize("activation", ["sigmoid", "leaky_relu"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("apart", [0.5, 0.1, 0.02])
def test_two_records_behind_one_logit_are_never_taken_for_one(activation, dtype, apart):
    # Through a network that is nearly linear, their mean has nearly their gradient.
    first = uniform(1, 1, 8, 8)
    other = first + apart * first.norm() / 8 * (uniform(1, 1, 8, 8, seed=5) - 0.5) * 3.5
    images = torch.cat([first, other.clamp(0, 1)])
    spread = float((images[0] - images[1]).norm() / images[0].norm())
    result = audited(
        grey_cnn(activation, outputs=1),
        images,
        [1, 1],
        loss="binary_cross_entropy",
        gradient_dtype=dtype,
    )
    # What lies within a hundredth of both is either of them for every purpose.
    assert spread > 0.015
    assert not result.status.leak_proven


@pytest.mark.parametrize("label", [0, 1])
def test_a_candidate_that_no_neuron_fires_for_is_given_up(label):
    # One of the two margins gives an output that ReLU cannot have.
    model = drawn(
        nn.Sequential(
            nn.Linear(40, 60, bias=False),
            nn.ReLU(),
            nn.Linear(60, 30, bias=False),
            nn.ReLU(),
            nn.Linear(30, 1, bias=False),
        ),
        scale=2.0,
    )
    images = uniform(1, 40) - 0.5
    result = audited(model, images, [label], loss="binary_cross_entropy", show=None)
    assert result.status is Status.RECOVERED
    direction = images / images.norm()
    found = result.records / result.records.norm()
    assert torch.allclose(found, direction, atol=1e-8)


@pytest.mark.parametrize("name", ["0.weight", "0.bias"])
def test_a_tensor_that_was_sent_as_zeros_is_not_explained(name):
    model = drawn(nn.Sequential(nn.Linear(10, 20), nn.Tanh(), nn.Linear(20, 3)))
    update, _ = FedSGD(model).update(uniform(1, 10), torch.tensor([1]))
    gradient = {key: 0 * value if key == name else value for key, value in update.gradient.items()}
    result = ga.audit(ga.Update(dict(update.weights), gradient), attack="rgap", model=model)
    assert result.status is Status.NOT_RECOVERED
    assert "not the observed one" in result.cause


def test_how_often_a_record_occurs_is_not_claimed():
    images = uniform(1, 1, 8, 8)
    result = audited(grey_cnn(), images.repeat(2, 1, 1, 1), [2, 2])
    assert result.status is Status.RECOVERED
    assert result.evidence[0].copies is None


def test_a_size_that_rests_on_the_loss_is_said_to():
    model = drawn(
        nn.Sequential(
            nn.Linear(30, 50, bias=False), nn.LeakyReLU(0.2), nn.Linear(50, 1, bias=False)
        )
    )
    results = [
        audited(model, uniform(1, 30), [label], loss="binary_cross_entropy", show=None)
        for label in (0, 1)
    ]
    sized = [result for result in results if result.scale_identified]
    assert sized
    assert all("neither clipped" in result.cause for result in sized)


def dense(outputs: int) -> nn.Module:
    return ga.models.mlp(40, [90, 30], outputs, seed=1, dtype="float64")


@pytest.mark.parametrize(
    "clipping",
    [ga.defenses.ClipPerRecord(0.05), ga.defenses.ClipUpdate(0.05), ga.defenses.DPSGD(0.05, 0.0)],
)
@pytest.mark.parametrize(("outputs", "label"), [(3, 0), (3, 1), (10, 7)])
def test_clipping_hides_nothing_where_there_are_biases(outputs, label, clipping):
    record = uniform(1, 40)
    result = audited(dense(outputs), record, [label], show=None, defenses=[clipping])
    assert result.status is Status.RECOVERED
    assert result.scale_identified
    assert result.labels == (label,)
    torch.testing.assert_close(result.records, record, rtol=1e-9, atol=1e-9)
    assert "Its own gradient was multiplied by 0.0" in result.cause


def test_a_clipped_step_of_a_known_rate():
    record, client = uniform(1, 40), {"observe": "delta", "learning_rate": 0.1}
    clipped = {"defenses": [ga.defenses.ClipPerRecord(0.05)], **client}
    result = audited(dense(3), record, [1], show=None, **clipped)
    assert result.records_recovered == 1
    torch.testing.assert_close(result.records, record, rtol=1e-6, atol=1e-6)
    assert "multiplied" in result.cause
    assert "multiplied" not in audited(dense(3), record, [1], show=None, **client).cause


def test_clipping_of_a_network_without_biases_is_no_success_and_no_crash():
    images = uniform(1, 1, 8, 8)
    clipped = [ga.defenses.ClipPerRecord(0.001)]
    result = audited(grey_cnn(), images, [2], defenses=clipped)
    assert result.records_recovered == 0
    assert "clipped" in result.remedy


@pytest.mark.parametrize("records", [2, 5])
@pytest.mark.parametrize("relative", [None, 0.05, 0.7])
@pytest.mark.parametrize(
    ("outputs", "loss"), [(2, "cross_entropy"), (1, "binary_cross_entropy"), (1, "mse"), (2, "mse")]
)
def test_a_free_factor_makes_no_record_of_a_mean(outputs, loss, relative, records):
    # With one gradient at the outputs, up to a factor, that factor would make up for a mean.
    images = uniform(records, 10)
    if relative is not None:
        images = images[:1] * torch.linspace(1, 1 + relative, records).double()[:, None]
    for model in (drawn(nn.Sequential(nn.Linear(10, outputs)), 1), relu_net(outputs)):
        labels = [i % 2 for i in range(records)]
        result = audited(model, images, labels, loss=loss, show=None)
        assert result.records_recovered == 0


def relu_net(outputs: int) -> nn.Module:
    model = nn.Sequential(nn.Linear(10, 40), nn.ReLU(), nn.Linear(40, outputs))
    model = drawn(model, 2)
    with torch.no_grad():
        model[0].bias.zero_()
        model[2].bias.zero_()
    return model


@pytest.mark.parametrize("outputs", [1, 2])
def test_a_target_that_is_no_class_gets_no_label_by_a_factor(outputs):
    model, record = dense(outputs), uniform(1, 40)
    target = torch.full((1, outputs), 5.0, dtype=torch.float64)
    update, _ = FedSGD(model, loss=lambda out, goal: (out - goal).square().mean(1)).update(
        record, target
    )
    result = ga.audit(update, attack="rgap", model=model, loss="mse")
    assert result.records_recovered == 0
