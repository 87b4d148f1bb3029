from __future__ import annotations

import pytest
import torch
from rgap.networks import generator, small_cnn, uniform
from torch import nn

from gradaudit.certify.reconstruction import judge_reconstruction
from gradaudit.clients import FedSGD
from gradaudit.models import mlp
from gradaudit.models.loaded import load_model
from gradaudit.models.losses import get_loss


def judged(model, images, labels, *, loss, moved=0.0, determined=None, dtype=None, scale=1.0):
    update, _ = FedSGD(model, loss=loss, gradient_dtype=dtype).update(images, labels)
    found = scale * (images.double() + moved * uniform(*images.shape, seed=8))
    return judge_reconstruction(
        load_model(model, update),
        update,
        get_loss(loss),
        found,
        labels,
        generator=generator(5),
        determined=determined,
    )


def test_the_true_record_is_certified_with_an_error_of_its_size():
    verdict = judged(
        small_cnn(),
        uniform(1, 2, 8, 8),
        torch.tensor([1]),
        loss="cross_entropy",
        moved=1e-6,
        dtype="float32",
    )
    assert verdict.recovered
    assert verdict.certificate.kind == "full_gradient"
    assert verdict.evidence[0].label == 1
    # The root mean square of what was added is 1e-6 / sqrt(3).
    assert 0.3e-6 < verdict.evidence[0].estimated_error < 2e-6
    assert verdict.sensitivity.determined


@pytest.mark.parametrize("wrong", ["moved", "label"])
def test_what_does_not_give_the_gradient_is_refused(wrong):
    images, labels = uniform(1, 2, 8, 8), torch.tensor([1])
    update, _ = FedSGD(small_cnn(), loss="cross_entropy").update(images, labels)
    if wrong == "moved":
        images = images + 0.01
    else:
        labels = torch.tensor([2])
    verdict = judge_reconstruction(
        load_model(small_cnn(), update),
        update,
        get_loss("cross_entropy"),
        images.double(),
        labels,
        generator=generator(5),
    )
    assert not verdict.recovered
    assert "is not the observed one" in verdict.reason
    assert not any(record.recovered for record in verdict.evidence)


def test_two_records_between_which_nothing_tells_are_not_one():
    # Of a linear classifier with one logit, any two records look like one.
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(30, 1, bias=False)).double()
    verdict = judged(
        model, uniform(1, 30), torch.tensor([1]), loss="binary_cross_entropy", determined=True
    )
    assert not verdict.recovered
    assert "hardly more entries" in verdict.reason


def test_an_input_that_the_network_does_not_look_at_is_not_certified():
    class Blind(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = small_cnn()

        def forward(self, images):
            seen = torch.ones_like(images)
            seen[:, :, 0, 0] = 0
            return self.inner(images * seen)

    verdict = judged(Blind(), uniform(1, 2, 8, 8), torch.tensor([1]), loss="cross_entropy")
    assert not verdict.recovered
    assert "Other inputs near it" in verdict.reason


def test_a_coarse_gradient_is_judged_by_its_own_rounding():
    images, labels = uniform(1, 2, 8, 8), torch.tensor([0])
    errors = [
        judged(small_cnn(), images, labels, loss="cross_entropy", dtype=dtype).sensitivity.error
        for dtype in ("float32", "float16")
    ]
    # Their roundings differ by 2^13.
    assert 1e3 < errors[1] / errors[0] < 1e5


def test_the_multiple_with_the_same_gradient_is_named_and_matches_too():
    model = small_cnn(outputs=1, scale=0.6)
    images = uniform(1, 2, 8, 8)
    label = int(model(images)[0, 0] > 0)
    labels = torch.tensor([label])
    first = judged(model, images, labels, loss="binary_cross_entropy", determined=True)
    assert first.recovered
    assert first.twin is not None
    other = judged(
        model,
        images,
        labels,
        loss="binary_cross_entropy",
        scale=first.twin.factor,
        determined=True,
    )
    assert other.recovered
    assert other.twin.factor == pytest.approx(1 / first.twin.factor, rel=1e-6)
    # With the other label there is one solution only.
    lone = judged(model, images, 1 - labels, loss="binary_cross_entropy", determined=True)
    assert lone.recovered
    assert lone.twin is None


@pytest.mark.parametrize("rescaled", [False, True])
def test_of_two_classes_neither_is_known_by_a_multiple(rescaled):
    model = mlp(20, [40, 30], 2, seed=1, dtype="float64")
    record = torch.randn(1, 20, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    update, _ = FedSGD(model).update(record, torch.tensor([0]))
    loaded = load_model(model, update)
    recovered = []
    for label in (0, 1):
        verdict = judge_reconstruction(
            loaded,
            update,
            get_loss("cross_entropy"),
            record,
            torch.tensor([label]),
            generator=torch.Generator().manual_seed(0),
            rescaled=rescaled,
        )
        recovered.append(verdict.recovered)
    # The other one's gradient is a negative multiple, and several records' mean a positive one.
    assert recovered == [not rescaled, False]
