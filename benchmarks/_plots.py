"""How the benchmarks' plots look."""

from __future__ import annotations

from matplotlib.axis import Axis
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

# Colours that the colour-blind can tell apart (Okabe and Ito, 2008); each line has a style too.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00")
STYLES = ("-", "--", "-.", ":", (0, (1, 4)))


def plain_ticks(axis: Axis) -> None:
    """Ticks of a logarithmic axis at 1, 2, 5, 10, ..., in plain numbers."""
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axis.set_minor_formatter(NullFormatter())
