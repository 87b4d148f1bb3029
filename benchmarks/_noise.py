"""One client whose gradient carries noise, its audit, and what came of it beside the truth."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from _cases import CIFAR, source
from torch import Tensor

import gradaudit as ga
from gradaudit.linear.factor import factor_gradient
from gradaudit.linear.problem import Setting as Sparse
from gradaudit.linear.problem import build_problem
from gradaudit.noisy import factors_above_noise, measure_noise
from gradaudit.noisy.joint import fit_jointly

# A certified record is false when it is further from every true one than so many times its
# estimated error.
FALSE_ABOVE = 3.0


@dataclass(frozen=True, eq=False)
class Sent:
    """A noisy update, and what the client knows.

    Attributes:
        update: What the audit sees.
        truth: The batch.
        gradients: True activation gradients of the first layer, one record a column.
    """

    update: ga.Update
    truth: ga.Truth
    gradients: Tensor

    @property
    def records(self) -> Tensor:
        """True records as flat rows."""
        return self.truth.inputs.flatten(1).double()

    @property
    def observed(self) -> Tensor:
        """The first layer's noisy weight gradient."""
        return next(iter(self.update.linear_layers())).weight_gradient

    def inputs_of(self, layer: str) -> Tensor:
        """What the records are at the door of a later layer."""
        current = self.records
        for each in self.update.linear_layers():
            if each.name == layer:
                return current
            assert each.bias is not None
            current = torch.relu(current @ each.weight.T + each.bias)
        raise ValueError(layer)

    def psnr(self, records: Tensor, of: Sequence[int]) -> list[float]:
        """Of pixels in [0, 1], against the true records of these numbers."""
        preprocessing = self.truth.preprocessing
        assert preprocessing is not None
        ours = preprocessing.to_images(records.numpy())
        true = preprocessing.to_images(self.records[list(of)].numpy())
        return [-10 * math.log10(error) for error in ((ours - true) ** 2).mean((1, 2, 3))]


def simulate(
    shape: tuple[int, int], noise: float, defense: Callable[[float], ga.defenses.Defense], seed: int
) -> Sent:
    """One client.

    Args:
        shape: Batch size and width.
        noise: Standard deviation in an entry of the mean gradient.
        defense: What the client does, at a level of such noise.
        seed: Of the batch, the network and the noise.
    """
    b, m = shape
    batch = source(CIFAR).batch(b, seed=seed, dtype=torch.float64)
    model = ga.models.mlp(batch.inputs[0].numel(), [m] * 5, 10, seed=seed, dtype=torch.float64)

    def send(level: float) -> tuple[ga.Update, ga.Truth]:
        client = ga.clients.FedSGD(model, defenses=[defense(level)], seed=seed)
        return client.update(batch.inputs, batch.labels, batch.preprocessing)

    clean = next(iter(send(0.0)[0].linear_layers())).weight_gradient
    update, truth = send(noise)
    records = truth.inputs.flatten(1)
    return Sent(update, truth, torch.linalg.lstsq(records.T, clean.T).solution.T)


def measure(sent: Sent, *, seed: int, seconds: float) -> dict[str, Any]:
    """Audit one update, and compare what came of it with the truth."""
    worked = time.process_time()
    result = ga.audit(sent.update, seed=seed, budget=ga.Budget(seconds=seconds))
    core_seconds = time.process_time() - worked
    true = sent.records
    every = range(len(true))
    floor = sent.psnr(torch.linalg.lstsq(sent.gradients, sent.observed).solution, every)
    row: dict[str, Any] = {
        "seed": seed,
        "status": result.status.value,
        "layer": result.layer,
        "cause": result.cause,
        "size": len(true),
        "above": _above_noise(sent),
        "certified": result.records_recovered,
        "core_seconds": round(core_seconds, 3),
        "floor_of_all": statistics.fmean(floor),
        "false": 0,
        "labels_right": 0,
        "labels_told": 0,
        "elsewhere": 0,
        "records": [],
    }
    if result.records is None:
        return row
    found = result.records.double()
    if result.layer != next(iter(sent.update.linear_layers())).name:
        inside = sent.inputs_of(result.layer)
        error = torch.cdist(found, inside).amin(1) / inside.shape[1] ** 0.5
        claimed = [evidence.estimated_error or math.nan for evidence in result.evidence]
        false = sum(not e <= FALSE_ABOVE * c for e, c in zip(error.tolist(), claimed, strict=True))
        return row | {"certified": 0, "elsewhere": len(found), "false": false}
    error = torch.cdist(found, true) / true.shape[1] ** 0.5
    nearest = error.argmin(1).tolist()
    search_free = _from_the_truth(sent)
    ours = sent.psnr(found, nearest)
    claimed = [evidence.estimated_error for evidence in result.evidence]
    ratios = [float(error[i].min()) / (claimed[i] or math.nan) for i in range(len(found))]
    told = [i for i, label in enumerate(result.labels) if label is not None]
    labels = sent.truth.labels
    return row | {
        "false": sum(not ratio <= FALSE_ABOVE for ratio in ratios),
        "labels_told": len(told),
        "labels_right": sum(result.labels[i] == int(labels[nearest[i]]) for i in told),
        "records": [
            {
                "truth": j,
                "psnr": round(ours[i], 3),
                "floor": round(floor[j], 3),
                "from_truth": None if search_free is None else round(search_free[j], 3),
                "true_over_estimated": round(ratios[i], 4),
            }
            for i, j in enumerate(nearest)
        ],
    }


def _above_noise(sent: Sent) -> int:
    """Records that the first layer's spectrum shows, whichever layer the audit is about."""
    values = torch.linalg.svdvals(sent.observed)
    return measure_noise(values, tuple(sent.observed.shape), sent.update.noise)[1]


def _from_the_truth(sent: Sent) -> list[float] | None:
    """PSNR of all records by the audit's joint fit, started from the true directions.

    None where fewer directions stand above the noise than there are records.
    """
    layer = next(iter(sent.update.linear_layers()))
    factors = factor_gradient(layer.weight_gradient, generator=torch.Generator().manual_seed(0))
    values = torch.linalg.svdvals(layer.weight_gradient)
    level, rank = measure_noise(values, layer.shape, sent.update.noise)
    if rank != len(sent.records):
        return None
    kept = factors_above_noise(factors, level, rank)
    problem = build_problem(layer, kept, Sparse.SPARSE_GRADIENT)
    fit = fit_jointly(problem, sent.gradients.T @ problem.sparse)
    if fit is None:
        return None
    return sent.psnr(fit.mixtures @ kept.right.T, range(rank))
