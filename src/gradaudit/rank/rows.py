"""The rows of a rank analysis: what is known about every layer's input."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from gradaudit.rank.architecture import Architecture, Shape
from gradaudit.rank.equations import Equations, equations_of
from gradaudit.rank.index import Accumulated, Size, accumulate
from gradaudit.theory import MAX_WORK, measure_rank, measuring_work


@dataclass(frozen=True)
class LayerRow:
    """What is known about one layer's input, when everything behind the layer is.

    Attributes:
        name: Of the layer.
        block: Of the block with a skip connection that it is in, or "".
        input_shape: Of the unknown.
        output_shape: Of the layer's output.
        unknowns: Entries of its input.
        gradient_constraints: Equations from the weight's gradient.
        weight_constraints: Equations from the output.
        naive_index: All equations but one, less the unknowns.
        exact_rank: Independent equations among them, at most the unknowns.
        exact_index: Independent equations less unknowns.
        deficit: Dimensions of the input that these equations leave open.
        virtual_constraints: The paper's, gained before this layer.
        rank_analysis_index: The paper's index, accumulated from the input to here.
        exact_accumulated_index: The same with exact ranks.
        measured: Whether the exact rank is measured at random weights, not counted.
        upper_bound: Whether the exact rank is one from above only.
        note: What the numbers do not say.
    """

    name: str
    block: str
    input_shape: Shape
    output_shape: Shape
    unknowns: int
    gradient_constraints: int
    weight_constraints: int
    naive_index: int
    exact_rank: int
    exact_index: int
    deficit: int
    virtual_constraints: int
    rank_analysis_index: int
    exact_accumulated_index: int
    measured: bool
    upper_bound: bool
    note: str

    @property
    def lossy(self) -> bool:
        """Whether it is no layer with a weight, but a step that the recursion cannot pass."""
        return not self.gradient_constraints


def rows_of(architecture: Architecture, *, measure: bool, seed: int) -> tuple[LayerRow, ...]:
    """Count, and measure where it is asked for and affordable, the equations of every layer.

    Args:
        architecture: The network's sizes.
        measure: Whether to measure ranks.
        seed: Of the random weights and gradients of a measurement.
    """
    found = list(equations_of(architecture.parts, architecture.input_shape))
    rng = np.random.default_rng(seed)
    measured = [_measured(each, rng) if measure else None for each in found]
    ranks = [
        each.rank.exact_rank if rank is None else rank
        for each, rank in zip(found, measured, strict=True)
    ]
    outputs = [math.prod(each.output_shape) for each in found]
    papers = accumulate(
        [
            Size(each.rank.unknowns, output, each.naive_index + each.rank.unknowns)
            for each, output in zip(found, outputs, strict=True)
        ]
    )
    exact = accumulate(
        [
            Size(each.rank.unknowns, output, rank)
            for each, output, rank in zip(found, outputs, ranks, strict=True)
        ]
    )
    return tuple(
        _row(each, rank, paper, precise, known is not None)
        for each, rank, paper, precise, known in zip(
            found, ranks, papers, exact, measured, strict=True
        )
    )


def _measured(each: Equations, rng: np.random.Generator) -> int | None:
    if each.sizes is None or measuring_work(each.sizes) > MAX_WORK:
        return None
    return measure_rank(each.sizes, rng=rng)


def _row(
    each: Equations, rank: int, paper: Accumulated, exact: Accumulated, measured: bool
) -> LayerRow:
    counted = each.rank
    lower = rank < counted.exact_rank
    return LayerRow(
        name=each.name,
        block=each.block,
        input_shape=each.input_shape,
        output_shape=each.output_shape,
        unknowns=counted.unknowns,
        gradient_constraints=counted.gradient_constraints,
        weight_constraints=counted.weight_constraints,
        naive_index=each.naive_index,
        exact_rank=rank,
        exact_index=rank - counted.unknowns if lower else counted.exact_index,
        deficit=counted.unknowns - rank,
        virtual_constraints=paper.virtual_constraints,
        rank_analysis_index=paper.index,
        exact_accumulated_index=exact.index,
        measured=measured,
        upper_bound=each.upper_bound,
        note=each.note,
    )
