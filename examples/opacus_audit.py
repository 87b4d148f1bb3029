"""What one step of DP-SGD with Opacus still reveals, at one noise level after another.

A client takes one step on handwritten digits: every record's gradient is clipped, Gaussian noise is
added, and the result is audited as a server would see it. Clipping alone hides nothing, since it
only rescales each record's part. A little noise makes records inexact, each by about as much as the
audit estimates; more noise hides them. How much it takes is what the table shows.

    pip install 'gradaudit[opacus,data]'
    python examples/opacus_audit.py --noise 0 1e-6 1e-4 1e-2 1

Each line is one run: the noise multiplier, the standard deviation of the noise in an entry of the
gradient, the epsilon that this one step costs at delta = 1e-5, the records that the audit recovered
and those that it estimated, and how far these are from the client's own: the largest error of a
pixel (black 0, white 1), of the median record.
"""

from __future__ import annotations

import argparse
import statistics
import warnings
from dataclasses import dataclass

import torch
from opacus import PrivacyEngine
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import gradaudit as ga

RECORDS, EXPECTED_BATCH = 256, 12
MAX_GRAD_NORM = 1.0
DELTA = 1e-5
# Its advice on random generators, and torch's on hooks of a first layer and on old accountants.
OPACUS_ADVICE = ("Secure RNG turned off", "Full backward hook is firing", "Optimal order is")
DIGITS = ga.data.load_source("digits")


@dataclass(frozen=True)
class Row:
    """What came of one noise level.

    Attributes:
        noise_multiplier: sigma.
        noise: Standard deviation in an entry of the gradient that was sent.
        epsilon: Cost of the step.
        batch_size: Records that the step was made of.
        result: The audit.
        pixel_error: Largest error of a pixel, of the median record found, or None without any.
    """

    noise_multiplier: float
    noise: float
    epsilon: float
    batch_size: int | None
    result: ga.AuditResult
    pixel_error: float | None


def record_step(noise_multiplier: float) -> tuple[ga.opacus.PrivateStep, ga.Truth, float]:
    """Train for one step with Opacus: the step, the records behind it, and its epsilon."""
    data = DIGITS.batch(RECORDS, seed=1, dtype=torch.float32)
    model = ga.models.mlp(DIGITS.preprocessing.features, [200], DIGITS.classes, seed=2)
    engine = PrivacyEngine(accountant="rdp")
    model, optimizer, loader = engine.make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        data_loader=DataLoader(
            TensorDataset(data.inputs, data.labels),
            batch_size=EXPECTED_BATCH,
            # The same records are drawn at every noise level.
            generator=torch.Generator().manual_seed(3),
        ),
        noise_multiplier=noise_multiplier,
        max_grad_norm=MAX_GRAD_NORM,
        noise_generator=torch.Generator().manual_seed(4),
    )
    preprocessing = DIGITS.preprocessing
    with ga.opacus.Recorder(optimizer, model, preprocessing=preprocessing) as recorder:
        inputs, labels = next(iter(loader))
        nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
    epsilon = engine.get_epsilon(DELTA) if noise_multiplier > 0 else float("inf")
    return recorder.steps[0], ga.Truth(inputs, labels, preprocessing), epsilon


def audit_step(noise_multiplier: float, seconds: float = 30) -> Row:
    """Record a step, audit what was sent, and compare with what the client used."""
    step, truth, epsilon = record_step(noise_multiplier)
    result = ga.audit(step.sent, budget=ga.Budget(seconds=seconds))
    found = [part for part in (result.records, result.approximate_records) if part is not None]
    error = None
    if found:
        pairs = ga.metrics.compare(torch.cat(found), truth, structural=False).pairs
        (deviation,) = truth.preprocessing.std
        error = deviation * statistics.median(pair.max_abs_error for pair in pairs)
    return Row(noise_multiplier, step.sent.noise, epsilon, step.batch_size, result, error)


def main() -> None:
    """Audit one step at each noise level."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--noise", type=float, nargs="+", default=[0, 1e-6, 1e-4, 1e-2, 1])
    parser.add_argument("--seconds", type=float, default=30, help="limit of each search")
    options = parser.parse_args()
    for message in OPACUS_ADVICE:
        warnings.filterwarnings("ignore", message=message)
    print(f"{'sigma':>7} {'noise':>9} {'epsilon':>9}  recovered  estimated  error")
    for noise_multiplier in options.noise:
        row = audit_step(noise_multiplier, options.seconds)
        error = "-" if row.pixel_error is None else f"{row.pixel_error:.1e}"
        estimates = row.result.approximate_records
        estimated = 0 if estimates is None else len(estimates)
        recovered = f"{row.result.records_recovered} of {row.batch_size}"
        numbers = f"{row.noise_multiplier:7.0e} {row.noise:9.1e} {row.epsilon:9.3g}"
        print(f"{numbers}  {recovered:>9}  {estimated:>9}  {error:>7}\n    {row.result.cause}")


if __name__ == "__main__":
    main()
