"""A client of SPEAR's evaluation, the attack on it, and how close the records came."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from gradaudit.auditing import audit
from gradaudit.budget import Control
from gradaudit.clients import FedAvg, FedSGD
from gradaudit.data import load_source
from gradaudit.defenses import Defense
from gradaudit.errors import InputError, MissingExtraError
from gradaudit.experiments.experiment import Row
from gradaudit.gradient_matching import Knowledge
from gradaudit.metrics import Comparison, compare
from gradaudit.models import mlp
from gradaudit.result import AuditResult
from gradaudit.truth import Truth
from gradaudit.update import LocalTraining, Update

# SPEAR, section 6: a network of six layers, each 200 wide.
WIDTH, HIDDEN_LAYERS = 200, 5
MATCHING = "inverting-gradients"


@dataclass(frozen=True)
class Client:
    """One batch through one network, in the setting of SPEAR's section 6.

    Attributes:
        data: A source, as `gradaudit.data.load_source` reads it.
        batch_size: Records.
        seed: Of the batch and the network.
        one_class: Whether all records are of one class, that of number ``seed``.
        width: Neurons of each hidden layer.
        hidden_layers: How many there are.
        training: Local training, or None for one gradient.
        defenses: What the client does to its gradients.
    """

    data: str
    batch_size: int
    seed: int
    one_class: bool = False
    width: int = WIDTH
    hidden_layers: int = HIDDEN_LAYERS
    training: LocalTraining | None = None
    defenses: tuple[Defense, ...] = ()

    def observe(self) -> tuple[nn.Module, Update, Truth]:
        """The network, what the client sends, and what nobody but the experiment knows."""
        source = load_source(self.data)
        batch = source.batch(
            self.batch_size,
            seed=self.seed,
            label=self.seed % source.classes if self.one_class else None,
        )
        model = mlp(
            batch.inputs[0].numel(),
            [self.width] * self.hidden_layers,
            max(source.classes, 2),
            seed=self.seed,
            dtype=torch.float64,
        )
        own: dict[str, Any] = {"defenses": self.defenses, "seed": self.seed}
        if self.training is None:
            client: FedAvg | FedSGD = FedSGD(model, **own)
        else:
            client = FedAvg(model, training=self.training, **own)
        update, truth = client.update(batch.inputs, batch.labels, batch.preprocessing)
        return model, update, truth


def attack(
    model: nn.Module, update: Update, truth: Truth, name: str, *, seed: int, control: Control
) -> AuditResult:
    """One audit; gradient matching is told the labels, which SPEAR does without.

    Args:
        model: The client's network.
        update: What it sent.
        truth: For the labels alone, and for gradient matching alone.
        name: The attack.
        seed: Of the search.
        control: Budget and interruption.
    """
    knowledge = None
    if name == MATCHING:
        knowledge = Knowledge(len(truth.labels), tuple(sorted(truth.labels.tolist())))
    return audit(update, model=model, attack=name, knowledge=knowledge, seed=seed, control=control)


def quality(result: AuditResult, truth: Truth) -> dict[str, Any]:
    """The columns of SPEAR's Table 1 for one batch; what cannot be measured is None.

    Args:
        result: Of the audit; a batch of which nothing was reconstructed has no metrics.
        truth: The client's records.
    """
    row: dict[str, Any] = {
        "exact": False,
        "recovered": result.records_recovered,
        "submatrices": result.search.counters.get("submatrices"),
        "seconds": round(result.search.elapsed_seconds, 2),
    }
    found = result.records if result.records is not None else result.approximate_records
    if found is None:
        return row
    compared = compared_with(found, truth)
    return row | {
        "exact": compared.exact_batch and not compared.unmatched_truth,
        "psnr": compared.mean_psnr,
        "ssim": compared.mean_ssim,
        "mse": compared.mean_mse,
        "lpips": compared.mean_lpips,
    }


def compared_with(found: torch.Tensor, truth: Truth) -> Comparison:
    """With LPIPS where its network is on this machine, else without."""
    try:
        return compare(found, truth, perceptual="alex")
    except (InputError, MissingExtraError):
        return compare(found, truth)


def mean(rows: Sequence[Row], column: str) -> float | None:
    """The mean over the rows that have a value.

    Example:
        >>> mean([{"psnr": 90.0}, {"psnr": None}, {"psnr": 110.0}], "psnr")
        100.0
    """
    values = [float(row[column]) for row in rows if row.get(column) not in (None, "")]
    return sum(values) / len(values) if values else None


def cell(value: float | None, form: str) -> str:
    """A number for a table, or that it was not measured.

    Example:
        >>> cell(2.61e-6, ".2e"), cell(None, ".1f")
        ('2.61e-06', 'not measured')
    """
    return "not measured" if value is None else format(value, form)
