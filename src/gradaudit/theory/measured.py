"""The rank of a layer's equations measured, at weights and gradients drawn at random."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

from gradaudit.theory.ranks import Axis, Convolution

# Singular values below this are zero, as are those below this share of the largest: what is drawn
# has variance 1, so that those of a matrix that is not zero are not small as a whole. Rounding
# leaves about 1e-14; other singular values below 1e-7 are too rare to be met.
ZERO = 1e-10
# More multiplications than these take more than about ten seconds.
MAX_WORK = 3e10


def measuring_work(layer: Convolution) -> float:
    """Multiplications that `measure_rank` may take, from above.

    Example:
        >>> measuring_work(Convolution.dense(3200, 10)) < MAX_WORK
        True
    """
    inputs, outputs = layer.in_channels // layer.groups, layer.out_channels // layer.groups
    positions = layer.input_size[0] * layer.input_size[1]
    gradient_rows = outputs * layer.kernel[0] * layer.kernel[1]
    weight_rows = outputs * layer.output_size[0] * layer.output_size[1]
    free = inputs * max(positions - gradient_rows, positions // 4)
    return 4.0 * (_svd_work(gradient_rows, positions) + _svd_work(weight_rows, free))


def _svd_work(rows: int, columns: int) -> float:
    return float(max(rows, columns)) * min(rows, columns) ** 2


def measure_rank(
    layer: Convolution, *, rng: np.random.Generator, output_gradient_rank: int | None = None
) -> int:
    r"""The rank of [K; W] at random weights W and a random output gradient k of the given rank.

    rank([K; W]) = rank(K) + rank(W N), with N a basis of K's null space. K is C times the same
    matrix B, so N is C times B's null space, and no matrix with K's rows is ever made. It is the
    generic rank with probability one, up to the decision which singular values are zero.

    Args:
        layer: Its sizes; of groups, one is measured, since they are alike.
        rng: Source of the random numbers.
        output_gradient_rank: r, by default as large as it can be.

    Example:
        >>> layer = Convolution(6, 2, (9, 9), (3, 3), (2, 2), (1, 1))
        >>> measure_rank(layer, rng=np.random.default_rng(0)) - layer.unknowns
        -332
    """
    rows, columns = layer.axes
    inputs, outputs = layer.in_channels // layer.groups, layer.out_channels // layer.groups
    met = _met(rows, columns, layer.input_size[1])
    positions = layer.input_size[0] * layer.input_size[1]
    r = min(outputs, len(met)) if output_gradient_rank is None else output_gradient_rank
    gradient = rng.standard_normal((outputs, r)) @ rng.standard_normal((r, len(met)))
    constraints = gradient_matrix(gradient, met, positions)
    values, basis = np.linalg.svd(constraints)[1:]
    rank_of_b = _count(values)
    null = basis[rank_of_b:].T
    weight = rng.standard_normal((outputs, inputs, met.shape[1]))
    # The last row stands for padding: -1 picks it.
    padded = np.vstack([null, np.zeros((1, null.shape[1]))])
    image = np.einsum("oct,ltv->olcv", weight, padded[met])
    rank = inputs * rank_of_b + _count_of(image.reshape(outputs * len(met), -1))
    return layer.groups * rank


def gradient_matrix(
    gradient: Float[np.ndarray, "outputs positions"],
    met: Int[np.ndarray, "positions taps"],
    inputs: int,
) -> Float[np.ndarray, "equations inputs"]:
    """B: how a weight's gradient depends on one input channel; a row for every output and tap.

    Args:
        gradient: k, of the loss at the layer's output.
        met: The input position that an output position sees through a tap, -1 for padding.
        inputs: Positions of the input.

    Example:
        >>> gradient_matrix(np.array([[2.0, 3.0]]), np.array([[-1, 0], [0, 1]]), 2)
        array([[3., 0.],
               [2., 3.]])
    """
    matrix = np.zeros((len(gradient), met.shape[1], inputs + 1))
    taps = np.broadcast_to(np.arange(met.shape[1]), met.shape)
    # A tap meets a position from one output alone, except padding, whose column is dropped.
    matrix[:, taps, met] = gradient[:, :, None]
    return matrix[:, :, :inputs].reshape(-1, inputs)


def _met(rows: Axis, columns: Axis, width: int) -> Int[np.ndarray, "positions taps"]:
    """The input position that an output position sees through a tap, both in row-major order."""
    down, across = rows.met[:, None, :, None], columns.met[None, :, None, :]
    met = np.where((down >= 0) & (across >= 0), down * width + across, -1)
    return met.reshape(len(rows.met) * len(columns.met), -1)


def _count_of(matrix: Float[np.ndarray, "m n"]) -> int:
    if not matrix.size:
        return 0
    return _count(np.linalg.svd(matrix, compute_uv=False))


def _count(values: Float[np.ndarray, " k"]) -> int:
    return int((values > ZERO * max(1.0, values[0])).sum()) if values.size else 0
