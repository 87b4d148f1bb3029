from __future__ import annotations

import pytest
import torch

from gradaudit.clients import FedSGD
from gradaudit.defenses import parse_defense
from gradaudit.linear.cutoff import find_cutoff
from gradaudit.models import mlp

SIZES = (60, [40, 40], 10)
OTHERS = ("quantise:bits=8", "quantise:bits=4", "sign", "mask:share=0.7")


def gradients(
    *, defense: str | None = None, records: str = "normal", batch: int = 3, seed: int = 0
):
    """Weight gradients of a small network, of records of several kinds."""
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(batch, SIZES[0], generator=generator)
    if records == "black":
        # Pixels of 256 levels, half of them black.
        inputs = (inputs.clamp(0, 1) * 255).round() / 255
    elif records == "binary":
        inputs = (inputs > 0).float()
    labels = torch.randint(0, 10, (batch,), generator=generator)
    defenses = [] if defense is None else [parse_defense(defense)]
    client = FedSGD(mlp(*SIZES, seed=seed), defenses=defenses)
    update, _ = client.update(inputs, labels)
    return [layer.weight_gradient for layer in update.linear_layers()]


@pytest.mark.parametrize("records", ["normal", "black", "binary"])
@pytest.mark.parametrize("batch", [1, 2, 5, 30])
def test_a_gradient_as_it_is_was_not_cut(records, batch):
    for seed in range(5):
        for gradient in gradients(records=records, batch=batch, seed=seed):
            assert find_cutoff(gradient) is None


@pytest.mark.parametrize(
    "defense", ["quantise:bits=8", "quantise:bits=4", "sign", "mask:share=0.7"]
)
def test_other_defences_cut_nothing_off(defense):
    assert not any(map(find_cutoff, gradients(defense=defense)))


@pytest.mark.parametrize("share", [0.3, 0.5, 0.8])
def test_pruning_is_seen_with_the_magnitude_that_was_kept(share):
    seen = 0
    pairs = zip(gradients(), gradients(defense=f"prune:share={share}"), strict=True)
    for before, gradient in pairs:
        cut = (before != 0) & (gradient == 0)
        # Dead neurons have zeros of their own, of which pruning takes the first.
        if cut.float().mean() < 0.1:
            continue
        found = find_cutoff(gradient)
        assert found is not None
        assert found.least == before.abs()[gradient != 0].min() > before.abs()[cut].max()
        seen += 1
    assert seen


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_the_type_does_not_matter(dtype):
    gradient = gradients(defense="prune:share=0.6")[0].to(dtype)
    assert find_cutoff(gradient) is not None


def test_nothing_is_not_cut():
    assert find_cutoff(torch.zeros(4, 3)) is None
    assert find_cutoff(torch.ones(4, 3)) is None
