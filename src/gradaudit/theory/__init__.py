"""Theory of the attacks, without torch: probabilities, thresholds and expected costs."""

from gradaudit.theory.measured import MAX_WORK, measure_rank, measuring_work
from gradaudit.theory.ranks import Convolution, LayerRank, layer_rank
from gradaudit.theory.samples import failure_probability, submatrices_for_success
from gradaudit.theory.separability import log10_separable_by_chance
from gradaudit.theory.spear import (
    coupon_collector,
    expected_submatrices,
    false_rejection_rate,
    hit_probability,
    log_hit_probability,
    nonsingular_probability,
    sparsity_threshold,
)

__all__ = [
    "MAX_WORK",
    "Convolution",
    "LayerRank",
    "coupon_collector",
    "expected_submatrices",
    "failure_probability",
    "false_rejection_rate",
    "hit_probability",
    "layer_rank",
    "log10_separable_by_chance",
    "log_hit_probability",
    "measure_rank",
    "measuring_work",
    "nonsingular_probability",
    "sparsity_threshold",
    "submatrices_for_success",
]
