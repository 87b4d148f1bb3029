"""All experiments, by name; a module is imported when it is asked for."""

from __future__ import annotations

from importlib import import_module
from typing import cast

from gradaudit.errors import InputError
from gradaudit.experiments.experiment import Experiment

# Name on the command line, and the module of the same name with underscores.
NAMES = (
    "spear-table1",
    "spear-table2",
    "spear-figure3",
    "spear-figure4",
    "spear-figure5",
    "spear-figure6",
    "spear-figure7",
    "spear-figure8",
    "spear-figure11",
    "spear-figure12",
    "spearpp-table1",
    "spearpp-table2",
    "spearpp-table3",
    "spearpp-table4",
    "spearpp-figure1",
    "spearpp-growth",
    "rgap-mse",
    "rgap-rank",
    "rgap-resnet",
    "limit",
    "side-by-side",
    "defence-curves",
)


def load(name: str) -> Experiment:
    """The experiment of a name.

    Raises:
        InputError: There is none.

    Example:
        >>> load("spear-table1").SOURCE
        'SPEAR (arXiv 2403.03945), Table 1'
    """
    if name not in NAMES:
        raise InputError("experiment", repr(name), "one of " + ", ".join(NAMES))
    return cast(Experiment, import_module(f"gradaudit.experiments.{name.replace('-', '_')}"))
