from __future__ import annotations

import pytest
import torch
from torch.autograd import gradcheck

from gradaudit.gradient_matching.objective import (
    cosine_distance,
    squared_distance,
    total_variation,
)
from gradient_matching.material import convolutional, sample

OBSERVED = {"a": torch.tensor([1.0, -2.0]).double(), "b": torch.tensor([[0.5]]).double()}


def test_distances_are_those_of_one_long_vector():
    generator = torch.Generator().manual_seed(0)
    found = {
        name: torch.randn(3, *g.shape, generator=generator, dtype=torch.float64)
        for name, g in OBSERVED.items()
    }
    long = torch.cat([found["a"], found["b"].flatten(1)], 1)
    observed = torch.tensor([1.0, -2.0, 0.5]).double()
    assert torch.allclose(squared_distance(found, OBSERVED), ((long - observed) ** 2).sum(1))
    cosine = torch.nn.functional.cosine_similarity(long, observed[None])
    assert torch.allclose(cosine_distance(found, OBSERVED), 1 - cosine)


def test_the_cosine_does_not_see_the_scale():
    scaled = {name: 7.0 * g[None] for name, g in OBSERVED.items()}
    assert abs(float(cosine_distance(scaled, OBSERVED))) < 1e-15


def test_total_variation_counts_neighbours():
    image = torch.zeros(1, 1, 3, 4)
    image[0, 0, 1, 1] = 1.0
    # Two steps down of 2 * 4 neighbours, two to the right of 3 * 3.
    assert float(total_variation(image)) == pytest.approx(2 / 8 + 2 / 9)
    assert total_variation(torch.ones(5, 2, 3, 1, 1)).tolist() == [[0.0] * 2] * 5


@pytest.mark.parametrize("distance", [squared_distance, cosine_distance])
def test_the_slope_is_that_of_finite_differences(distance):
    case = sample(convolutional(), (2, 1))
    labels = torch.tensor([[2, 1]])

    def value(inputs):
        return distance(case.target.gradients(inputs, labels), case.target.gradient)

    start = torch.rand(1, 2, 1, 6, 6, generator=torch.Generator().manual_seed(1)).double()
    assert gradcheck(value, start.requires_grad_(), fast_mode=True)
