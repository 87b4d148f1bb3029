"""Riemannian Adam step by step against geoopt's, which SPEAR++ was run with."""

from __future__ import annotations

import pytest
import torch
from linear.planted import seeded

from gradaudit.linear.sphere import RiemannianAdam

geoopt = pytest.importorskip("geoopt", reason="the oracle is a development dependency")

ROUNDING = 1e-12  # of a few hundred float64 operations on numbers of about 1


@pytest.mark.parametrize("betas", [(0.9, 0.999), (0.5, 0.9)])
def test_every_step_is_geoopts(betas):
    factor = torch.randn(30, 6, generator=seeded(0), dtype=torch.float64)
    starts = torch.randn(8, 6, generator=seeded(1), dtype=torch.float64)
    starts = torch.nn.functional.normalize(starts, dim=1)

    parameter = geoopt.ManifoldParameter(starts.clone(), manifold=geoopt.Sphere())
    theirs = geoopt.optim.RiemannianAdam([parameter], lr=0.3, betas=betas, eps=1e-8)
    ours, points = RiemannianAdam(betas=betas), starts
    for step in range(60):
        rate = 0.3 / (1 + step)
        theirs.param_groups[0]["lr"] = rate
        theirs.zero_grad()
        (parameter @ factor.T).abs().sum().backward()
        theirs.step()
        points = ours.step(points, (points @ factor.T).sign() @ factor, rate)
        assert float((points - parameter.detach()).abs().max()) < ROUNDING, step
    assert float((points - starts).norm(dim=1).min()) > 0.1
