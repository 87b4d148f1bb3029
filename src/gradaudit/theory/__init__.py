"""Theory of the attacks, without torch: probabilities, thresholds and expected costs."""

from gradaudit.theory.separability import log10_separable_by_chance
from gradaudit.theory.spear import (
    coupon_collector,
    expected_submatrices,
    false_rejection_rate,
    hit_probability,
    sparsity_threshold,
)

__all__ = [
    "coupon_collector",
    "expected_submatrices",
    "false_rejection_rate",
    "hit_probability",
    "log10_separable_by_chance",
    "sparsity_threshold",
]
