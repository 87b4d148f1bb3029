"""How much each round of the half-space search tries, by what the last one brought."""

from __future__ import annotations

from dataclasses import dataclass

from gradaudit.linear.moment import Phase
from gradaudit.linear.sharpen import Annealing


@dataclass(frozen=True)
class Effort:
    """How one round iterates and sharpens."""

    phases: tuple[Phase, ...]
    annealing: Annealing

    @property
    def iterations(self) -> int:
        """Of all phases."""
        return sum(phase.iterations for phase in self.phases)


# Slower, for candidates that overlap a true direction by 0.6 only.
SLOWLY = Annealing(rounds=40, first_spread=1.0, spread_factor=0.9)
# Starts in the first round. Where few are missing so many starts will do, and this many for each.
STARTS = 300
FEWEST_STARTS, STARTS_EACH = 100, 6
# How a round goes about it: the first kind finds the most different directions, the others arrive
# even near the limit, but from most starts at the same few.
EFFORTS = (
    Effort((Phase(100, tie=2.0, contrast=1.0),), Annealing()),
    Effort((Phase(50, tie=4.0, contrast=0.5, pull=0.05), Phase(50, tie=2.0, contrast=0.5)), SLOWLY),
    Effort(
        (Phase(100, tie=4.0, contrast=0.4, pull=0.05), Phase(100, tie=3.0, contrast=0.5)), SLOWLY
    ),
)
# A round that brings this part of what is missing, or so many, is good: as many starts again, or
# half of them if they were doubled. After another one the effort rises, and at its end the starts
# are doubled, up to the limit. A round that brings so much more makes the next one's effort less.
GOOD_SHARE, GOOD, EASY_SHARE = 0.1, 5, 0.25
LARGEST_STARTS = 4_800
# Candidates sharpened in a round, the best-ranked first: so many, or this part of the batch size,
# or twice as many as the last round brought, or in proportion to the starts.
SHARPENED, SHARPENED_SHARE, LARGEST_SHARPENED = 64, 0.25, 256


class Pace:
    """Starts, effort and candidates of the next round.

    Args:
        batch_size: Directions there are.
        starts: Of the first round.

    Example:
        >>> pace = Pace(100)
        >>> [pace.starts_after(found) for found in (0, 0, 0, 0)], pace.effort is EFFORTS[-1]
        ([300, 300, 300, 600], True)
    """

    def __init__(self, batch_size: int, starts: int = STARTS) -> None:
        self._batch_size = batch_size
        self._starts = starts
        self._level = 0
        self._found: int | None = None
        self.sharpened = SHARPENED

    @property
    def effort(self) -> Effort:
        """Of the round that was asked for last."""
        return EFFORTS[self._level]

    def starts_after(self, found: int) -> int:
        """How many starts the next round is to have, with so many directions found before it."""
        new = 0
        if self._found is not None:
            missing, new = self._batch_size - self._found, found - self._found
            if new >= min(GOOD_SHARE * missing, GOOD):
                self._starts = max(self._starts // 2, STARTS)
                if new >= EASY_SHARE * missing:
                    self._level = max(self._level - 1, 0)
            elif self._level + 1 < len(EFFORTS):
                self._level += 1
            else:
                self._starts = min(2 * self._starts, LARGEST_STARTS)
        self._found = found
        usual = max(SHARPENED, int(SHARPENED_SHARE * self._batch_size))
        self.sharpened = min(
            max(usual * max(1, self._starts // STARTS), 2 * new), LARGEST_SHARPENED
        )
        if self._starts > STARTS:
            return self._starts
        return min(self._starts, max(FEWEST_STARTS, STARTS_EACH * (self._batch_size - found)))
