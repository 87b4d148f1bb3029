"""From a noisy gradient to records: search, joint fit, and again where a direction was wrong."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from gradaudit.budget import Control
from gradaudit.linear.half_space import plausible
from gradaudit.linear.problem import Problem
from gradaudit.noisy.contradiction import resolve_contradictions
from gradaudit.noisy.errors import Errors, estimate_errors
from gradaudit.noisy.joint import Fit, fit_jointly
from gradaudit.noisy.search import TYPICAL_SHARE, search_under_noise

# Times that wrong directions are taken out and looked for anew, and times after these that mixtures
# are told from records by their zeros, where noise leaves these to be seen.
ATTEMPTS, STRICT_ATTEMPTS = 6, 4
# Part of the entries in which zeros stand clear of the noise, from which on they are seen.
SEEN = 0.25
# Half-spaces off by a typical factor above this show that a direction is wrong, whichever it is.
WARM = 2.0
# A direction whose inactive neurons are so many times the noise is wrong, whatever it explains.
STRAINED = 5.0


@dataclass(frozen=True, eq=False)
class NoisyBatch:
    """A reconstruction from a noisy gradient; nothing here is certified.

    Attributes:
        records: One a row.
        activation_gradients: One record a column.
        activity: Probability that neuron i is active for record j.
        consistent: Whether a record's entries look like a record's, beside the others'.
        errors: What the noise is expected to leave.
    """

    records: Float[Tensor, "b n"]
    activation_gradients: Float[Tensor, "m b"]
    activity: Float[Tensor, "b m"]
    consistent: Bool[Tensor, " b"]
    errors: Errors


@dataclass(frozen=True, eq=False)
class Recovery:
    """What came of a search under noise.

    Attributes:
        batch: The reconstruction, or None.
        directions_found: Of how many records.
        stopped: Why the search ended before all were found; empty if they were.
        counters: What was counted.
        seconds: By phase.
    """

    batch: NoisyBatch | None
    directions_found: int
    stopped: str
    counters: dict[str, float] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)


def recover_under_noise(
    problem: Problem, *, generator: torch.Generator, control: Control
) -> Recovery:
    """Reconstruct the batch behind a noisy gradient.

    A single wrong direction is mixed into all records. After each joint fit those whose entries
    explain much less than the others' are taken out, and looked for again where only they can be.
    Mixtures of records that resemble each other explain nearly as much as records: where that does
    not lead to a batch, those are taken out whose zeros are no side of a hyperplane.

    Args:
        problem: The layer, at the rank that stands above the noise, with a bias gradient.
        generator: On the device.
        control: Of the time.
    """
    clock = time.perf_counter
    seconds = {"search": 0.0, "fit": 0.0}
    kept: Tensor | None = None
    fit: Fit | None = None
    consistent = torch.zeros(0, dtype=torch.bool)
    starts, found, stopped = 0, 0, ""
    for attempt in range(ATTEMPTS + STRICT_ATTEMPTS):
        strict = attempt >= ATTEMPTS
        if strict and (fit is None or not _zeros_are_seen(problem, fit)):
            break
        began = clock()
        search = search_under_noise(
            problem, generator=generator, control=control, known=kept, strict=strict
        )
        seconds["search"] += clock() - began
        starts += search.starts
        began = clock()
        control.report(f"layer {problem.layer.name}: fitting all directions together")
        latest = fit_jointly(problem, search.directions)
        if latest is not None:
            latest = resolve_contradictions(problem, latest)
        seconds["fit"] += clock() - began
        if latest is None:
            stopped = stopped or search.stopped or "the directions found do not make a batch"
            break
        good = _good(latest)
        if fit is None or int(good.sum()) >= found:
            fit, consistent, found, stopped = latest, good, int(good.sum()), search.stopped
        if bool(good.all()) or control.stop_reason() is not None:
            break
        kept = torch.nn.functional.normalize(latest.directions, dim=1)
        kept = kept[good if attempt + 1 < ATTEMPTS else plausible(problem, kept)]
    counters = {"starts": float(starts)}
    if fit is None:
        return Recovery(None, found, stopped, counters, seconds)
    if found == problem.batch_size:
        stopped = ""
    batch = NoisyBatch(
        fit.mixtures @ problem.factors.right.T,
        problem.sparse @ fit.directions.T,
        fit.activity,
        consistent,
        estimate_errors(problem, fit, generator=generator),
    )
    return Recovery(batch, found, stopped, counters, seconds)


def _zeros_are_seen(problem: Problem, fit: Fit) -> bool:
    directions = torch.nn.functional.normalize(fit.directions, dim=1)
    return float(problem.informative(directions).to(directions).mean()) >= SEEN


def _good(fit: Fit) -> Bool[Tensor, " b"]:
    """Which records to keep: all that explain enough, or all but the one that explains least."""
    good = (fit.evidence > TYPICAL_SHARE * fit.evidence.median()) & (fit.strain < STRAINED)
    if bool(good.all()) and float(fit.temperature.median()) > WARM:
        good[fit.evidence.argmin()] = False
    return good
