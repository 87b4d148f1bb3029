"""One simulated update audited, and what was found compared with the truth."""

from __future__ import annotations

import torch
from torch import Tensor

from gradaudit.auditing import audit
from gradaudit.budget import Control
from gradaudit.defending.run import RecordOutcome, Run
from gradaudit.defending.simulation import Simulation
from gradaudit.metrics import compare
from gradaudit.result import AuditResult
from gradaudit.truth import Truth

# Larger values cannot be squared and summed; no record holds such.
_LARGEST = 1e100


def measure(
    simulation: Simulation, *, loss: str, attack: str, seed: int, device: str, control: Control
) -> Run:
    """Audit an update, given the network and the loss, and compare what comes of it.

    Args:
        simulation: The update, and the truth, which the audit does not see.
        loss: The client's.
        attack: As `gradaudit.audit` takes it.
        seed: Of the audit.
        device: As `gradaudit.audit` takes it.
        control: Limits and stop flag of this audit alone.

    Raises:
        InputError: The attack or the device is not there.
    """
    result = audit(
        simulation.update,
        model=simulation.network,
        loss=loss,
        attack=attack,
        seed=seed,
        device=device,
        control=control,
    )
    return Run(
        seed=seed,
        update_sha256=result.update_sha256,
        distortion=simulation.distortion,
        noise=simulation.update.noise,
        batch_size=simulation.truth.batch_size,
        status=result.status,
        cause=result.cause,
        attack=result.search.attack,
        certified=result.records_recovered,
        matched=compare_with_truth(result, simulation.truth),
        seconds=control.elapsed_seconds,
    )


def compare_with_truth(result: AuditResult, truth: Truth) -> tuple[RecordOutcome, ...]:
    """Match what an audit gave, certified or as an estimate, with the records of the client.

    Nothing is matched where it gave features of an inner layer.

    Args:
        result: What the audit gave.
        truth: What the client used.
    """
    length = truth.inputs[0].numel()
    given: list[tuple[Tensor, bool, float | None]] = []
    if result.records is not None:
        for row, item in zip(result.records, result.evidence, strict=True):
            given.append((row, item.recovered, item.estimated_error))
    if result.approximate_records is not None:
        for row, guess in zip(result.approximate_records, result.approximate_evidence, strict=True):
            given.append((row, False, guess.estimated_error))
    usable = [each for each in given if len(each[0]) == length and _is_usable(each[0])]
    if not usable:
        return ()
    comparison = compare(
        torch.stack([row for row, _, _ in usable]),
        truth,
        up_to_scale=not result.scale_identified,
        structural=False,
    )
    return tuple(
        RecordOutcome(*usable[pair.record][1:], true_error=pair.mse**0.5, psnr=pair.psnr)
        for pair in comparison.pairs
    )


def _is_usable(row: Tensor) -> bool:
    return bool((row.abs() <= _LARGEST).all())
