"""The only place that may say "recovered": shared checks of any attack's records."""

from gradaudit.certify.network import Network, NetworkMismatchError
from gradaudit.certify.noisy import certify_under_noise
from gradaudit.certify.noisy_labels import likeliest_classes
from gradaudit.certify.partial import certify_partial
from gradaudit.certify.verdict import Verdict, certify

__all__ = [
    "Network",
    "NetworkMismatchError",
    "Verdict",
    "certify",
    "certify_partial",
    "certify_under_noise",
    "likeliest_classes",
]
