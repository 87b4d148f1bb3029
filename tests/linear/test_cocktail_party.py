from __future__ import annotations

import functools

import pytest
import torch

from gradaudit.budget import Budget, Control
from gradaudit.linear.cocktail_party import AGREEMENT, cocktail_party
from gradaudit.linear.factor import factor_gradient

SHAPE = (1, 24, 24)


def textures(count: int) -> torch.Tensor:
    """Smooth images of two greys and what is between them."""
    noise = torch.randn(count, 1, 30, 30, generator=torch.Generator().manual_seed(0)).double()
    smooth = torch.nn.functional.avg_pool2d(noise, 7, stride=1)
    return (7 * smooth).clamp(-0.5, 0.5).add(0.5).flatten(1)


def sent(records: torch.Tensor, bias: bool = True):
    generator = torch.Generator().manual_seed(2)
    gradients = torch.randn(40, len(records), generator=generator, dtype=torch.float64)
    factors = factor_gradient(gradients @ records, generator=generator)
    return factors, gradients.sum(1) if bias else None


def unmix(records, *, bias=True, seed=0, shape=SHAPE, control=None):
    return cocktail_party(
        *sent(records, bias),
        image_shape=shape,
        generator=torch.Generator().manual_seed(seed),
        control=control or Control(Budget(seconds=60)),
    )


@functools.cache
def found_images():
    """What is found of six images; a search takes seconds, whatever their number."""
    return unmix(textures(6))


def cosines(found: torch.Tensor, records: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.cosine_similarity(found[:, None], records[None], dim=2)


def centred(records: torch.Tensor) -> torch.Tensor:
    return records - records.mean(1, keepdim=True)


def test_images_are_found_with_their_scale_and_sign():
    records, found = textures(6), found_images()
    assert found.scale_identified
    best = cosines(centred(found.records), centred(records)).max(0)
    assert best.values.min() > 0.85
    assert best.indices.unique().numel() == 6
    errors = (found.records[best.indices] - records).square().mean(1)
    assert errors.median() < 0.1 * records.var()
    assert bool(found.stable.any())


def test_without_a_bias_gradient_they_are_unit_vectors_of_either_sign():
    records = textures(6)
    found = unmix(records, bias=False)
    assert not found.scale_identified
    assert torch.allclose(found.records.norm(dim=1), torch.ones(6).double())
    assert cosines(centred(found.records), centred(records)).abs().max(0).values.min() > 0.85


def test_what_is_gaussian_is_not_called_stable():
    # Any rotation of Gaussian sources is as independent; of five rows, two runs that agree by
    # chance to a cosine of 0.99 in all of them have a probability far below 1e-6.
    records = torch.randn(5, 2000, generator=torch.Generator().manual_seed(3)).double()
    assert pytest.approx(0.99) == AGREEMENT
    assert not bool(unmix(records, shape=None).stable.all())


def test_a_seed_decides_and_an_interruption_ends():
    records = textures(6)
    assert unmix(records).records.equal(found_images().records)
    control = Control(Budget(seconds=60))
    control.listener = lambda _: control.interrupt()
    found = unmix(records, control=control)
    assert found.stopped == "interrupted"
    assert found.counters["iterations"] < 100
    assert not bool(found.stable.any())
    assert bool(found.records.isfinite().all())
