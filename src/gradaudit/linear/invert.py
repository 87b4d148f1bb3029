"""The pipeline: factor, propose, pool, select, scale. Certification is for others."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor

from gradaudit.budget import Control
from gradaudit.linear.complete import completions, repairs
from gradaudit.linear.disaggregate import Batch, disaggregate
from gradaudit.linear.partial import partial_batch
from gradaudit.linear.pool import Pool
from gradaudit.linear.problem import Problem
from gradaudit.linear.proposers import PROPOSERS, Proposer
from gradaudit.linear.select import Selection, greedy_filter
from gradaudit.linear.sparsity import SparsityFilter
from gradaudit.theory import coupon_collector

# Why a search ended that would find nothing with more time either.
NOTHING_LEFT = "everything was tried"
# Arithmetic without a find after which a search is charged double, and as much again for each more.
PATIENCE = 5e9


@dataclass(frozen=True, eq=False)
class Inversion:
    """What a search came back with; whether it is right is not for it to say.

    Attributes:
        batch: The best reconstruction, or None if too few directions were found.
        directions_found: Verified distinct directions.
        matching: Sparsity matching coefficient of the batch, None without one.
        stopped: Why the search ended before the coefficient reached 1, or "".
        counters: Submatrices and so on.
        seconds: By phase.
        partial: Without a batch, the records that single rows of the gradient show, if any.
        directions: Without a batch, the independent directions that can be trusted, if any.
    """

    batch: Batch | None
    directions_found: int
    matching: float | None
    stopped: str
    counters: dict[str, float] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    partial: Batch | None = None
    directions: Float[Tensor, "k b"] | None = None


def invert(
    problem: Problem,
    *,
    proposer: str | Sequence[str],
    generator: torch.Generator,
    control: Control,
    accept: Callable[[Batch], bool] | None = None,
    complete: bool = True,
) -> Inversion:
    """Search one layer's batch until the reconstruction is consistent or the budget is used up.

    Args:
        problem: The layer.
        proposer: A name in the registry of proposers, or several that share the time.
        generator: Of all randomness, on the problem's device.
        control: Budget, progress and interruption.
        accept: Shared code's judgement of a complete reconstruction; ends the search early where
            the matching coefficient cannot reach 1 (gradients that vanish on active neurons).
        complete: Whether to solve for the last two directions rather than wait for the proposer
            to find them.

    Returns:
        The best reconstruction with counters.
    """
    names = (proposer,) if isinstance(proposer, str) else proposer
    team = _team(names, problem)
    pool = Pool(problem)
    sparsity = SparsityFilter(problem)
    clock = _Clock()
    selection: Selection | None = None
    stopped = ""
    try:
        while True:
            # The member that has been charged least is next: each gets its share, whatever a round
            # of it costs, and all profit from what any of them finds.
            ready = [member for member in team if member.exhausted_at != len(pool)]
            if not ready:
                stopped = NOTHING_LEFT
                break
            member = min(ready, key=_charge)
            with clock.phase("propose"):
                proposals = member.propose(generator, pool, sparsity, control.budget.submatrices)
            with clock.phase("verify"):
                minimum = sparsity.minimum_zeros if member.search.by_sparsity else 0
                new = pool.add(proposals, max(minimum, problem.zeros_needed + 1))
                if new and complete:
                    new += _complete(problem, pool)
            control.effort.spent += member.observe(new)
            if member.search.by_sparsity:
                sparsity.observe(member.last_tried, new)
            done = False
            if new and len(pool) >= problem.batch_size:
                with clock.phase("select"):
                    selection, done = _select(problem, pool, accept, control, repair=complete)
            control.report(
                f"layer {problem.layer.name}: {member.search.unit}",
                tried=member.tried,
                found=min(len(pool), problem.batch_size),
                wanted=problem.batch_size,
                seconds_left=_seconds_left(pool, problem.batch_size, control.elapsed_seconds),
            )
            if done:
                break
            submatrices = max(m.tried * m.search.by_sparsity for m in team)
            stopped = control.stop_reason(submatrices) or ""
            if stopped:
                break
    except KeyboardInterrupt:
        # A library caller without a signal handler still gets what was found so far.
        control.interrupt()
        stopped = "interrupted"
    if selection is None and len(pool) >= problem.batch_size:
        # Interrupted before the first selection was through.
        selection = greedy_filter(problem, pool, second_stage=False)
    batch = None
    if selection is not None:
        with clock.phase("disaggregate"):
            batch = disaggregate(problem, pool.directions[selection.chosen])
    counters = {
        **{member.search.unit: float(member.tried) for member in team},
        "hits": float(pool.hits[selection.chosen].sum() if selection else pool.hits.sum()),
        "candidate_directions": float(len(pool)),
        "rejected_proposals": float(pool.rejected),
        "greedy_swaps": float(selection.swaps if selection else 0),
        "minimum_zeros": float(sparsity.minimum_zeros),
    }
    return Inversion(
        batch,
        len(pool),
        selection.matching if selection else None,
        stopped,
        counters,
        clock.seconds,
        *_parts(problem, pool, batch, clock),
    )


def _parts(
    problem: Problem, pool: Pool, batch: Batch | None, clock: _Clock
) -> tuple[Batch | None, Float[Tensor, "k b"] | None]:
    """What single rows show when directions are missing, and the directions there are."""
    directions = pool.basis() if batch is None else None
    if directions is None or not 0 < len(directions) < problem.batch_size:
        return None, None
    with clock.phase("partial"):
        return partial_batch(problem, directions), directions


def _complete(problem: Problem, pool: Pool) -> int:
    """Solve for the last directions as soon as all others are there; how many were new."""
    return pool.add(completions(problem, pool.basis()), problem.zeros_needed + 1)


def _select(
    problem: Problem,
    pool: Pool,
    accept: Callable[[Batch], bool] | None,
    control: Control,
    *,
    repair: bool,
) -> tuple[Selection | None, bool]:
    """The best batch in the pool, wrong directions of it solved for anew, and whether it will do.

    Repairs are dear, and accepting comes first: of a rounded update the matching is seldom perfect.
    """

    def stop() -> bool:
        return control.stop_reason() is not None

    selection = greedy_filter(problem, pool, stop=stop)
    if selection is None or _is_done(problem, pool, selection, accept):
        return selection, selection is not None
    chosen = pool.directions[selection.chosen]
    repair = repair and not stop()
    if not repair or not pool.add(repairs(problem, chosen), problem.zeros_needed + 1):
        return selection, False
    selection = greedy_filter(problem, pool, stop=stop)
    return selection, selection is not None and _is_done(problem, pool, selection, accept)


def _is_done(
    problem: Problem, pool: Pool, selection: Selection, accept: Callable[[Batch], bool] | None
) -> bool:
    if selection.matching >= 1.0:
        return True
    if accept is None:
        return False
    batch = disaggregate(problem, pool.directions[selection.chosen])
    return batch is not None and accept(batch)


def _seconds_left(pool: Pool, wanted: int, elapsed: float) -> float | None:
    """Coupon collector at the hit rate seen so far; unknown until there are a few hits."""
    hits = int(pool.hits.sum())
    if hits < 3 or len(pool) >= wanted:
        return None
    return elapsed / hits * coupon_collector(wanted, len(pool))


class _Member:
    """A proposer at work: what it has tried and what it is charged for that."""

    def __init__(self, search: Proposer) -> None:
        self.search = search
        self.tried = self.last_tried = 0
        self.charge = 0.0
        self._last_cost = 0.0
        self._idle = 0.0
        # Size of the pool at which it had nothing left to try.
        self.exhausted_at: int | None = None

    def propose(
        self,
        generator: torch.Generator,
        pool: Pool,
        sparsity: SparsityFilter,
        limit: int | None,
    ) -> Float[Tensor, "k b"]:
        budgeted = limit is not None and self.search.by_sparsity
        proposals = self.search.propose(
            generator,
            sparsity.minimum_zeros,
            found=pool.basis(),
            at_most=max(limit - self.tried, 1) if limit is not None and budgeted else None,
        )
        self.last_tried = proposals.tried
        self.tried += proposals.tried
        self._last_cost = proposals.cost
        self.exhausted_at = len(pool) if proposals.exhausted else None
        return proposals.directions

    def observe(self, new: int) -> float:
        """Charge for the last round: the more, the longer it has not found anything.

        Returns:
            What the round cost in arithmetic, whatever is charged for it.
        """
        self._idle = 0.0 if new else self._idle + self._last_cost
        self.charge += self._last_cost * (1.0 + self._idle / PATIENCE)
        return self._last_cost


def _team(names: Sequence[str], problem: Problem) -> list[_Member]:
    team = [_Member(PROPOSERS[name](problem)) for name in names]
    for member in team[1:]:
        # Alone it would have nobody to wait for.
        member.charge = member.search.joins_after * problem.unit_rows.numel()
    return team


def _charge(member: _Member) -> float:
    return member.charge


class _Clock:
    """Adds up seconds by phase."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def phase(self, name: str) -> _Phase:
        return _Phase(self.seconds, name)


class _Phase:
    def __init__(self, seconds: dict[str, float], name: str) -> None:
        self._seconds, self._name = seconds, name

    def __enter__(self) -> None:
        self._start = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        spent = time.perf_counter() - self._start
        self._seconds[self._name] = self._seconds.get(self._name, 0.0) + spent
