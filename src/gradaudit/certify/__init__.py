"""The only place that may say "recovered": shared checks of any attack's records."""

from gradaudit.certify.network import Network, NetworkMismatchError
from gradaudit.certify.verdict import Verdict, certify

__all__ = ["Network", "NetworkMismatchError", "Verdict", "certify"]
