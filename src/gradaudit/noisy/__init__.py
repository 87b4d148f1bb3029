"""Recovery from updates that carry noise: search, joint fit, polish, and each record's error."""

from gradaudit.noisy.all_layers import use_all_layers
from gradaudit.noisy.feedforward import FeedForward
from gradaudit.noisy.level import factors_above_noise, measure_noise, noise_edge
from gradaudit.noisy.polish import Polished, polish
from gradaudit.noisy.recover import NoisyBatch, Recovery, recover_under_noise

__all__ = [
    "FeedForward",
    "NoisyBatch",
    "Polished",
    "Recovery",
    "factors_above_noise",
    "measure_noise",
    "noise_edge",
    "polish",
    "recover_under_noise",
    "use_all_layers",
]
