"""Records that are known in part: the centre of all that their direction leaves possible."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gradaudit.linear.billiard import Walkers
from gradaudit.linear.conjugate import conjugate_gradient
from gradaudit.linear.grams import weighted_grams
from gradaudit.linear.partial import bias_row
from gradaudit.linear.problem import Problem, Setting

# An estimate whose error is a larger share of the record than this says little about it.
LARGEST_ERROR = 0.1
# The error is about 1.5 times the dimensions left open over the neurons: with fewer neurons for
# each dimension hardly one is that small.
NEURONS_PER_DIMENSION = 12
# Newton steps towards a record that fits, while its sharpness grows; and towards the centre.
# Conjugate gradient steps in each: the constraints are whitened.
SEARCH_STEPS, CENTRE_STEPS, INNER_STEPS = 30, 12, 12
SHARPENING = 1.5
# Walks from each centre; moves of each for every dimension, before it is looked at and while it is.
# With four times as many, errors and their estimates change by a tenth.
WALKS, FIRST_MOVES, MOVES = 2, 2, 6
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
    interrupted: Callable[[], bool] = lambda: False,
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
        interrupted: Asked between steps; whether to give up.

    Source:
        Ours, after the Bayes point machine: Herbrich, Graepel and Campbell, JMLR 1, 2001, whose
        point is that mean, found by a billiard too.
    """
    chosen = torch.nonzero(wanted)[:, 0]
    if not len(chosen):
        return _nothing(problem, chosen, {})
    reason = _hopeless(problem, directions)
    if reason:
        return _nothing(problem, chosen[:0], {reason: len(chosen)})
    polytopes = _Polytopes(problem, directions, chosen)
    inside = polytopes.find(interrupted)
    skipped = {"no record fits every neuron": int((~inside).sum())}
    affordable = int(LARGEST_WORK / polytopes.work)
    kept = torch.nonzero(inside)[:affordable, 0]
    skipped["that is too much work"] = int(inside.sum()) - len(kept)
    mean, variance, bounded = polytopes.walk(kept, generator, interrupted)
    if interrupted():
        return _nothing(problem, chosen[:0], {"the search was interrupted": len(chosen)})
    skipped["it is not bounded"] = int((~bounded).sum())
    size = mean.norm(dim=1)
    close = bounded & (variance.sqrt() <= LARGEST_ERROR * size)
    skipped[f"its error is above {LARGEST_ERROR:.0%}"] = int((bounded & ~close).sum())
    right = problem.factors.right
    return Approximation(
        chosen[kept[close]],
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


class _Polytopes:
    r"""What each direction leaves possible, in coordinates in which neurons look alike.

    With A the neurons' weights as unit rows, a record is :math:`V^T x = R^{-1} y` for
    :math:`A = Q R`, so that no combination of neurons is stronger than another; y matters up to its
    scale.

    Args:
        problem: The layer.
        directions: All that are known.
        chosen: Those whose records are wanted.
    """

    def __init__(
        self, problem: Problem, directions: Float[Tensor, "k b"], chosen: Int[Tensor, " c"]
    ) -> None:
        zero, active = (mask[chosen] for mask in problem.pattern(directions))
        weights = problem.activation_map / problem.factors.values
        norms = weights.norm(dim=1)
        used = problem.live & (norms > 0)
        # Signs of pre-activations; zero where the gradient does not tell.
        self._sides = (active.to(weights) - zero.to(weights))[:, used]
        slopes, triangle = torch.linalg.qr(weights[used] / norms[used, None])
        self._slopes, self._triangle = slopes * len(slopes) ** 0.5, triangle / len(slopes) ** 0.5
        # Orthogonal to c: the other directions.
        dual = torch.linalg.solve_triangular(
            self._triangle, directions / problem.factors.values, upper=True, left=False
        )
        self._bias = torch.linalg.solve_triangular(
            self._triangle, bias_row(problem)[None], upper=True, left=False
        )[0]
        common = torch.linalg.svd(dual, full_matrices=True).Vh[len(dual) :].T
        own = torch.nn.functional.normalize(torch.linalg.pinv(dual).T[chosen], dim=1)
        self._space = torch.cat([common.expand(len(own), *common.shape), own[:, :, None]], dim=2)
        self._touch(_projected(self._sides @ self._slopes, self._space))

    def _touch(self, y: Float[Tensor, "c b"]) -> None:
        """Move in the plane that touches the unit sphere of directions at y."""
        self._y = torch.nn.functional.normalize(y, dim=1)
        turned = torch.linalg.qr(self._space.mT @ self._y[:, :, None], mode="complete").Q
        self._tangents = (self._space @ turned)[:, :, 1:]

    @property
    def work(self) -> float:
        """Floating-point operations for one direction's walks."""
        moves = WALKS * (FIRST_MOVES + MOVES) * self._tangents.shape[2]
        # Elementwise passes over the margins cost as much as some dimensions of the product.
        return 2.0 * moves * (self._slopes.numel() + 20 * len(self._slopes))

    def _margins(self, which: Tensor) -> Float[Tensor, "c u"]:
        """Distance of each neuron's boundary, positive on the right side; 1 where it is unknown."""
        sides = self._sides[which]
        return torch.where(sides == 0, 1.0, sides * (self._y[which] @ self._slopes.T))

    def find(self, interrupted: Callable[[], bool]) -> Bool[Tensor, " c"]:
        """Move to a point that is on the right side of every boundary, then to the centre."""
        everything = torch.arange(len(self._y), device=self._y.device)
        scale = (self._y @ self._slopes.T).square().mean(1, keepdim=True).sqrt()
        inside = (self._margins(everything) > 0).all(1)
        for step in range(SEARCH_STEPS):
            going = torch.nonzero(~inside)[:, 0]
            if not len(going) or interrupted():
                break
            # A smooth count of the wrong sides.
            sharpness = SHARPENING**step / scale[going]
            chance = torch.sigmoid(-self._margins(going) * sharpness)
            force = chance * sharpness
            curvature = chance * (1 - chance) * sharpness.square()
            self._y[going] += self._newton(going, force, curvature)
            inside[going] = (self._margins(going) > 0).all(1)
        within = torch.nonzero(inside)[:, 0]
        for _ in range(CENTRE_STEPS):
            if not len(within) or interrupted():
                break
            # The logarithmic barrier's damped Newton step never leaves the polytope.
            margins = self._margins(within)
            move = self._newton(within, 1 / margins, margins**-2)
            slope = self._sides[within] * (move @ self._slopes.T) / margins
            decrement = slope.square().sum(1, keepdim=True).sqrt()
            self._y[within] += move / (1 + decrement)
        return inside & (self._margins(everything) > 0).all(1)

    def _newton(
        self, which: Tensor, force: Float[Tensor, "c u"], curvature: Float[Tensor, "c u"]
    ) -> Float[Tensor, "c b"]:
        curvature = curvature * self._sides[which].square()
        # Keeps the step finite where few boundaries have a say.
        ridge = torch.finfo(curvature.dtype).eps ** 0.5 * curvature.sum(1, keepdim=True)
        plane = self._tangents[which]
        return conjugate_gradient(
            lambda v: (
                _projected((curvature * (v @ self._slopes.T)) @ self._slopes, plane) + ridge * v
            ),
            _projected((force * self._sides[which]) @ self._slopes, plane),
            steps=INNER_STEPS,
        )

    def walk(
        self, which: Tensor, generator: torch.Generator, interrupted: Callable[[], bool]
    ) -> tuple[Float[Tensor, "c b"], Float[Tensor, " c"], Bool[Tensor, " c"]]:
        """Mean of V^T x, its variance over all entries, and whether both exist."""
        count, size = len(which), self._tangents.shape[2]
        self._touch(self._y)
        sides, margins = self._sides[which], self._margins(which)
        # Speeds suit the polytope's shape: by the barrier's curvature at its centre.
        shapes = self._tangents[which]
        bounded = torch.ones(count, dtype=torch.bool, device=shapes.device)
        eye = torch.eye(size).to(shapes)
        for part, gram in weighted_grams(self._slopes, sides.square() * margins**-2):
            root, failed = torch.linalg.cholesky_ex(shapes[part].mT @ gram @ shapes[part])
            bounded[part] = failed == 0
            root = torch.where(bounded[part, None, None], root, eye)
            shapes[part] = torch.linalg.solve_triangular(root, shapes[part].mT, upper=False).mT
        walkers = Walkers(
            self._y[which].repeat(WALKS, 1),
            margins.repeat(WALKS, 1),
            sides.repeat(WALKS, 1),
            slopes=self._slopes,
            shapes=shapes.repeat(WALKS, 1, 1),
            generator=generator,
        )
        total = self._y.new_zeros(WALKS * count, self._y.shape[1])
        square, weight = torch.zeros_like(total[:, 0]), torch.zeros_like(total[:, 0])
        for move in range((FIRST_MOVES + MOVES) * size):
            if interrupted():
                return total[:count], square[:count], torch.zeros_like(bounded)
            y, length = walkers.move()
            bounded &= torch.isfinite(length).reshape(WALKS, count).all(0)
            if move < FIRST_MOVES * size:
                continue
            # A patch of the plane is that much larger than the patch of the sphere behind it.
            length = length * y.norm(dim=1) ** -(size + 1.0)
            scales = y @ self._bias
            bounded &= (scales > 0).reshape(WALKS, count).all(0)
            records = torch.linalg.solve_triangular(self._triangle, y.T, upper=True).T
            records = records / scales[:, None]
            total += records * length[:, None]
            square += records.square().sum(1) * length
            weight += length
        weight = weight.reshape(WALKS, count).sum(0)
        mean = total.reshape(WALKS, count, total.shape[1]).sum(0) / weight[:, None]
        variance = square.reshape(WALKS, count).sum(0) / weight - mean.square().sum(1)
        return mean, variance.clamp(min=0), bounded


def _projected(
    vectors: Float[Tensor, "c b"], spaces: Float[Tensor, "c b d"]
) -> Float[Tensor, "c b"]:
    """Onto spaces that are given by orthonormal columns."""
    return (spaces @ (spaces.mT @ vectors[:, :, None]))[:, :, 0]
