"""DP-SGD's clipped gradient, as Opacus computes it."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from gradaudit.clients import FedSGD
from gradaudit.defenses import DPSGD
from gradaudit.models import mlp

optimizers = pytest.importorskip("opacus.optimizers")
grad_sample = pytest.importorskip("opacus.grad_sample")


# Of Opacus' hooks, on inputs that need no gradient.
@pytest.mark.filterwarnings("ignore:Full backward hook is firing:UserWarning")
@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("expected", [None, 8])
def test_the_clipped_gradient_is_opacus(reduction, expected):
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(5, 6, generator=generator, dtype=torch.float64)
    labels = torch.randint(3, (5,), generator=generator)
    model = mlp(6, [7], 3, seed=1, dtype="float64")
    # Between the norms of the records' gradients, some of which are clipped.
    clip = 1.0
    ours = FedSGD(model, reduction=reduction, defenses=[DPSGD(clip, 0.0, expected)])
    wrapped = grad_sample.GradSampleModule(copy.deepcopy(model), loss_reduction=reduction)
    optimizer = optimizers.DPOptimizer(
        torch.optim.SGD(wrapped.parameters(), lr=0.1),
        noise_multiplier=0.0,
        max_grad_norm=clip,
        expected_batch_size=expected or len(inputs),
        loss_reduction=reduction,
    )
    nn.CrossEntropyLoss(reduction=reduction)(wrapped(inputs), labels).backward()
    optimizer.pre_step()
    update, _ = ours.update(inputs, labels)
    for name, parameter in wrapped._module.named_parameters():
        torch.testing.assert_close(update.gradient[name], parameter.grad, rtol=1e-10, atol=1e-13)
    unclipped = FedSGD(model, reduction=reduction).update(inputs, labels)[0].gradient
    assert not torch.allclose(update.gradient["fc1.weight"], unclipped["fc1.weight"])
