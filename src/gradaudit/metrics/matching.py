"""Which reconstruction belongs to which record: the cheapest one-to-one assignment."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

# Sums of squares may overflow; the assignment needs finite costs.
_LARGEST_COST = 1e290


def match(
    records: Float[np.ndarray, "r n"],
    truth: Float[np.ndarray, "b n"],
    *,
    up_to_scale: bool = False,
) -> list[tuple[int, int, float]]:
    """Pair records with true ones so that the sum of squared errors is least.

    Every record and every true record is used at most once; with different counts the surplus
    stays unpaired. The order of a batch leaves no trace in a gradient, so this is the only fair
    comparison.

    Args:
        records: Reconstructions.
        truth: True records.
        up_to_scale: Multiply each reconstruction by the factor s >= 0 that brings it closest,
            s = max(0, <r, t> / <r, r>), before comparing.

    Returns:
        (record, true record, factor) per pair, by true record; the factor is 1 unless up to scale.

    Example:
        >>> match(np.array([[0.0, 2.0], [1.0, 0.0]]), np.eye(2), up_to_scale=True)
        [(1, 0, 1.0), (0, 1, 0.5)]
    """
    factors = np.ones((len(records), len(truth)))
    if up_to_scale:
        # Unit vectors first: inner products of huge or tiny records would over- or underflow.
        units, lengths = _units(records)
        projections = np.maximum(units @ truth.T, 0.0)
        factors = projections / lengths
        costs = np.stack(
            [
                ((projections[i][:, np.newaxis] * unit - truth) ** 2).sum(axis=1)
                for i, unit in enumerate(units)
            ]
            or [np.zeros(len(truth))]
        )[: len(records)]
    else:
        # Differences first, then squares: |a|^2 + |b|^2 - 2ab would cancel for close records.
        costs = cdist(records, truth, "sqeuclidean")
    rows, columns = linear_sum_assignment(np.minimum(costs, _LARGEST_COST))
    pairs = [(int(i), int(j), float(factors[i, j])) for i, j in zip(rows, columns, strict=True)]
    return sorted(pairs, key=lambda pair: pair[1])


def _units(
    records: Float[np.ndarray, "r n"],
) -> tuple[Float[np.ndarray, "r n"], Float[np.ndarray, "r 1"]]:
    largest = np.abs(records).max(axis=1, keepdims=True)
    largest[largest == 0] = 1.0
    scaled = records / largest
    lengths = np.linalg.norm(scaled, axis=1, keepdims=True)
    lengths[lengths == 0] = 1.0
    return scaled / lengths, lengths * largest
