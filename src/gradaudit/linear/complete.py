"""The last two directions for nothing: what the others and the weights leave to choose."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from gradaudit.linear.drift import settled
from gradaudit.linear.null_space import masked_null_vectors
from gradaudit.linear.problem import Problem, Setting

# Missing directions that are solved for; with more, the patterns are no longer few.
LARGEST_MISSING = 2
# With two missing the patterns are as many as neurons; past so much arithmetic another round of
# search is quicker.
LARGEST_WORK = 2e9
# Patterns whose rows come nearest to having a common null vector are proposed.
PROPOSED = 8


def completions(problem: Problem, directions: Float[Tensor, "k b"]) -> Float[Tensor, "j b"]:
    r"""Candidates for the missing directions when at most two are missing.

    Let p be orthogonal to all directions found. A missing record is then
    :math:`x = V S p / s` with :math:`s = p \cdot U^T \partial L / \partial b`, exactly, for some
    such p: a row of :math:`Q^{-1}` up to scale. Neuron i is active for it where
    :math:`p \cdot (S\,(W V)_i + \beta_i\, U^T \partial L / \partial b) > 0`.
    With one direction missing p is known and so is the pattern of active neurons, up to a sign;
    with two missing p turns in a plane and meets each neuron's boundary once, which leaves at most
    2 m patterns. The direction is the null vector of the inactive rows of the right pattern.
    Whatever is proposed is verified like any other proposal.

    Args:
        problem: A layer in the sparse-gradient setting.
        directions: Those found, independent.

    Returns:
        Unit vectors, none when more than two are missing or the setting is another one.
    """
    missing = problem.batch_size - len(directions)
    none = directions.new_zeros(0, problem.batch_size)
    if problem.setting is not Setting.SPARSE_GRADIENT or not 1 <= missing <= LARGEST_MISSING:
        return none
    if missing > 1 and 4.0 * problem.unit_rows.numel() ** 2 > LARGEST_WORK:
        return none
    basis = torch.linalg.svd(directions, full_matrices=True)[2][len(directions) :]
    # Without a bias gradient the bias is left out, as the record's scale against it is unknown.
    loads = problem.activation_map[problem.live, : problem.batch_size] @ basis.T
    chosen = _representatives(loads)
    sides = (loads @ chosen).T
    if problem.activation_drift is None:
        certain = settled(sides, None)
    else:
        drift = problem.activation_drift[problem.live] @ basis.T
        certain = settled(sides, (drift @ chosen).T)
    return _null_vectors(problem, torch.cat([(sides <= 0) & certain, (sides > 0) & certain]))


def _representatives(loads: Float[Tensor, "l d"]) -> Float[Tensor, "d c"]:
    """One vector p inside every cell into which the neurons' boundaries cut a half circle."""
    if loads.shape[1] == 1:
        return loads.new_ones(1, 1)
    # Neuron (x, y) changes sign where p is orthogonal to it, modulo a half turn.
    angles = torch.remainder(torch.atan2(-loads[:, 0], loads[:, 1]), torch.pi).sort().values
    between = torch.cat([angles, angles[:1] + torch.pi])
    middle = (between[1:] + between[:-1]) / 2
    return torch.stack([middle.cos(), middle.sin()])


def _null_vectors(problem: Problem, inactive: Bool[Tensor, "c l"]) -> Float[Tensor, "j b"]:
    """Null vectors of the patterns whose inactive rows are nearest to rank b - 1."""
    rows = problem.unit_rows
    inactive = inactive[inactive.sum(1) > problem.zeros_needed]
    if not len(inactive):
        return rows[:0]
    vectors, defects, _ = masked_null_vectors(rows, inactive.to(rows))
    return vectors[defects.argsort()[:PROPOSED]]


def repairs(problem: Problem, directions: Float[Tensor, "b b"]) -> Float[Tensor, "j b"]:
    """Candidates to replace each direction of a full set, were it the only wrong one.

    A single wrong direction leaves its own record right, since that record is what all the others
    leave over: the pattern it predicts has the true direction as its null vector.

    Args:
        problem: A layer in the sparse-gradient setting.
        directions: A full set, in which one direction may be wrong.
    """
    others = ~torch.eye(len(directions), dtype=torch.bool, device=directions.device)
    found = [completions(problem, directions[keep]) for keep in others]
    return torch.cat(found) if found else directions
