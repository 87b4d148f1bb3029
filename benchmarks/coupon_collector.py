"""Submatrices until all directions are found, against the coupon collector at the true hit rate.

Gaussian inputs, a wide layer. Counted in blocks of 64 submatrices. Beside it Lemma 5.2's figure
(SPEAR, arXiv 2403.03945), an upper bound, since Lemma 5.1 bounds the hit rate from below.

    python benchmarks/coupon_collector.py [--seeds 20]
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch

from gradaudit.budget import Budget, Control
from gradaudit.clients import FedSGD
from gradaudit.experiments.machine import machine
from gradaudit.linear.factor import factor_gradient
from gradaudit.linear.pool import Pool
from gradaudit.linear.problem import Problem, Setting, build_problem
from gradaudit.linear.proposers import SubmatrixSampler
from gradaudit.models import mlp
from gradaudit.theory import coupon_collector, expected_submatrices

WIDTH, INPUTS, CLASSES, BLOCK, RATE_SAMPLE = 2000, 100, 10, 64, 16_384
LIMIT = Control(Budget(seconds=600.0))


def planted(batch: int, seed: int) -> tuple[Problem, torch.Tensor]:
    """A problem and its true directions, read off the true records."""
    generator = torch.Generator().manual_seed(seed)
    network = mlp(INPUTS, [WIDTH, WIDTH], CLASSES, dtype=torch.float64, generator=generator)
    records = torch.randn(batch, INPUTS, generator=generator, dtype=torch.float64)
    labels = torch.randint(CLASSES, (batch,), generator=generator)
    update, _ = FedSGD(network, dtype="float64").update(records, labels)
    layer = next(update.linear_layers())
    factors = factor_gradient(layer.weight_gradient, generator=generator)
    problem = build_problem(layer, factors, Setting.SPARSE_GRADIENT)
    # X = Q^-1 S V^T up to scale: the columns of Q are those of (X V S^-1)^-1.
    directions = torch.linalg.inv((records @ factors.right) / factors.values).T
    return problem, directions / directions.norm(dim=1, keepdim=True)


def count(problem: Problem, truth: torch.Tensor, seed: int) -> int:
    sampler = SubmatrixSampler(problem, round_size=BLOCK)
    generator, pool, tried = torch.Generator().manual_seed(seed), Pool(problem), 0
    minimum = int(0.4 * len(problem.unit_rows))
    found = torch.zeros(len(truth), dtype=torch.bool)
    while not bool(found.all()) and LIMIT.stop_reason() is None:
        proposals = sampler.propose(generator, minimum)
        tried += proposals.tried
        if pool.add(proposals.directions, minimum):
            found = ((truth @ pool.directions.T).abs() > 1 - 1e-9).any(1)
    return tried


def true_rate(problem: Problem, truth: torch.Tensor, seed: int) -> float:
    """Share of submatrices whose kernel is a true direction."""
    sampler = SubmatrixSampler(problem, dtype=torch.float64)
    generator, hits = torch.Generator().manual_seed(seed), 0
    for _ in range(RATE_SAMPLE // 2048):
        kernels = sampler._kernels(2048, generator)
        hits += int(((kernels @ truth.T).abs() > 1 - 1e-9).any(1).sum())
    return hits / RATE_SAMPLE


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=20)
    seeds = parser.parse_args().seeds
    torch.set_num_threads(1)
    rows = []
    for batch in (8, 9, 10, 11, 12):
        counts, rates = [], []
        for seed in range(seeds):
            problem, truth = planted(batch, seed)
            counts.append(count(problem, truth, seed + 1000))
            rates.append(true_rate(problem, truth, seed + 2000))
        mean, rate = sum(counts) / seeds, sum(rates) / seeds
        # Records fire unequally in one network: expectations are taken seed by seed.
        predicted = sum(coupon_collector(batch) / r for r in rates) / seeds
        spread = torch.tensor(counts, dtype=torch.float64).std().item() / seeds**0.5
        rows.append(
            {
                "batch_size": batch,
                "submatrices": mean,
                "standard_error": spread,
                "hit_rate": rate,
                "coupon_collector": predicted,
                "ratio": mean / predicted,
                "lemma_5_2": expected_submatrices(batch),
            }
        )
        print(rows[-1])
    folder = Path(__file__).parent / "results"
    result = {"environment": machine(), "seeds": seeds, "width": WIDTH, "rows": rows}
    (folder / "coupon_collector.json").write_text(json.dumps(result, indent=2) + "\n")
    lines = [
        "# Submatrices until all directions are found",
        "",
        f"Gaussian inputs ({INPUTS}), width {WIDTH}, mean over {seeds} seeds, float64. The coupon "
        "collector's figure is b H_b over the measured share of submatrices that hit.",
        "",
        "| b | submatrices | s.e. | hit rate | coupon collector | ratio | Lemma 5.2 (bound) |",
        "|---:|---:|---:|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {r['batch_size']} | {r['submatrices']:,.0f} | {r['standard_error']:,.0f} | "
        f"{r['hit_rate']:.4f} | {r['coupon_collector']:,.0f} | {r['ratio']:.2f} | "
        f"{r['lemma_5_2']:,.0f} |"
        for r in rows
    ]
    lines += ["", f"Environment: `{json.dumps(machine())}`", ""]
    (folder / "coupon_collector.md").write_text("\n".join(lines))


if __name__ == "__main__":
    main()
