"""The experiments of the papers, run again: units of work, rows, and a table and figure of each."""

from gradaudit.experiments.registry import NAMES, load
from gradaudit.experiments.runner import Ran, run_experiment
from gradaudit.experiments.scale import SCALES, Scale

__all__ = ["NAMES", "SCALES", "Ran", "Scale", "load", "run_experiment"]
