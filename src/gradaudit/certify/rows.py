"""Records that explain some rows of a gradient alone: which rows, and how firmly those fix them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gradaudit.certify.pattern import PatternEvidence, examine_pattern
from gradaudit.certify.redundancy import firmness
from gradaudit.evidence import Check
from gradaudit.linear.partial import row_error
from gradaudit.linear.problem import Problem
from gradaudit.linear.tolerances import (
    CHANCE_LOG10,
    INFORMATIVE_RATIO,
    RESIDUAL_FACTOR,
    ZERO_ROUNDINGS,
)

# Rows decide what is known of the records' errors, which decides how large a remainder may be.
PASSES = 2


@dataclass(frozen=True, eq=False)
class RowEvidence:
    """Measurements; the verdict on them is `gradaudit.certify.partial`'s.

    Attributes:
        gradients: The records' columns of dL/dZ, one a record.
        checks: Of the explained rows as a whole.
        pattern: Per record, where its column vanishes and where it ought to.
        rows: Per record, explained rows in which it has a share.
        firm: Per record, whether it stays determined whichever two rows are left out.
        estimated_error: Per record, root mean square error of an entry that noise predicts, and
            that errors of two rows could add without being seen.
        relative_noise: Per record, the noise's share of its column of dL/dZ.
    """

    gradients: Float[Tensor, "m r"]
    checks: tuple[Check, ...]
    pattern: PatternEvidence
    rows: Int[Tensor, " r"]
    firm: Bool[Tensor, " r"]
    estimated_error: Float[Tensor, " r"]
    relative_noise: Float[Tensor, " r"]


def examine_rows(
    problem: Problem,
    records: Float[Tensor, "r n"],
    directions: Float[Tensor, "r b"],
    *,
    missing: int,
) -> RowEvidence | None:
    r"""Find the rows that the records explain, and measure how firmly these fix each record.

    A row of the gradient is :math:`\sum_j g_{ij} x_j` over all records. It is explained when the
    records given leave rounding of it, and of the bias gradient's entry. Records that were wrong
    could do so where a missing record x fires the same neurons: with x_j + beta x in place of x_j
    the rows fit that have :math:`g_i = \beta g_{ij}`. Let H be the hat matrix of the shares G on
    the explained rows: errors of the rows T stay unseen only where :math:`(I - H)_{TT}` is
    singular. A record is *firm* if no one or two rows are such a T with an influence on it, so
    that a wrong one takes a coincidence of two proportions or more. Where gradients are
    proportional by nature (two classes) that is none.

    Args:
        problem: A layer in the sparse-gradient setting.
        records: Proposed inputs.
        directions: Of the records, unit vectors in the same order.
        missing: Directions that were not found, at least 1.

    Returns:
        The measurements, or None when a record is not finite or has no share of the gradient.

    Source:
        Ours. Redundancy numbers and undetectable errors: W. Baarda, A testing procedure for use in
        geodetic networks, 1968.
    """
    factors = problem.factors
    inside = records @ factors.right
    scales = 1 / ((directions / factors.values) * inside).sum(1)
    if not bool(torch.isfinite(inside).all() & torch.isfinite(scales).all()):
        return None
    gradients = (directions @ problem.sparse.T) * scales[:, None]
    vanishing = problem.pattern(directions)[0]
    gradients = torch.where(vanishing | ~problem.live, 0.0, gradients)
    fit = _Fit(problem, inside, gradients, row_error(problem, directions) * scales.abs()[:, None])
    dual = (inside / factors.values) @ factors.left.T
    scale_error = fit.scale_error(dual)
    explained, error = fit.nothing()
    for _ in range(PASSES):
        explained = fit.explained(error, scale_error, missing)
        if not bool(explained.any()):
            return None
        firm, error, hidden = fit.firmness(explained, fit.noise(error))
    width = records.shape[1]
    outside = dual.square() @ fit.entry_noise.square()
    size = records.square().mean(1)
    predicted = (
        (error.square() + hidden.square()) / width + outside + scale_error.square() * size
    ).sqrt()
    return RowEvidence(
        gradients=gradients.T,
        checks=fit.checks(explained, error, scale_error),
        pattern=examine_pattern(
            problem,
            directions,
            records,
            predicted,
            scale_identified=True,
            condition=1.0,
        ),
        rows=(gradients[:, explained] != 0).sum(1),
        firm=firm,
        estimated_error=predicted,
        relative_noise=fit.share_error.norm(dim=1) / gradients.norm(dim=1),
    )


class _Fit:
    """The rows of the gradient, projected on V, as sums of the records' shares of them."""

    def __init__(
        self,
        problem: Problem,
        inside: Float[Tensor, "r b"],
        gradients: Float[Tensor, "r m"],
        share_error: Float[Tensor, "r m"],
    ) -> None:
        self.problem, self.inside, self.gradients = problem, inside, gradients
        self.share_error = share_error * (gradients != 0)
        self.rows = problem.sparse * problem.factors.values
        self.remainder = (self.rows - gradients.T @ inside).norm(dim=1)
        self.entry_noise = problem.sparse_noise + (
            ZERO_ROUNDINGS * problem.factors.arithmetic_error
        )

    def nothing(self) -> tuple[Bool[Tensor, " m"], Float[Tensor, " r"]]:
        """No row explained, no error known."""
        return torch.zeros_like(self.problem.live), torch.zeros_like(self.inside[:, 0])

    def noise(self, error: Float[Tensor, " r"]) -> Float[Tensor, " m"]:
        """Norm of what noise leaves of each row, the records' own errors (in norm) included."""
        variance = self.inside.shape[1] * self.entry_noise.square()
        variance = variance + self.share_error.square().T @ self.inside.square().sum(1)
        known = torch.isfinite(error)
        own = self.gradients[known].square().T @ error[known].square()
        strange = (self.gradients[~known] != 0).any(0)
        return torch.where(strange, torch.inf, (variance + own).sqrt())

    def scale_error(self, dual: Float[Tensor, "r m"]) -> Float[Tensor, " r"]:
        """Relative error of each scale, by the rounding of the bias gradient."""
        return (dual.square() @ self._bias_noise().square()).sqrt()

    def _bias_gradient(self) -> Float[Tensor, " m"]:
        observed = self.problem.layer.bias_gradient
        assert observed is not None  # noqa: S101 - the records' scales come from it
        return observed

    def _bias_noise(self) -> Float[Tensor, " m"]:
        observed = self._bias_gradient()
        size = observed.abs() + self.gradients.abs().sum(0)
        return self.problem.observed_eps * size + self.entry_noise

    def _bias_remainder(
        self, scale_error: Float[Tensor, " r"]
    ) -> tuple[Float[Tensor, " m"], Float[Tensor, " m"]]:
        """What the shares leave of the bias gradient, and what they may."""
        observed = self._bias_gradient()
        noise = self._bias_noise() + self.share_error.norm(dim=0)
        noise = noise + self.gradients.abs().T @ scale_error
        return (observed - self.gradients.sum(0)).abs(), RESIDUAL_FACTOR * noise

    def explained(
        self,
        error: Float[Tensor, " r"],
        scale_error: Float[Tensor, " r"],
        missing: int,
    ) -> Bool[Tensor, " m"]:
        """Rows of which rounding is left, where more would have been seen."""
        live = self.problem.live & (self.gradients != 0).any(0)
        allowed = RESIDUAL_FACTOR * self.noise(error)
        size = self.rows.norm(dim=1)
        explained = live & (self.remainder <= allowed)
        others = self.problem.live & ~explained
        if not bool(others.any()):
            return torch.zeros_like(live)
        # What missing records leave of a row as a rule; a tenth of a per cent of it or so must
        # stand clear of the noise in every dimension they have, lest rows fit by chance.
        typical = (self.remainder[others] / size[others]).median()
        chance = CHANCE_LOG10 - 3 * torch.log10(live.sum().to(size))
        visible = (10 ** (chance / (2 * missing))).clamp(max=INFORMATIVE_RATIO)
        explained &= allowed <= visible * typical * size
        remainder, tolerance = self._bias_remainder(scale_error)
        return explained & (remainder <= tolerance)

    def firmness(
        self, explained: Bool[Tensor, " m"], noise: Float[Tensor, " m"]
    ) -> tuple[Bool[Tensor, " r"], Float[Tensor, " r"], Float[Tensor, " r"]]:
        """Which records are firm, each one's error (norm), and what two wrong rows could add."""
        size = self.rows[explained].norm(dim=1) / noise[explained]
        return firmness((self.gradients[:, explained] / noise[explained]).T, size)

    def checks(
        self,
        explained: Bool[Tensor, " m"],
        error: Float[Tensor, " r"],
        scale_error: Float[Tensor, " r"],
    ) -> tuple[Check, ...]:
        """The comparisons behind the certificate."""
        allowed = RESIDUAL_FACTOR * self.noise(error)
        size = self.rows.norm(dim=1)
        remainder, tolerance = self._bias_remainder(scale_error)
        return (
            _worst(
                "explained_rows_residual",
                (self.remainder / size)[explained],
                (allowed / size)[explained],
                "The records found explain these rows of the weight gradient, relative to their "
                "size, down to rounding or noise.",
            ),
            _worst(
                "explained_rows_bias",
                remainder[explained],
                tolerance[explained],
                "Their shares sum to the same rows' entries of the bias gradient.",
            ),
        )


def _worst(
    name: str, values: Float[Tensor, " e"], allowed: Float[Tensor, " e"], meaning: str
) -> Check:
    """The check of the row that comes closest to failing."""
    at = int((values / allowed).argmax())
    measured, limit = float(values[at]), float(allowed[at])
    return Check(name, measured, limit, measured <= limit, meaning)
