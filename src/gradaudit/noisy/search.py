"""The search under noise: half-space candidates, sharpened, sifted, and completed."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from gradaudit.budget import Control
from gradaudit.linear.half_space import plausible
from gradaudit.linear.problem import Problem
from gradaudit.linear.proposers.halfspace import HalfSpaceSearch
from gradaudit.noisy.expectation import Sharpened, sharpen_under_noise

# Two directions that agree more than this are one. Those of records of one class that resemble each
# other agree by up to so much; mixtures that agree less are told by their strain (see `joint`).
SAME = 0.9
# A wrong direction explains about 1.5 nats for each of its dimensions, spread over the neurons:
# it vanishes by design on as many rows. True ones explain several times that.
NATS_PER_DIMENSION = 2.0
# And no less than this part of what the directions found before it typically explain: once few are
# missing, what is left to search is so small that wrong ones explain more than they would at first.
TYPICAL_SHARE = 0.4
# Rounds without a new direction before the search takes what it has. The later ones start from
# more points, and try harder.
BARREN_ROUNDS = 3


@dataclass(frozen=True, eq=False)
class Search:
    """What the search ended with.

    Attributes:
        directions: A complete basis, as unit rows: what was found, the best first, then fillers.
        found: How many of them were found.
        starts: That ran.
        stopped: Why before all were found; empty if they were.
    """

    directions: Float[Tensor, "b b"]
    found: int
    starts: int
    stopped: str


def search_under_noise(
    problem: Problem,
    *,
    generator: torch.Generator,
    control: Control,
    known: Float[Tensor, "f b"] | None = None,
    strict: bool = False,
) -> Search:
    """Look for all directions of a noisy gradient.

    Args:
        problem: The layer, in the sparse-gradient setting, at the rank that stands above the noise.
        generator: On the factors' device.
        control: Of the time.
        known: Directions that need not be looked for.
        strict: Whether a direction must also pass the half-space test of searches without noise,
            which says nothing where noise covers the zeros. Mixtures of records that resemble each
            other explain nearly as much as records do.

    Returns:
        A basis. Where directions are missing, the best of what was rejected and what is
        orthogonal to everything else stand in; the joint fit often leads them to the rest.
    """
    size = problem.batch_size
    if size == 1:
        return Search(torch.ones_like(problem.unit_rows[:1]), 1, 0, "")
    proposer = HalfSpaceSearch(problem, steer=False)
    found = problem.unit_rows[:0] if known is None else known
    rejected = Sharpened(found[:0], found.new_zeros(0, len(problem.sparse)), found.new_zeros(0))
    starts = barren = 0
    stopped = ""
    threshold = NATS_PER_DIMENSION * size / len(problem.sparse)
    explained = found.new_zeros(0)
    while len(found) < size:
        stopped = control.stop_reason() or ""
        if not stopped and barren >= BARREN_ROUNDS:
            stopped = "no further direction stands out"
        if stopped:
            break
        control.report(f"layer {problem.layer.name}: {len(found)} of {size} directions found")
        sharp, ran = _round(problem, proposer, found, generator)
        starts += ran
        chosen = distinct(sharp, found)[: size - len(found)]
        explained = explained if len(explained) else sharp.evidence[chosen]
        explained = explained[explained > threshold]
        typical = float(explained.median()) if len(explained) else 0.0
        good = sharp.evidence[chosen] > max(threshold, TYPICAL_SHARE * typical)
        if strict:
            good &= plausible(problem, sharp.directions[chosen])
        explained = torch.cat([explained, sharp.evidence[chosen[good]]])
        rejected = sharp.subset(chosen[~good])
        barren = 0 if bool(good.any()) else barren + 1
        found = torch.cat([found, sharp.directions[chosen[good]]])
    more = rejected.directions[distinct(rejected, found)][: size - len(found)]
    return Search(_completed(torch.cat([found, more])), len(found), starts, stopped)


def _round(
    problem: Problem,
    proposer: HalfSpaceSearch,
    found: Float[Tensor, "f b"],
    generator: torch.Generator,
) -> tuple[Sharpened, int]:
    seen = proposer.candidates(generator, found=found)
    live = problem.live
    rows = problem.sparse * len(problem.sparse) ** 0.5
    noise = problem.sparse_noise.mean() ** 2 * len(rows) / problem.factors.values.square()
    if not len(seen.directions):
        none = rows[:0]
        return Sharpened(none, none.new_zeros(0, len(rows)), none.new_zeros(0)), seen.starts
    wide = torch.float64
    sharp = sharpen_under_noise(
        rows[live],
        noise,
        seen.features.to(wide),
        proposer.from_whitened(seen.directions),
        sides=seen.sides.to(wide),
        link=proposer.to_whitened(seen.link),
    )
    return sharp, seen.starts


def distinct(candidates: Sharpened, known: Float[Tensor, "f b"], same: float = SAME) -> Tensor:
    """Candidates that are neither known nor each other's repeats, the best first."""
    order = candidates.evidence.argsort(descending=True, stable=True)
    directions = candidates.directions
    fresh = torch.isfinite(candidates.evidence)
    if len(known):
        fresh &= (directions @ known.T).abs().amax(1) <= same
    alike = (directions @ directions.T).abs() > same
    chosen: list[int] = []
    for candidate in order.tolist():
        if bool(fresh[candidate]):
            chosen.append(candidate)
            fresh &= ~alike[candidate]
    return torch.tensor(chosen, dtype=torch.int64, device=order.device)


def _completed(directions: Float[Tensor, "k b"]) -> Float[Tensor, "b b"]:
    """With an orthonormal basis of what is orthogonal to all of them."""
    if not len(directions):
        return torch.eye(directions.shape[1], dtype=directions.dtype, device=directions.device)
    rest = torch.linalg.svd(directions, full_matrices=True)[2][len(directions) :]
    return torch.cat([directions, rest])
