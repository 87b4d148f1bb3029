"""The originals of a simulated client beside what was recovered."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Float64
from torch import Tensor

from gradaudit.preprocessing import Preprocessing
from gradaudit.report.text import count, number
from gradaudit.truth import Truth

# Of larger values the squared differences overflow.
LARGEST = 1e100


@dataclass(frozen=True, eq=False)
class Originals:
    """Which original belongs to which record, and how far apart they are.

    Attributes:
        inputs: The originals as network inputs, one a row.
        pairs: From a record's index to (original's index, largest error, PSNR in decibels).
        note: What must be said about the matching; empty for nothing.
    """

    inputs: Float64[np.ndarray, "b n"]
    pairs: dict[int, tuple[int, float, float]]
    note: str = ""

    def index(self, record: int) -> int | None:
        """The original that belongs to a record, or None without one."""
        pair = self.pairs.get(record)
        return None if pair is None else pair[0]

    def errors(self, record: int) -> tuple[tuple[str, str], ...]:
        """How far a record is from its original, for a card."""
        pair = self.pairs.get(record)
        if pair is None:
            return (("Original", "none left to compare with"),)
        return (("Largest error", number(pair[1])), ("PSNR", f"{number(pair[2])} dB"))


def match_originals(
    records: Float[Tensor, "b n"],
    truth: Truth,
    preprocessing: Preprocessing | None,
    *,
    up_to_scale: bool = False,
) -> Originals:
    """Pair recovered records with originals, one to one, by `gradaudit.metrics.compare`.

    Args:
        records: Recovered network inputs, one a row; those with values that are not finite or
            beyond all measure have no original.
        truth: The originals.
        preprocessing: Stands in for the truth's own, should that have none.
        up_to_scale: Whether records are right up to a positive factor only.

    Raises:
        InputError: The truth is of another batch.

    Example:
        >>> import torch
        >>> truth = Truth(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([0, 1]))
        >>> match_originals(torch.tensor([[3.0, 4.0]]), truth, None).index(0)
        1
    """
    # Late, since a report without originals needs none of it.
    from gradaudit.metrics import compare  # noqa: PLC0415

    known = (
        truth if truth.preprocessing is not None else replace(truth, preprocessing=preprocessing)
    )
    usable = [i for i, row in enumerate(records) if bool((row.abs() <= LARGEST).all())]
    comparison = compare(records[usable], known, up_to_scale=up_to_scale, structural=False)
    pairs = {
        usable[pair.record]: (pair.truth, pair.max_abs_error, pair.psnr)
        for pair in comparison.pairs
    }
    note = (
        "Originals are matched one to one with what was recovered. The largest error is that of a "
        f"network input; PSNR is of {comparison.range_meaning}."
    )
    if up_to_scale:
        note += " Both are measured after the best factor for each record."
    if comparison.unmatched_truth:
        note += (
            f" {count(len(comparison.unmatched_truth), 'original')} without a counterpart (every "
            "copy of a record counts)."
        )
    inputs = truth.inputs.detach().cpu().double().reshape(truth.batch_size, -1).numpy()
    return Originals(inputs, pairs, note)
