"""Records of a batch of which not all directions are known, off rows that only known ones fire."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from gradaudit.linear.disaggregate import Batch
from gradaudit.linear.problem import Problem, Setting
from gradaudit.linear.tolerances import (
    RESIDUAL_FACTOR,
    SIGN_RELATIVE,
    SIGN_SIGMAS,
    ZERO_ROUNDINGS,
)

# Each round subtracts the records known from the rows; later ones find next to nothing.
ROUNDS = 12
# Least squares over the explained rows, which then decide anew which rows are explained.
REFINEMENTS = 3


def partial_batch(problem: Problem, directions: Float[Tensor, "k b"]) -> Batch | None:
    r"""Proposals for the records of some of the directions, when others are missing.

    Row i of the gradient, projected on V, is :math:`\tilde u_i = \sum_j g_{ij} \tilde p_j` with
    :math:`g_{ij} = u_i \cdot q_j` known for every direction found and :math:`\tilde p_j = S p_j`
    its record up to scale. Where exactly one direction found has a share in what the records known
    leave of a row, that remainder is :math:`g_{ij} \tilde p_j` unless missing records fire the
    neuron too, and then it predicts other zeros than :math:`q_j` has. What passes becomes known,
    the one that most other rows agree with first. At last every row that the known records explain
    to within rounding takes part in a least-squares fit of them all.

    Nothing is proven here: a missing record of tiny share may hide in a single row.

    Args:
        problem: A layer.
        directions: Unit vectors, independent, fewer than b.

    Returns:
        The records that could be read off, with their columns of dL/dZ, or None without any, in
        another setting, or where the gradient of the layer's bias is missing.
    """
    no_scale = problem.layer.bias_gradient is None
    if problem.setting is not Setting.SPARSE_GRADIENT or no_scale or not len(directions):
        return None
    reading = _Reading(problem, directions)
    for _ in range(ROUNDS):
        if not reading.read():
            break
    for _ in range(REFINEMENTS):
        reading.refine()
    known = torch.nonzero(reading.known)[:, 0]
    if not len(known):
        return None
    return _batch(problem, directions[known], reading.normals[known])


class _Reading:
    """What is known of the records so far: rows p of S Q^-1, with p . (q / S) = 1.

    Args:
        problem: The layer.
        directions: As in `partial_batch`.
    """

    def __init__(self, problem: Problem, directions: Float[Tensor, "k b"]) -> None:
        self.problem = problem
        live = problem.live
        self.rows = (problem.sparse * problem.factors.values)[live]
        zero, active = problem.pattern(directions)
        # An entry that may or may not be zero counts as a share of the row.
        self.zero, self.active = zero[:, live], active[:, live]
        self.shares = torch.where(self.zero, 0.0, (directions @ problem.sparse.T)[:, live])
        self.noise = row_error(problem, directions)[:, live]
        self.entry_noise = problem.sparse_noise[live] + (
            ZERO_ROUNDINGS * problem.factors.arithmetic_error
        )
        # A row of weights, bias included, as a record on the gradient's scale sees it.
        self.weights = problem.activation_map[live] / problem.factors.values
        self.known: Bool[Tensor, " k"] = torch.zeros_like(self.shares[:, 0], dtype=torch.bool)
        self.normals = directions.new_zeros(directions.shape)
        self.errors = directions.new_zeros(len(directions))

    def remainder(self) -> tuple[Float[Tensor, "l b"], Float[Tensor, " l"]]:
        """Every row less the records known, and the standard deviation of an entry of it."""
        shares = self.shares * self.known[:, None]
        size = self.normals.square().mean(1)
        variance = self.entry_noise.square() + shares.square().T @ self.errors.square()
        variance = variance + ((shares != 0) * self.noise.square()).T @ size
        return self.rows - shares.T @ self.normals, variance.sqrt()

    def read(self) -> bool:
        """Read records off rows with one share left; whether there were new ones."""
        remainder, noise = self.remainder()
        waiting = (self.shares != 0) & ~self.known[:, None]
        single = torch.nonzero(waiting.sum(0) == 1)[:, 0]
        owner = waiting[:, single].to(torch.int8).argmax(0)
        clear = self.active[owner, single]
        single, owner = single[clear], owner[clear]
        share = self.shares[owner, single]
        normals, errors = remainder[single] / share[:, None], noise[single] / share.abs()
        fits = self._predicts(normals, errors, owner, single)
        if not bool(fits.any()):
            return False
        owner, normals, errors = owner[fits], normals[fits], errors[fits]
        chosen = _most_agreed(owner, normals, errors)
        self.known[owner[chosen]] = True
        self.normals[owner[chosen]] = normals[chosen]
        self.errors[owner[chosen]] = errors[chosen]
        return True

    def _predicts(
        self,
        normals: Float[Tensor, "c b"],
        errors: Float[Tensor, " c"],
        owner: Tensor,
        row: Tensor,
    ) -> Bool[Tensor, " c"]:
        """Whether the record fires no neuron but those where its direction does not vanish."""
        margin = SIGN_SIGMAS * errors + SIGN_RELATIVE * normals.norm(dim=1)
        doubt = margin[:, None] * self.weights.norm(dim=1)
        before = normals @ self.weights.T
        # The sign with which the record fires the neuron that it was read off.
        sign = before.gather(1, row[:, None]).sign()
        before = before * sign
        zero, active = self.zero[owner], self.active[owner]
        wrong = (active & (before < -doubt)) | (zero & (before > doubt))
        return ~wrong.any(1) & (normals @ bias_row(self.problem) * sign[:, 0] > 0)

    def refine(self) -> None:
        """Fit all known records to all rows that they explain."""
        remainder, noise = self.remainder()
        strange = ((self.shares != 0) & ~self.known[:, None]).any(0)
        limit = RESIDUAL_FACTOR * noise * self.rows.shape[1] ** 0.5
        explained = ~strange & (remainder.norm(dim=1) <= limit)
        shares = self.shares[self.known][:, explained].T / noise[explained, None]
        # A record all of whose rows are left unexplained stays as it was read.
        present = (shares != 0).any(0)
        places = torch.nonzero(self.known)[:, 0][present]
        size = shares[:, present].norm(dim=0)
        left, values, right = torch.linalg.svd(shares[:, present] / size, full_matrices=False)
        if not len(values) or float(values[-1]) <= torch.finfo(values.dtype).eps * len(shares):
            return
        inverse = (right.T / values) @ left.T / size[:, None]
        self.normals[places] = inverse @ (self.rows[explained] / noise[explained, None])
        self.errors[places] = inverse.norm(dim=1)


def bias_row(problem: Problem) -> Float[Tensor, " b"]:
    """What gives the scale of a record: s = p . U^T dL/db, for p times S."""
    observed = problem.layer.bias_gradient
    assert observed is not None  # noqa: S101 - `partial_batch` needs one
    return (problem.factors.left.T @ observed) / problem.factors.values


def row_error(problem: Problem, directions: Float[Tensor, "k b"]) -> Float[Tensor, "k p"]:
    """Standard deviation of the error of each entry of F q, arithmetic included.

    Args:
        problem: The layer.
        directions: q, of any norm.
    """
    spread = (directions @ problem.noise_shape.T).norm(dim=1, keepdim=True)
    amplification = (directions / problem.factors.values).norm(dim=1, keepdim=True)
    arithmetic = ZERO_ROUNDINGS * problem.factors.arithmetic_error * amplification
    return spread * problem.sparse_noise + arithmetic


def _most_agreed(
    owner: Tensor, normals: Float[Tensor, "c b"], errors: Float[Tensor, " c"]
) -> Tensor:
    """Of each owner's candidates the one that most others equal, the most exact of those."""
    # Not by the expansion of the square, which loses half the digits.
    exact = "donot_use_mm_for_euclid_dist"
    distance = torch.cdist(normals, normals, compute_mode=exact)
    allowed = (errors[:, None].square() + errors.square()).sqrt() * normals.shape[1] ** 0.5
    agree = (distance <= RESIDUAL_FACTOR * allowed) & (owner[:, None] == owner)
    by_error = errors.argsort(stable=True)
    by_support = by_error[agree.sum(1)[by_error].argsort(descending=True, stable=True)]
    first = torch.full((int(owner.max()) + 1,), len(owner), device=owner.device)
    places = torch.arange(len(owner), device=owner.device)
    first = first.scatter_reduce(0, owner[by_support], places, "amin")
    return by_support[first[first < len(owner)]]


def _batch(
    problem: Problem, directions: Float[Tensor, "k b"], normals: Float[Tensor, "k b"]
) -> Batch | None:
    """Scale the records by the bias gradient, as `disaggregate` does."""
    factors = problem.factors
    scales = normals @ bias_row(problem)
    kept = scales.abs() > torch.finfo(scales.dtype).tiny
    if not bool(kept.any()):
        return None
    directions, normals, scales = directions[kept], normals[kept], scales[kept]
    gradients = torch.where(
        problem.pattern(directions)[0] | ~problem.live, 0.0, directions @ problem.sparse.T
    )
    return Batch(
        records=normals @ factors.right.T / scales[:, None],
        activation_gradients=gradients.T * scales,
        directions=directions,
        scale_identified=True,
    )
