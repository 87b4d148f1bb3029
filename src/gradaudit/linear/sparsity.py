"""The sparsity filter's threshold: the paper's tau to begin with, lower where nothing passes it."""

from __future__ import annotations

import math

from gradaudit.linear.problem import Problem
from gradaudit.theory import sparsity_threshold

# A search that has tried this many times what it had tried at its last discovery has stalled ...
STALL_RATIO = 2.0
# ... if that is also at least so many candidates, enough for batches of ten.
STALL_MINIMUM = 20_000
RELAXATION = 0.85


class SparsityFilter:
    r"""How many zeros a direction needs to be kept.

    Begins at :math:`\tau l` of the l live rows, with :math:`\tau` from the false-rejection rate
    p_fr (SPEAR, section 4.1). That rate holds when neurons fire for half of the records. Where
    they fire more often (uncentred inputs, trained networks), true columns have fewer zeros and
    would be rejected for ever: whenever the search stalls, the threshold falls by 15 %, down to
    what a kernel needs to be more than a coincidence. The relaxation is ours.

    Args:
        problem: The layer.
        false_rejection: p_fr.
    """

    def __init__(self, problem: Problem, *, false_rejection: float = 1e-5) -> None:
        live = len(problem.unit_rows)
        self._lowest = problem.zeros_needed + 1
        start = math.floor(sparsity_threshold(live, false_rejection) * live)
        self.minimum_zeros = max(start, self._lowest)
        self._tried = 0
        self._tried_at_change = 0

    def observe(self, tried: int, new: int) -> None:
        """Take note of a round: candidates tried, and new directions among them."""
        self._tried += tried
        if new:
            self._tried_at_change = self._tried
        elif self._tried > max(STALL_RATIO * self._tried_at_change, STALL_MINIMUM):
            self.minimum_zeros = max(math.floor(RELAXATION * self.minimum_zeros), self._lowest)
            self._tried_at_change = self._tried
