"""Recovery from updates that carry noise: rank, search, joint fit, and each record's error."""

from gradaudit.noisy.level import factors_above_noise, measure_noise, noise_edge
from gradaudit.noisy.recover import NoisyBatch, Recovery, recover_under_noise

__all__ = [
    "NoisyBatch",
    "Recovery",
    "factors_above_noise",
    "measure_noise",
    "noise_edge",
    "recover_under_noise",
]
