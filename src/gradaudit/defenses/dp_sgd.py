"""DP-SGD, as Opacus does it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from gradaudit.defenses.checks import check_number
from gradaudit.defenses.clip_per_record import ClipPerRecord
from gradaudit.defenses.defense import RecordDefense


@dataclass(frozen=True)
class DPSGD(RecordDefense):
    """Clip each record's gradient, add noise to their sum, divide by the batch size.

    ::

        g  =  (sum_i g_i min(1, C / |g_i|) + N(0, (sigma C)^2)) / B

    over all parameters together. The noise in an entry of the mean gradient that is sent has
    standard deviation sigma C / B; of a summed gradient, sigma C. In local training, every step's
    gradient is made so.

    Attributes:
        clip: C, Opacus' ``max_grad_norm``, in the units of a single record's gradient; positive.
        noise_multiplier: sigma, without a unit; 0 or more.
        expected_batch_size: B, where batches are drawn by chance (Poisson sampling) and a mean is
            divided by their expected size, positive; None: the batch's own size.

    Raises:
        InputError: A value is out of its range.

    Source:
        Abadi et al., Deep learning with differential privacy, 2016, algorithm 1; Opacus'
        ``DPOptimizer``.

    Example:
        >>> DPSGD(clip=2.0, noise_multiplier=0.5).noise_of_sum
        1.0
    """

    clip: float
    noise_multiplier: float
    expected_batch_size: float | None = None

    def __post_init__(self) -> None:
        check_number("clip", self.clip, 0, math.inf, open_below=True)
        check_number("noise_multiplier", self.noise_multiplier, 0, math.inf, open_below=False)
        if self.expected_batch_size is not None:
            expected = self.expected_batch_size
            check_number("expected_batch_size", expected, 0, math.inf, open_below=True)

    def on_records(self, gradients: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """See `RecordDefense.on_records`."""
        return ClipPerRecord(self.clip).on_records(gradients)

    @property
    def noise_of_sum(self) -> float:
        """See `RecordDefense.noise_of_sum`."""
        return self.noise_multiplier * self.clip

    def divisor(self, batch_size: float) -> float:
        """See `RecordDefense.divisor`."""
        return batch_size if self.expected_batch_size is None else self.expected_batch_size
