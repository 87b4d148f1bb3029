"""Records that are known in part: the centre of all that their direction leaves possible."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gradaudit.linear.polytopes import Polytopes
from gradaudit.linear.problem import Problem, Setting

# An estimate whose error is a larger share of the record than this says little about it.
LARGEST_ERROR = 0.1
# The error is about 1.5 times the dimensions left open over the neurons: with fewer neurons for
# each dimension hardly one is that small.
NEURONS_PER_DIMENSION = 12
# Floating-point operations for all walks: a few seconds of one core.
LARGEST_WORK = 6e10


@dataclass(frozen=True, eq=False)
class Approximation:
    """Estimates of records, and how far off they are.

    Attributes:
        places: Which of the directions given each is of.
        records: Estimates, one a row.
        estimated_error: Root mean square error of an entry of each.
        skipped: Why there is none of the other directions, and of how many.
    """

    places: Int[Tensor, " r"]
    records: Float[Tensor, "r n"]
    estimated_error: Float[Tensor, " r"]
    skipped: dict[str, int]


def approximate(
    problem: Problem,
    directions: Float[Tensor, "k b"],
    wanted: Bool[Tensor, " k"],
    *,
    generator: torch.Generator,
    stopped: Callable[[], str | None] = lambda: None,
) -> Approximation:
    r"""Estimate the records of some of the directions, when others are missing.

    The row p of :math:`Q^{-1}` that belongs to a direction :math:`q_j` is orthogonal to all other
    directions known, and lies on the side of every neuron's boundary that the zeros of
    :math:`U q_j` show. That is a cone, which has one dimension more than directions are missing.
    Were all directions in it equally likely, as the layer's neurons see them, the best estimate of
    :math:`x = V S p / s` with :math:`s = p \cdot U^T \partial L / \partial b` would be its mean,
    and the error of that the standard deviation. Both are measured on walks through the polytope
    in which a plane cuts the cone.

    Args:
        problem: A layer in the sparse-gradient setting with a bias gradient; nothing is estimated
            of others.
        directions: All that are known, independent unit vectors.
        wanted: Of which of them the records are wanted.
        generator: Of the walks, on the problem's device.
        stopped: Asked between steps; why to give up on those that are not done, or None.

    Source:
        Ours, after the Bayes point machine: Herbrich, Graepel and Campbell, JMLR 1, 2001, whose
        point is that mean, found by a billiard too.
    """
    chosen = torch.nonzero(wanted)[:, 0]
    if not len(chosen):
        return _nothing(problem, chosen, {})
    reason = stopped() or _hopeless(problem, directions)
    if reason:
        return _nothing(problem, chosen[:0], {reason: len(chosen)})
    polytopes = Polytopes(problem, directions, chosen)
    inside = polytopes.find(stopped)
    if why := stopped():
        return _nothing(problem, chosen[:0], {why: len(chosen)})
    skipped = {"no record fits every neuron": int((~inside).sum())}
    affordable = int(LARGEST_WORK / polytopes.work)
    kept = torch.nonzero(inside)[:affordable, 0]
    skipped["that is too much work"] = int(inside.sum()) - len(kept)
    mean, variance, bounded = polytopes.walk(kept, generator, stopped)
    done = kept[: len(mean)]
    if len(done) < len(kept):
        skipped[stopped() or ""] = len(kept) - len(done)
    skipped["it is not bounded"] = int((~bounded).sum())
    size = mean.norm(dim=1)
    close = bounded & (variance.sqrt() <= LARGEST_ERROR * size)
    skipped[f"its error is above {LARGEST_ERROR:.0%}"] = int((bounded & ~close).sum())
    right = problem.factors.right
    return Approximation(
        chosen[done[close]],
        mean[close] @ right.T,
        (variance[close] / len(right)).sqrt(),
        {why: count for why, count in skipped.items() if count},
    )


def _nothing(problem: Problem, places: Int[Tensor, " r"], skipped: dict[str, int]) -> Approximation:
    right = problem.factors.right
    return Approximation(places, right.new_zeros(0, len(right)), right.new_zeros(0), skipped)


def _hopeless(problem: Problem, directions: Float[Tensor, "k b"]) -> str:
    """Why no record can be estimated; empty if some may be."""
    if problem.setting is not Setting.SPARSE_GRADIENT or problem.layer.bias_gradient is None:
        return "the scale of records is unknown"
    missing = problem.batch_size - len(directions)
    if int(problem.live.sum()) < NEURONS_PER_DIMENSION * missing or not missing:
        return f"{missing} directions are missing"
    if int(torch.linalg.matrix_rank(problem.activation_map[problem.live])) < problem.batch_size:
        return "the weights do not tell records apart"
    return ""
