"""Printing: the consoles, and how they behave without a terminal or a reader."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from typing import Literal

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from gradaudit.cli.guard import silence
from gradaudit.report.text import plain

# Lines in a file or a pipe are for grep as well as for people: cells are not broken at 80.
_WIDTH_WITHOUT_TERMINAL = 200
_UNBROKEN = 10_000
# Characters of a paragraph; more can only come from a hostile name.
_LONGEST = 4_000


class PatientConsole(Console):
    """A console that goes quiet, and ends nothing, when nobody reads it any more."""

    def on_broken_pipe(self) -> None:
        """Keep going: the exit code and the files matter even to ``| head``."""
        self.quiet = True
        silence(self.file)


def output(*, errors: bool = False) -> PatientConsole:
    """A console that shows foreign text as it is: no markup, no emoji, no highlighting.

    Colour follows rich's rules: none without a terminal, nor with ``NO_COLOR``.

    Args:
        errors: On stderr instead of stdout.

    Example:
        >>> say(output(), "[red]layer[/red] :bomb:")
        [red]layer[/red] :bomb:
    """
    stream = sys.stderr if errors else sys.stdout
    console = PatientConsole(file=stream, markup=False, emoji=False, highlight=False)
    if not console.is_terminal:
        console.width = _WIDTH_WITHOUT_TERMINAL
    return console


def say(console: Console, text: str, style: str = "") -> None:
    """Print a paragraph: wrapped at words on a terminal, one line elsewhere.

    Whatever a name in it would do to a terminal is made visible instead.
    """
    console.print(Text(plain(text, _LONGEST), style=style), soft_wrap=not console.is_terminal)


def show_table(
    console: Console,
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    right: Collection[int] = (),
    framed: bool = False,
) -> None:
    """Print a table; where not even its longest words fit side by side, a line for each cell.

    Args:
        console: Where to.
        head: The columns' titles.
        rows: Of as many cells as there are titles; on a narrow terminal, empty ones are left out.
        right: Columns that end, rather than begin, in line.
        framed: Whether lines are drawn around the cells.

    Example:
        >>> show_table(output(), ("layer", "width"), [("fc1", "200")])  # doctest: +ELLIPSIS
        layer  width...
        fc1    200...
    """
    table = Table() if framed else Table(box=None, padding=(0, 2, 0, 0))
    for place, title in enumerate(head):
        justify: Literal["left", "right"] = "right" if place in right else "left"
        table.add_column(Text(title), justify=justify, overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    # At the terminal's own width, a table is measured with its words broken.
    wide = console.options.update_width(_UNBROKEN)
    if Measurement.get(console, wide, table).minimum <= console.width:
        console.print(table)
        return
    for row in rows:
        for title, cell in zip(head, row, strict=True):
            if cell:
                say(console, f"{title}: {cell}")
        say(console, "")
