"""The command line: one thin file per verb; what is computed lies below, in the package."""

from gradaudit.cli.program import main

__all__ = ["main"]
