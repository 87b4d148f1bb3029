"""Printing: the consoles, and how they behave without a terminal or a reader."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.text import Text

from gradaudit.cli.guard import silence
from gradaudit.report.text import plain

# Lines in a file or a pipe are for grep as well as for people: cells are not broken at 80.
_WIDTH_WITHOUT_TERMINAL = 200
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
