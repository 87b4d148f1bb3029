from __future__ import annotations

import pytest
import torch

from gradaudit.rgap.operators import LayerEquations
from gradaudit.rgap.phases import Phases
from rgap.test_operators import LAYERS, layer, normal

PHASES = {"dense": 1, "plain": 1, "general": 2, "beyond the kernel": 9, "pooled": 1}


@pytest.mark.parametrize("name", LAYERS)
def test_one_matrix_a_phase_serves_every_channel(name):
    _, step, shape = layer(name)
    inputs = normal(2, *shape).flatten(1)
    equations = LayerEquations(step, normal(2, *step.layer_shape, seed=6).flatten(1))
    phases = Phases(step)
    matrix = phases.matrix(equations.k)
    assert matrix.shape[2] == PHASES[name]
    blocks = phases.split(inputs.reshape(2, step.groups, -1, phases.entries))
    gradient = equations.gradient(inputs)
    taps = equations.patches.taps
    by_channel = gradient.reshape(*equations.k.shape[:3], -1, taps)
    assert torch.allclose(matrix @ blocks.mT, phases.rows(by_channel))
    # Every entry of the gradient stands in some block.
    assert torch.allclose(phases.rows(by_channel).square().sum(), gradient.square().sum())


@pytest.mark.parametrize("name", LAYERS)
def test_phases_are_joined_as_they_were_split(name):
    _, step, _ = layer(name)
    phases = Phases(step)
    images = normal(2, step.groups, 3, phases.entries)
    blocks = phases.split(images)
    assert torch.equal(phases.join(blocks), images)
    other = normal(*blocks.shape, seed=5)
    assert torch.allclose((blocks * other).sum(), (images * phases.join(other)).sum())
