"""How large a batch each way of searching can undo, and what noise leaves: bounds and fits.

Only `information_limit` and `noise_edge` are theory. The others are what was measured so far:
limits of these searches, which better ones move.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from gradaudit.errors import InputError
from gradaudit.theory.costs import (
    MEASURED_WIDTHS,
    halfspace_seconds,
    measured_sizes,
)
from gradaudit.theory.spear import sparsity_threshold

# A power law through the largest b recovered within 60 core seconds at m = 200, 400 and 1000: 50,
# 124 and 234 (growth.json). The three lie within a factor of 1.18 of it. At m = 2000 and 4000 the
# seconds end first, at 234 and 250: with more of them 512 were recovered at 4000.
WALL_FACTOR, WALL_POWER, WALL_SECONDS = 0.367, 0.945, 60.0
UNCERTAINTY = 1.2
# What the fit knew of the rest of the network: CIFAR-10's inputs and six layers of m.
FITTED_INPUTS, FITTED_SQUARES = 3072, 4

# Certified share of records at b = 20, m = 200, n = 3072, by sigma: 1e-5, 3e-5, 1e-4, 1.5e-4, 2e-4
# (noisy.json). Held as b times the noise's edge over sqrt(n), to which a record's singular value
# in the mean gradient is proportional: extrapolated to every other size.
NOISE_BATCH, NOISE_WIDTH, NOISE_INPUTS = 20, 200, 3072
NOISE_SHARES = ((1e-5, 1.0), (3e-5, 0.985), (1e-4, 0.65), (1.5e-4, 0.05), (2e-4, 0.0))


@dataclass(frozen=True)
class Limit:
    """The largest batch that a search is expected to undo.

    Attributes:
        batch_size: The estimate.
        low: Batches up to here are expected to be recovered whole.
        high: Batches from here on are not expected to yield anything.
        measured: False where the estimate is extrapolated.
        reason: What sets the limit.
    """

    batch_size: int
    low: int
    high: int
    measured: bool
    reason: str

    def share(self, batch_size: int) -> float:
        """The expected share of records recovered: 1 up to `low`, 0 from `high` on.

        In between a line in log b; batches there were recovered whole or not at all.

        Args:
            batch_size: b, at least 1.

        Example:
            >>> Limit(10, 8, 12, True, "").share(8), Limit(10, 8, 12, True, "").share(12)
            (1.0, 0.0)
        """
        if batch_size <= self.low:
            return 1.0
        if batch_size >= self.high:
            return 0.0
        return math.log(self.high / batch_size) / math.log(self.high / self.low)


def information_limit(width: int, false_rejection: float = 1e-5) -> int:
    """The largest b at which a true direction has more zeros than any direction can be given.

    Any b - 1 rows can be made to vanish; a true direction vanishes on about m / 2, less a margin
    that a share ``false_rejection`` of them fall below. About m / 2 - 2.1 sqrt(m). Beyond it zeros
    say nothing, whatever the search.

    Args:
        width: m, at least 1.
        false_rejection: Between 0 and 1.

    Raises:
        InputError: An argument is out of range.

    Example:
        >>> information_limit(400)
        158
    """
    return max(1, round(sparsity_threshold(width, false_rejection) * width))


def left_factor_limit(width: int) -> int:
    """Where methods that see only the gradient's left factor are believed to end: 2 sqrt(m).

    Args:
        width: m, at least 1.

    Raises:
        InputError: It is below 1.

    Source:
        Mao and Wein, arXiv 2105.15081, for a planted sparse vector of density 1/2; the figures
        that SPEAR++ publishes lie along this line.

    Example:
        >>> left_factor_limit(1000)
        63
    """
    if width < 1:
        raise InputError("width", str(width), "a whole number of at least 1")
    return max(1, math.floor(2 * math.sqrt(width)))


def halfspace_limit(
    width: int,
    core_seconds: float = WALL_SECONDS,
    *,
    weights: int | None = None,
    harder: bool = False,
) -> Limit:
    """The largest batch that the half-space search is expected to undo within so many core seconds.

    The least of three: what the seconds suffice for (`halfspace_seconds`), the wall that narrow
    layers were measured to have, and `information_limit`.

    Args:
        width: m, at least 1.
        core_seconds: Above 0.
        weights: Entries of all weight matrices; those of six layers on CIFAR-10 by default.
        harder: As `halfspace_seconds` takes it.

    Raises:
        InputError: An argument is out of range.

    Example:
        >>> halfspace_limit(1000).batch_size
        230
    """
    information = information_limit(width)
    if not core_seconds > 0:
        raise InputError("core_seconds", repr(core_seconds), "a number above 0")
    if weights is None:
        weights = width * (FITTED_INPUTS + FITTED_SQUARES * width)
    timed = _affordable(width, core_seconds, weights, harder, information)
    wall = max(1, math.floor(WALL_FACTOR * width**WALL_POWER))
    least = min(timed, wall, information)
    # A limit that theory sets has no error of a fit.
    high = min(math.ceil(least * UNCERTAINTY), information + 1)
    reason = (
        "zeros say nothing beyond it"
        if least == information
        else f"{core_seconds:.3g} core seconds do not suffice beyond it"
        if least == timed
        else "no more was recovered in a layer of this width, given 60 core seconds"
    )
    within = MEASURED_WIDTHS[0] <= width <= MEASURED_WIDTHS[1]
    measured = within and (measured_sizes(least, width) if least == timed else width <= 1000)
    return Limit(least, max(1, math.floor(least / UNCERTAINTY)), high, measured, reason)


def noise_edge(noise: float, width: int, inputs: int) -> float:
    r"""The largest singular value of noise alone: :math:`\sigma (\sqrt m + \sqrt n)`.

    A record whose singular value lies below it cannot be told from noise by the spectrum.

    Args:
        noise: sigma, standard deviation of the noise in an entry, at least 0.
        width: m, at least 1.
        inputs: n, at least 1.

    Raises:
        InputError: An argument is out of range.

    Example:
        >>> noise_edge(0.1, 100, 400)
        3.0
    """
    if not 0 <= noise < math.inf:
        raise InputError("noise", repr(noise), "a standard deviation from 0")
    if width < 1 or inputs < 1:
        raise InputError("width", f"{width} and {inputs}", "whole numbers of at least 1")
    return noise * (math.sqrt(width) + math.sqrt(inputs))


def certified_share_under_noise(noise: float, batch_size: int, width: int, inputs: int) -> float:
    """The share of records that is expected to be certified in a mean gradient with noise.

    Interpolated in the logarithm of the noise between the measurements at b = 20, m = 200; carried
    to other sizes by how a record's singular value compares with `noise_edge`.

    Args:
        noise: sigma in every entry of the mean gradient, at least 0.
        batch_size: b, at least 1.
        width: m, at least 1.
        inputs: n, at least 1; taken to be of unit variance.

    Raises:
        InputError: An argument is out of range.

    Example:
        >>> certified_share_under_noise(1e-4, 20, 200, 3072)
        0.65
    """
    edge = noise_edge(noise, width, inputs) * batch_size / math.sqrt(inputs)
    unit = noise_edge(1.0, NOISE_WIDTH, NOISE_INPUTS) * NOISE_BATCH / math.sqrt(NOISE_INPUTS)
    alike = edge / unit
    before, share_before = NOISE_SHARES[0]
    if alike <= before:
        return share_before
    for after, share in NOISE_SHARES[1:]:
        if alike <= after:
            part = math.log(alike / before) / math.log(after / before)
            return share_before + part * (share - share_before)
        before, share_before = after, share
    return 0.0


def _affordable(width: int, seconds: float, weights: int, harder: bool, most: int) -> int:
    """The largest batch up to ``most`` whose search ends in time, or 1."""
    low, high = 1, most
    while low < high:
        middle = (low + high + 1) // 2
        if halfspace_seconds(middle, width, weights, harder=harder) <= seconds:
            low = middle
        else:
            high = middle - 1
    return low
