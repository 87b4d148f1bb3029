"""How fast this machine is beside the one that the cost formulas were fitted on."""

from __future__ import annotations

import time

import numpy as np

# A product of this many rows and columns in float64: core seconds on the reference machine.
ROWS, REFERENCE_SECONDS = 600, 0.011
REPEATS = 8


def machine_factor() -> float:
    """Core seconds here over core seconds on the reference machine, by a timed matrix product.

    Takes a tenth of a second. The best of several, in seconds that the process computed for, so
    that other work on the machine adds little.

    Example:
        >>> machine_factor() > 0
        True
    """
    matrix = np.random.default_rng(0).standard_normal((ROWS, ROWS))
    best = np.inf
    for _ in range(REPEATS):
        started = time.process_time()
        matrix @ matrix
        best = min(best, time.process_time() - started)
    # A clock that ticks too coarsely shows nothing.
    return float(best) / REFERENCE_SECONDS if best > 0 else 1.0
