"""The frozen view of one layer that every proposer and every later stage gets."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from gradaudit.linear.blocks import live_lines, times
from gradaudit.linear.factor import Factors
from gradaudit.linear.noise import effective_dtype
from gradaudit.linear.tolerances import (
    ACTIVE_TOLERANCES,
    FLOAT64_EPS,
    INFORMATIVE_RATIO,
    SURPLUS_ZEROS,
    ZERO_ROUNDINGS,
    ZERO_SIGMAS,
)
from gradaudit.update import LinearLayer


class Setting(str, Enum):
    """Which factor the ReLU makes sparse (SPEAR, section 3.2)."""

    SPARSE_GRADIENT = "sparse activation gradient (a ReLU follows the layer)"
    SPARSE_INPUT = "sparse input (a ReLU precedes the layer)"


@dataclass(frozen=True, eq=False)
class Problem:
    r"""One layer's batch, as the search sees it.

    With the gradient :math:`U S V^T` and an unknown invertible :math:`Q`, the sparse factor is
    :math:`F Q` with :math:`F = U` (then :math:`G = U Q`, :math:`X^T = Q^{-1} S V^T`) or
    :math:`F = V` (then :math:`X = V Q`, :math:`G = U S Q^{-T}`). A *direction* is a column of Q up
    to scale, as a unit vector. This is SPEAR's L R decomposition with S moved to the dense side,
    which leaves every direction's zeros where they are and conditions the search better.

    Attributes:
        layer: Weights and gradients, in float64; as observed where they are too large for copies
            (`Factors.streamed`). After several steps the weights are those halfway between the
            first and the last.
        factors: U, S, V and the noise.
        setting: Which factor is sparse.
        sparse: F, rows in the layer's order.
        sparse_noise: Error of an entry of the gradient in each row of F, as a standard deviation.
        noise_shape: How that error varies along a row of the gradient, folded into V S^-1: the
            error of row i of F q is ``sparse_noise[i] * norm(noise_shape @ q)``.
        live: Rows of F that are not zero for every record.
        unit_rows: The live rows of F, scaled to unit norm (zeros stay zeros).
        weighed_rows: The same with less weight the noisier a row is beside the median one: a null
            vector is as exact as the noisiest row that has a full say in it.
        preactivation_map: W V: a record x = V c has pre-activation (W V) c + bias.
        activation_map: Row i is a_i: neuron i is active for the record whose row of Q^-1 is p, up
            to a positive factor, where a_i . p > 0. One more column, for the bias, where no bias
            gradient ties it to the record's scale.
        activation_drift: From the activation map to either end of local training, its weights
            being those halfway: (m, b), for all columns but the bias's own. None for one gradient.
        observed_eps: Relative rounding of the coarsest dtype that holds the gradient's entries.
    """

    layer: LinearLayer
    factors: Factors
    setting: Setting
    sparse: Float[Tensor, "p b"]
    sparse_noise: Float[Tensor, " p"]
    noise_shape: Float[Tensor, "b b"]
    live: Bool[Tensor, " p"]
    unit_rows: Float[Tensor, "l b"]
    weighed_rows: Float[Tensor, "l b"]
    preactivation_map: Float[Tensor, "m b"]
    activation_map: Float[Tensor, "m d"]
    activation_drift: Float[Tensor, "m b"] | None
    observed_eps: float

    @property
    def batch_size(self) -> int:
        """The rank b: distinct records."""
        return self.factors.rank

    @property
    def zeros_needed(self) -> int:
        """A direction needs more vanishing entries than this to count as more than a kernel."""
        return self.batch_size - 1 + SURPLUS_ZEROS

    def zero_tolerance(self, directions: Float[Tensor, "k b"]) -> Float[Tensor, "k p"]:
        r"""How large an entry of :math:`F q` may be that is really zero.

        A row of F is a row of the gradient times :math:`V S^{-1}` (or its transpose), so that an
        error of standard deviation :math:`\rho_i` per gradient entry becomes
        :math:`\rho_i \lVert S^{-1} q \rVert`, or :math:`\rho_i \lVert K V S^{-1} q \rVert` where
        the error is spread unevenly over a row, in proportion to K: columns of ones and zeros
        concentrate it on a few entries.
        """
        spread = (directions @ self.noise_shape.T).norm(dim=1, keepdim=True)
        amplification = (directions / self.factors.values).norm(dim=1, keepdim=True)
        rounding = ZERO_ROUNDINGS * torch.finfo(self.sparse.dtype).eps * self.sparse.norm(dim=1)
        return (
            ZERO_SIGMAS * spread * self.sparse_noise
            + ZERO_ROUNDINGS * self.factors.arithmetic_error * amplification
            + rounding
        )

    def informative(self, directions: Float[Tensor, "k b"]) -> Bool[Tensor, "k p"]:
        """Rows in which a non-zero entry of F q would stand clear of the zero tolerance."""
        typical = self.sparse.norm(dim=1) / self.batch_size**0.5
        return self.zero_tolerance(directions) < INFORMATIVE_RATIO * typical

    def vanishing(
        self, directions: Float[Tensor, "k b"]
    ) -> tuple[Bool[Tensor, "k p"], Bool[Tensor, "k p"]]:
        """Which informative entries of F q vanish, and which entries are informative."""
        informative = self.informative(directions)
        small = (directions @ self.sparse.T).abs() <= self.zero_tolerance(directions)
        return small & informative, informative

    def pattern(
        self, directions: Float[Tensor, "k b"]
    ) -> tuple[Bool[Tensor, "k p"], Bool[Tensor, "k p"]]:
        """Which entries of F q vanish, and which are clearly non-zero; the others say nothing."""
        size, tolerance = (directions @ self.sparse.T).abs(), self.zero_tolerance(directions)
        informative = self.informative(directions)
        return (
            informative & (size <= tolerance),
            informative & (size > ACTIVE_TOLERANCES * tolerance),
        )


def build_problem(layer: LinearLayer, factors: Factors, setting: Setting) -> Problem:
    """Assemble the view of one layer for one sparsity setting.

    Args:
        layer: As observed, any floating dtype; converted to float64 unless it is too large.
        factors: Of its weight gradient.
        setting: Which factor to treat as sparse.
    """
    wide = _halfway(layer, streamed=factors.streamed)
    by_rows = setting is Setting.SPARSE_GRADIENT
    sparse = factors.left if by_rows else factors.right
    norms = sparse.norm(dim=1, keepdim=True)
    live = live_lines(wide.weight_gradient)[0 if by_rows else 1].to(sparse.device)
    # A live row can still be below what float64 resolves in F; it then says nothing.
    live &= norms[:, 0] > 1e3 * torch.finfo(torch.float64).eps
    preactivation_map = times(wide.weight, factors.right)
    sparse_noise = factors.row_noise if by_rows else factors.column_noise
    unit_rows = sparse[live] / norms[live]
    relative = (sparse_noise[live, None] + factors.arithmetic_error) / norms[live]
    return Problem(
        layer=wide,
        factors=factors,
        setting=setting,
        sparse=sparse,
        sparse_noise=sparse_noise,
        noise_shape=_noise_shape(factors, by_rows),
        live=live,
        unit_rows=unit_rows,
        weighed_rows=unit_rows / (1 + relative / relative.median()) if len(relative) else unit_rows,
        preactivation_map=preactivation_map,
        activation_map=_activation_map(wide, factors, preactivation_map),
        activation_drift=_activation_drift(wide, factors),
        observed_eps=max(torch.finfo(effective_dtype(layer.weight_gradient)).eps, FLOAT64_EPS),
    )


def _halfway(layer: LinearLayer, *, streamed: bool) -> LinearLayer:
    """The layer in float64, its weights halfway through what changed them.

    A streamed layer's matrices stay as they are; only after several steps is one made of them, with
    the rounding of their own type.
    """
    moved = 0.5 if layer.several_steps else 0.0
    weight, change, bias = layer.weight, layer.weight_gradient, layer.bias
    if not streamed:
        change = change.to(torch.float64)
        weight = weight.to(torch.float64) + moved * change
    elif moved:
        weight = torch.add(weight, change, alpha=moved)
    bias_change = layer.bias_gradient
    if bias is not None:
        bias = bias.to(torch.float64)
    if bias_change is not None:
        bias_change = bias_change.to(torch.float64)
    if bias is not None and bias_change is not None:
        bias = bias + moved * bias_change
    return replace(
        layer,
        weight=weight,
        bias=bias,
        weight_gradient=change,
        bias_gradient=bias_change,
    )


def _activation_drift(layer: LinearLayer, factors: Factors) -> Float[Tensor, "m b"] | None:
    r"""Half of W V S, with the bias, of the layer's change: :math:`(U S^2 + \ldots) / 2`."""
    if not layer.several_steps:
        return None
    drift = factors.left * factors.values.square()
    if layer.bias is not None and layer.bias_gradient is not None:
        drift = drift + layer.bias_gradient[:, None] * (factors.left.T @ layer.bias_gradient)
    return drift / 2


def _noise_shape(factors: Factors, by_rows: bool) -> Float[Tensor, "b b"]:
    """The triangular factor of K V S^-1, with K the noise's profile along a row, of mean square 1.

    Of K U S^-1, with the profile along a column, for the transposed problem.
    """
    dense = factors.right if by_rows else factors.left
    profile = factors.column_noise if by_rows else factors.row_noise
    mean = profile.square().mean().sqrt()
    profile = profile / mean if float(mean) > 0 else torch.ones_like(profile)
    return torch.linalg.qr(profile[:, None] * dense / factors.values, mode="r").R


def _activation_map(
    layer: LinearLayer, factors: Factors, preactivation_map: Float[Tensor, "m b"]
) -> Float[Tensor, "m d"]:
    r"""W V S, with the bias where it belongs.

    The record of the row p is :math:`x = V S p / s` with
    :math:`s = p \cdot U^T \partial L / \partial b`, so that :math:`s\,(W x + \beta)` is
    :math:`(W V S + \beta\, (U^T \partial L / \partial b)^T)\, p`.
    """
    scaled = preactivation_map * factors.values
    if layer.bias is None:
        return scaled
    if layer.bias_gradient is None:
        return torch.cat([scaled, layer.bias[:, None]], dim=1)
    return scaled + layer.bias[:, None] * (factors.left.T @ layer.bias_gradient)
