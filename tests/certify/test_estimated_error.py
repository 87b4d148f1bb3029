"""What the evidence says about a record's error, against the error."""

from __future__ import annotations

import pytest
import torch

from certify.settings import case, errors
from gradaudit.linear.disaggregate import disaggregate

# (options, least and most that the median of true error over estimate may be)
RATIOS = {
    "float64": ({}, 1e-5, 1.0),
    "rounded to float32": ({"rounded": "float32"}, 0.05, 2.0),
    "computed in float32": ({"dtype": "float32"}, 0.05, 2.0),
    "rounded to bfloat16": ({"rounded": "bfloat16", "features": 200, "neurons": 200}, 0.02, 2.0),
}


@pytest.mark.parametrize("name", RATIOS)
def test_the_estimate_is_of_the_errors_size(name):
    """An upper estimate: of one order with rounding, of three with float64's worst case."""
    options, least, most = RATIOS[name]
    ratios = []
    for batch in (1, 2, 4):
        for seed in range(6):
            sample = case(batch, seed=seed, **options)
            if sample.problem.batch_size != batch:
                continue
            # The directions of the truth, as the best search would find them.
            inside = sample.inputs @ sample.problem.factors.right
            gradients = (
                sample.problem.factors.left * sample.problem.factors.values
            ) @ torch.linalg.inv(inside)
            directions = (sample.problem.factors.left.T @ gradients).T
            directions = directions / directions.norm(dim=1, keepdim=True)
            batch_found = disaggregate(sample.problem, directions)
            verdict = sample.judge(batch_found.records)
            actual = errors(batch_found.records, sample.inputs)
            estimated = torch.tensor([e.estimated_error for e in verdict.evidence])
            ratios += (actual / estimated).tolist()
    ratios = torch.tensor(ratios)
    print(f"{name}: median {ratios.median():.2g}, largest {ratios.max():.2g} of {len(ratios)}")
    assert len(ratios) > 20
    assert least < float(ratios.median()) < most
    assert float(ratios.max()) < 10
