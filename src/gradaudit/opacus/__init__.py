"""What a client that trains with Opacus sends at each step, as updates to audit."""

from gradaudit.opacus.mechanism import Mechanism
from gradaudit.opacus.recorder import Recorder
from gradaudit.opacus.step import PrivateStep

__all__ = ["Mechanism", "PrivateStep", "Recorder"]
