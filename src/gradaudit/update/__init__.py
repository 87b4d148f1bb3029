"""What was observed: the weights a client was given, the change it sent back, and its making."""

from gradaudit.update.checks import check_match, strip_wrappers
from gradaudit.update.combination import Combination, combination
from gradaudit.update.linear_layer import LinearLayer
from gradaudit.update.naming import is_buffer, layer_name
from gradaudit.update.prefixes import outer_prefix
from gradaudit.update.steps import GradientStep, LocalTraining, Step, step_from_text, step_to_text
from gradaudit.update.update import FORMAT, FORMAT_VERSION, Update

__all__ = [
    "FORMAT",
    "FORMAT_VERSION",
    "Combination",
    "GradientStep",
    "LinearLayer",
    "LocalTraining",
    "Step",
    "Update",
    "check_match",
    "combination",
    "is_buffer",
    "layer_name",
    "outer_prefix",
    "step_from_text",
    "step_to_text",
    "strip_wrappers",
]
