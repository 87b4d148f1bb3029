"""What an experiment is: a module with these names, one for each table or figure of a paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from gradaudit.budget import Control
from gradaudit.experiments.scale import Scale

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Row = Mapping[str, Any]


@runtime_checkable
class Experiment(Protocol):
    """A table or figure, as a module has it.

    Its work falls into units, each of which is run once, in any order, and gives rows that are
    kept; a table and a figure are views of the rows alone.
    """

    @property
    def NAME(self) -> str:
        """As on the command line."""

    @property
    def TITLE(self) -> str:
        """One line."""

    @property
    def SOURCE(self) -> str:
        """The paper, and its table or figure."""

    @property
    def DIFFERS(self) -> str:
        """What is not as in the paper."""

    def units(self, scale: Scale) -> list[dict[str, Any]]:
        """What there is to run; the values of a unit are its columns in every row of it."""

    def run(self, unit: Row, scale: Scale, control: Control) -> list[dict[str, Any]]:
        """The rows of a unit: numbers, words, truth values and None."""

    def table(self, rows: Sequence[Row]) -> list[Sequence[str]]:
        """The heads of the columns, and lines of the table: the paper's beside ours."""

    def draw(self, rows: Sequence[Row], figure: Figure) -> None:
        """Draw the rows, in the paper's layout."""
