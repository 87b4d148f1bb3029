"""Theory of the attacks, without torch: probabilities, thresholds and expected costs."""

from gradaudit.theory.limits import (
    Limit,
    certified_share_under_noise,
    halfspace_limit,
    information_limit,
    left_factor_limit,
    noise_edge,
)
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
    "Limit",
    "certified_share_under_noise",
    "coupon_collector",
    "expected_submatrices",
    "failure_probability",
    "false_rejection_rate",
    "halfspace_limit",
    "hit_probability",
    "information_limit",
    "layer_rank",
    "left_factor_limit",
    "log10_separable_by_chance",
    "log_hit_probability",
    "measure_rank",
    "measuring_work",
    "noise_edge",
    "nonsingular_probability",
    "sparsity_threshold",
    "submatrices_for_success",
]
