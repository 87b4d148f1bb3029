"""Records by optimisation: search for a batch whose gradient is the observed one."""

from gradaudit.gradient_matching.features import FeatureMatch, invert_features
from gradaudit.gradient_matching.knowledge import Knowledge
from gradaudit.gradient_matching.labels import Labels, infer_labels
from gradaudit.gradient_matching.match import Match, match_gradient
from gradaudit.gradient_matching.methods import DLG, IDLG, INVERTING_GRADIENTS, METHODS, Method
from gradaudit.gradient_matching.prepare import is_piecewise_linear, make_target
from gradaudit.gradient_matching.target import Target, UnsuitedError

__all__ = [
    "DLG",
    "IDLG",
    "INVERTING_GRADIENTS",
    "METHODS",
    "FeatureMatch",
    "Knowledge",
    "Labels",
    "Match",
    "Method",
    "Target",
    "UnsuitedError",
    "infer_labels",
    "invert_features",
    "is_piecewise_linear",
    "make_target",
    "match_gradient",
]
