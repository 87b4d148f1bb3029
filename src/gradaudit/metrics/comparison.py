"""Reconstructed records against the truth: one row a pair, and what the batch comes to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from torch import Tensor

from gradaudit.errors import InputError
from gradaudit.metrics.matching import match
from gradaudit.metrics.measures import Measures
from gradaudit.truth import Truth

# The square of a larger number, summed over the features of a record, may overflow.
_LARGEST = 1e150


@dataclass(frozen=True)
class Pair:
    """A reconstruction and the true record it was matched with.

    Attributes:
        record: Row of the reconstruction.
        truth: Row of the true record.
        mse: Mean squared error of the network inputs.
        max_abs_error: Largest absolute error of the network inputs.
        psnr: In dB; see the comparison's `range_meaning`.
        exact: Whether `max_abs_error` is within the comparison's tolerance.
        scale: What the reconstruction was multiplied by; 1 unless compared up to scale.
        ssim: Structural similarity, or None where it is not defined.
        lpips: Perceptual distance, or None where it was not asked for or is not defined.
        label_correct: Whether the label is right, or None when labels were not given.
    """

    record: int
    truth: int
    mse: float
    max_abs_error: float
    psnr: float
    exact: bool
    scale: float = 1.0
    ssim: float | None = None
    lpips: float | None = None
    label_correct: bool | None = None


@dataclass(frozen=True)
class Comparison:
    """What `compare` found. Means are over pairs: read them beside `unmatched_truth`.

    Attributes:
        pairs: By true record.
        unmatched_records: Reconstructions left over.
        unmatched_truth: True records left over.
        exact_batch: Every reconstruction is exact, and every true record is within tolerance of
            one (a record that is in the batch twice need be found only once).
        tolerance: Largest absolute error of an exact record, on network inputs.
        data_range: R of the PSNR.
        range_meaning: What that range is, in words.
        up_to_scale: Whether reconstructions were compared up to a positive factor each.
        notes: Why a measure is missing, and what else a reader must know.
    """

    pairs: tuple[Pair, ...]
    unmatched_records: tuple[int, ...]
    unmatched_truth: tuple[int, ...]
    exact_batch: bool
    tolerance: float
    data_range: float
    range_meaning: str
    up_to_scale: bool = False
    notes: tuple[str, ...] = ()

    @property
    def exact_records(self) -> int:
        """Number of pairs within tolerance."""
        return sum(pair.exact for pair in self.pairs)

    @property
    def mean_mse(self) -> float | None:
        """Mean over pairs, or None without pairs."""
        return self._mean("mse")

    @property
    def mean_psnr(self) -> float | None:
        """Mean over pairs in dB, or None without pairs."""
        return self._mean("psnr")

    @property
    def mean_ssim(self) -> float | None:
        """Mean over pairs, or None where it is not defined."""
        return self._mean("ssim")

    @property
    def mean_lpips(self) -> float | None:
        """Mean over pairs, or None where it was not asked for or is not defined."""
        return self._mean("lpips")

    @property
    def label_accuracy(self) -> float | None:
        """Share of pairs with the right label; None without labels. An unknown label is wrong."""
        return self._mean("label_correct")

    def table(self) -> list[dict[str, Any]]:
        """One row a pair, columns without any value left out; for printing."""
        rows = [asdict(pair) for pair in self.pairs]
        used = [key for key in (rows[0] if rows else ()) if any(r[key] is not None for r in rows)]
        if not self.up_to_scale:
            used = [key for key in used if key != "scale"]
        return [{key: row[key] for key in used} for row in rows]

    def to_json(self) -> dict[str, Any]:
        """Everything, with the means, as a JSON-ready mapping of finite numbers."""
        return {
            **asdict(self),
            "pairs": [asdict(pair) for pair in self.pairs],
            "unmatched_records": list(self.unmatched_records),
            "unmatched_truth": list(self.unmatched_truth),
            "notes": list(self.notes),
            "exact_records": self.exact_records,
            "mean_mse": self.mean_mse,
            "mean_psnr": self.mean_psnr,
            "mean_ssim": self.mean_ssim,
            "mean_lpips": self.mean_lpips,
            "label_accuracy": self.label_accuracy,
        }

    def _mean(self, name: str) -> float | None:
        values = [getattr(pair, name) for pair in self.pairs]
        known = [float(value) for value in values if value is not None]
        return float(np.mean(known)) if known else None


def compare(
    records: Float[Tensor, "r ..."],
    truth: Truth,
    *,
    tolerance: float = 1e-6,
    labels: Sequence[int | None] | None = None,
    up_to_scale: bool = False,
    structural: bool = True,
    perceptual: str | None = None,
) -> Comparison:
    """Match reconstructions with the truth, one to one, and measure every pair.

    Errors are those of the network inputs. PSNR and the image metrics are of pixels in [0, 1]
    (normalisation undone, not clipped) when the truth's preprocessing says that records are
    images; otherwise PSNR is of network inputs on the range that the true batch spans.

    Args:
        records: Reconstructions, one a row, of any shape after the first axis.
        truth: What the client used.
        tolerance: Largest absolute error, on network inputs, of an exact record. The default suits
            gradients in float64; say 1e-3 for float32.
        labels: The class found for every reconstruction, None where it was not determined.
        up_to_scale: Records are known up to a positive factor only; see `match`.
        structural: Whether to compute SSIM of images (needs the extra ``metrics``; without it the
            value is None and a note says so).
        perceptual: ``"alex"`` or ``"vgg"`` for LPIPS of images (needs the extra ``lpips``).

    Raises:
        InputError: Shapes do not fit, a value is not finite, or LPIPS cannot be computed.
        MissingExtraError: LPIPS was asked for and is not installed.

    Example:
        >>> import torch
        >>> truth = Truth(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([0, 1]))
        >>> found = compare(torch.tensor([[3.0, 4.0]]), truth)
        >>> found.exact_records, found.unmatched_truth, found.exact_batch
        (1, (0,), False)
    """
    if not 0 <= tolerance < float("inf"):
        raise InputError("tolerance", repr(tolerance), "a number of 0 or more")
    found = _rows("records", records)
    true = _rows("truth.inputs", truth.inputs)
    if found.shape[1] != true.shape[1]:
        raise InputError(
            "records",
            f"{found.shape[1]} features",
            f"{true.shape[1]}, as the true records have",
            "give the truth of this update",
        )
    if labels is not None and (len(labels) != len(found) or truth.labels.ndim != 1):
        raise InputError("labels", f"{len(labels)} labels", f"one a record, {len(found)}")
    if not len(true):
        raise InputError("truth.inputs", "no record", "at least one")
    matched = match(found, true, up_to_scale=up_to_scale)
    measures = Measures(truth, true, structural, perceptual)
    pairs = []
    closest = np.empty((len(matched), true.shape[1]))
    for number, (i, j, scale) in enumerate(matched):
        closest[number] = found[i] * scale
        difference = np.abs(closest[number] - true[j])
        error = float(difference.max())
        pairs.append(
            Pair(
                record=i,
                truth=j,
                mse=float(np.mean(difference**2)),
                max_abs_error=error,
                exact=error <= tolerance,
                scale=scale,
                label_correct=None if labels is None else labels[i] == truth.labels[j].item(),
                **measures.of(closest[number], true[j]),
            )
        )
    rest = tuple(sorted(set(range(len(true))) - {pair.truth for pair in pairs}))
    left = tuple(sorted(set(range(len(found))) - {pair.record for pair in pairs}))
    exact = all(pair.exact for pair in pairs) and not left
    covered = all(
        bool((np.abs(closest - true[j]).max(axis=1) <= tolerance).any()) for j in rest if pairs
    )
    return Comparison(
        tuple(pairs),
        left,
        rest,
        exact and covered and bool(pairs),
        tolerance,
        measures.data_range,
        measures.range_meaning,
        up_to_scale,
        measures.notes,
    )


def _rows(argument: str, values: Float[Tensor, "b ..."]) -> Float[np.ndarray, "b n"]:
    if not isinstance(values, Tensor):
        raise InputError(argument, type(values).__name__, "a tensor, one record a row")
    if values.ndim < 2 or 0 in values.shape[1:] or values.is_complex():
        raise InputError(argument, f"shape {tuple(values.shape)}", "one record a row")
    rows = values.detach().cpu().double().flatten(1).numpy()
    if not (np.abs(rows) <= _LARGEST).all():
        raise InputError(
            argument, "values that are nan or infinite or too large", f"numbers up to {_LARGEST:g}"
        )
    return rows
