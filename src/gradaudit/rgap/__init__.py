"""R-GAP: the record behind the gradient of a batch of one, by linear algebra, layer by layer."""

from gradaudit.rgap.candidates import Candidate
from gradaudit.rgap.layer import LayerSolution
from gradaudit.rgap.refusal import NotSolvableError
from gradaudit.rgap.updates import invert, invert_many

__all__ = ["Candidate", "LayerSolution", "NotSolvableError", "invert", "invert_many"]
