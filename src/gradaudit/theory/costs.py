"""Core seconds of each attack, as short formulas fitted to the benchmarks' measurements.

Seconds are those of one core of the machine that the benchmarks ran on (`REFERENCE_MACHINE`).
Every constant says which figures under ``benchmarks/results`` it was fitted to; none of them is
derived. Outside `measured_sizes` a prediction is an extrapolation.
"""

from __future__ import annotations

from gradaudit.errors import InputError
from gradaudit.theory.spear import expected_submatrices

REFERENCE_MACHINE = "AMD EPYC, one core, torch 2.13 on the CPU"

# Least squares on logarithms, exact_recovery.json and growth.json, of all complete CIFAR-10
# audits with six layers and centred inputs: b = 10..512, m = 200..4000. The scatter is a factor of
# 1.33 (one standard deviation); the worst row, (b, m) = (124, 400), is 2.85 times slower.
START_SECONDS = 0.2
SECONDS_PER_WEIGHT = 4.4e-7
SEARCH_SECONDS, SEARCH_BATCH_POWER, SEARCH_WIDTH_POWER = 2.2e-6, 4.455, -1.037
SCATTER = 1.33
MEASURED_BATCHES, MEASURED_WIDTHS = (10, 512), (200, 4000)

# Two layers, or inputs that are not centred: as quick up to b = 0.064 m, and 4 to 8 times slower
# at 0.128 m (exact_recovery.json, m = 1000).
EASY_SHARE, HARD_POWER = 0.064, 3.0

# SPEAR++ took 0.9 to 1.3 times the half-space search's time where both end (side_by_side.json).
DICTIONARY_RATIO = 1.1

# Submatrices a second at m = 200 and b = 8, 16, 24 (sampler.json); the certificate's cost is what
# SPEAR took beyond them at (16, 2000) (exact_recovery.json).
SUBMATRIX_SECONDS, SUBMATRIX_BATCH, SUBMATRIX_POWER = 1.3e-6, 8, 2.07
CERTIFICATE_SECONDS_PER_WEIGHT = 1.1e-7

# Most seconds at b = 64 and 128, m = 1000, CIFAR-10 in [0, 1] (peeling.json); MNIST took 0.4 to
# 2 times as long at b = 64 and less beyond.
PEELING_SECONDS, PEELING_BATCH, PEELING_POWER, PEELING_WIDTH = 5.0, 64, 3.85, 1000

# LeNet 0.3 to 0.9, CNN6 0.55 to 1.1, CNN6-d 1.8 (rgap.json): no trend that three networks show.
RECURSION_SECONDS = 0.9
# One CIFAR-10 or MNIST image on LeNet: 72 to 889 by the clock (gradient_matching.json).
MATCHING_SECONDS = 300.0
# CIFAR-10 at b = 8 and 50, by the clock on one core (gradient_matching.json): 10 and 51. Every step
# is two products of b x n by b x b.
UNMIXING_SECONDS, UNMIXING_BATCH, UNMIXING_POWER, UNMIXING_INPUTS = 51.0, 50, 0.9, 3072

# Not measured: what a data-centre GPU is taken to gain on all but the start.
GPU_SPEEDUP = 20.0


def halfspace_seconds(batch_size: int, width: int, weights: int, *, harder: bool = False) -> float:
    r"""Core seconds of an audit by the half-space search, which ``auto`` relies on.

    :math:`0.2 + 4.4 \cdot 10^{-7} w + 2.2 \cdot 10^{-6}\, b^{4.455} m^{-1.037}`.

    Args:
        batch_size: b, distinct records, at least 1.
        width: m, neurons of the layer that is inverted, at least 1.
        weights: w, entries of all weight matrices of the network, at least 1.
        harder: Whether the network has two layers, or the inputs are not centred.

    Raises:
        InputError: An argument is below 1.

    Example:
        >>> round(halfspace_seconds(100, 1000, 7_000_000), 1)
        4.7
    """
    _check(batch_size=batch_size, width=width, weights=weights)
    search = SEARCH_SECONDS * batch_size**SEARCH_BATCH_POWER * width**SEARCH_WIDTH_POWER
    share = batch_size / (EASY_SHARE * width)
    factor = max(1.0, share**HARD_POWER) if harder else 1.0
    return START_SECONDS + SECONDS_PER_WEIGHT * weights + search * factor


def dictionary_seconds(batch_size: int, width: int, weights: int, *, harder: bool = False) -> float:
    """Core seconds of an audit by SPEAR++'s descent, where it ends at all.

    Args:
        batch_size: b, at least 1.
        width: m, at least 1.
        weights: As `halfspace_seconds` takes them.
        harder: As `halfspace_seconds` takes it.

    Raises:
        InputError: An argument is below 1.

    Example:
        >>> dictionary_seconds(20, 200, 1000) > halfspace_seconds(20, 200, 1000)
        True
    """
    return DICTIONARY_RATIO * halfspace_seconds(batch_size, width, weights, harder=harder)


def spear_seconds(batch_size: int, weights: int) -> float:
    """Core seconds of SPEAR: Lemma 5.2's submatrices times the seconds that each takes.

    Lemma 5.2 is itself an upper bound for wide layers, and low for narrow ones.

    Args:
        batch_size: b, at least 1.
        weights: As `halfspace_seconds` takes them.

    Raises:
        InputError: An argument is below 1.

    Source:
        SPEAR, arXiv 2403.03945, Lemma 5.2.

    Example:
        >>> round(spear_seconds(16, 800_000), 1)
        1.3
    """
    _check(batch_size=batch_size, weights=weights)
    each = SUBMATRIX_SECONDS * (batch_size / SUBMATRIX_BATCH) ** SUBMATRIX_POWER
    return single_seconds(weights) + expected_submatrices(batch_size) * each


def peeling_seconds(batch_size: int, width: int, weights: int) -> float:
    """Core seconds of peeling; rough, to within a factor of about five.

    Args:
        batch_size: b, at least 1.
        width: m, at least 1.
        weights: As `halfspace_seconds` takes them.

    Raises:
        InputError: An argument is below 1.

    Example:
        >>> round(peeling_seconds(64, 1000, 1), 1)
        5.2
    """
    _check(batch_size=batch_size, width=width, weights=weights)
    reading = PEELING_SECONDS * (batch_size / PEELING_BATCH) ** PEELING_POWER
    return single_seconds(weights) + reading * width / PEELING_WIDTH


def single_seconds(weights: int) -> float:
    """Core seconds of the closed form for one record, with its certificate.

    Args:
        weights: As `halfspace_seconds` takes them.

    Raises:
        InputError: It is below 1.

    Example:
        >>> round(single_seconds(1_000_000), 2)
        0.31
    """
    _check(weights=weights)
    return START_SECONDS + CERTIFICATE_SECONDS_PER_WEIGHT * weights


def recursion_seconds() -> float:
    """Core seconds of R-GAP's recursion on a network like those it was measured on.

    Example:
        >>> recursion_seconds()
        0.9
    """
    return RECURSION_SECONDS


def matching_seconds() -> float:
    """Seconds of gradient matching for one image on a small network, to within a factor of four.

    Example:
        >>> matching_seconds()
        300.0
    """
    return MATCHING_SECONDS


def unmixing_seconds(batch_size: int, inputs: int) -> float:
    """Core seconds of Cocktail Party's two searches for independent sources; rough.

    Args:
        batch_size: b, at least 1.
        inputs: n, entries of a record, at least 1.

    Raises:
        InputError: An argument is below 1.

    Example:
        >>> round(unmixing_seconds(8, 3072), 1)
        9.8
    """
    _check(batch_size=batch_size, inputs=inputs)
    scaled = (batch_size / UNMIXING_BATCH) ** UNMIXING_POWER
    return UNMIXING_SECONDS * scaled * inputs / UNMIXING_INPUTS


def gpu_seconds(core_seconds: float) -> float:
    """A guess at the seconds on a data-centre GPU, which was not measured.

    Args:
        core_seconds: On the reference core, at least 0.

    Raises:
        InputError: It is negative.

    Example:
        >>> round(gpu_seconds(20.2), 1)
        1.2
    """
    if not core_seconds >= 0:
        raise InputError("core_seconds", repr(core_seconds), "a number from 0")
    start = min(core_seconds, START_SECONDS)
    return start + (core_seconds - start) / GPU_SPEEDUP


def measured_sizes(batch_size: int, width: int) -> bool:
    """Whether the half-space search's cost was fitted to batches and widths around these.

    Args:
        batch_size: b.
        width: m.

    Example:
        >>> measured_sizes(100, 1000), measured_sizes(100, 16_000)
        (True, False)
    """
    return (
        MEASURED_BATCHES[0] <= batch_size <= MEASURED_BATCHES[1]
        and MEASURED_WIDTHS[0] <= width <= MEASURED_WIDTHS[1]
    )


def _check(**sizes: int) -> None:
    for name, size in sizes.items():
        if size < 1:
            raise InputError(name, str(size), "a whole number of at least 1")
