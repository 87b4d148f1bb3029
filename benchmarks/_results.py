"""Where figures are kept: a JSON file that a later run goes on from, and a page for readers."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gradaudit.experiments.machine import machine

FOLDER = Path(__file__).parent / "results"
LOAD = "Times are wall-clock, on the machine below, beside whatever else it was doing."


class Results:
    """Measurements by name; each name has its environment and its rows.

    Args:
        file: The JSON, which need not exist.
        names: All that there are, in order; others in the file are of the past.
        again: Whether what is in it does not count.
    """

    def __init__(self, file: Path, names: Sequence[str], *, again: bool = False) -> None:
        self._file = file
        self._again = again
        known = json.loads(file.read_text()) if file.exists() else {}
        self._all: dict[str, Any] = {name: known.get(name) for name in names}

    @property
    def entries(self) -> dict[str, Any]:
        """What is known, by name."""
        return {name: entry for name, entry in self._all.items() if entry}

    def rows(self, name: str) -> list[dict[str, Any]]:
        """What is known under a name."""
        return self.entries[name]["rows"] if name in self.entries else []

    def begin(self, name: str) -> None:
        """Forget what is known under a name, if it was asked to be measured again."""
        if self._again:
            self._all[name] = None

    def add(self, name: str, row: dict[str, Any]) -> None:
        """Keep one more row, on the disk."""
        self._all[name] = {"environment": machine(), "rows": [*self.rows(name), row]}
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._file.write_text(json.dumps(self.entries, indent=1) + "\n")
        short = {key: value for key, value in row.items() if not isinstance(value, list | dict)}
        print(name, short, flush=True)

    def page(self, lines: Sequence[str]) -> None:
        """Write the page beside the JSON; it ends with where the figures are from."""
        places = {json.dumps(entry["environment"]) for entry in self.entries.values()}
        text = "\n".join([*lines, "", LOAD, *(f"\nMeasured on: {p}" for p in sorted(places)), ""])
        self._file.with_suffix(".md").write_text(text)


def parser(description: str, *, seconds: float) -> ArgumentParser:
    """The options that the benchmarks share."""
    options = ArgumentParser(description=description.partition("\n")[0])
    options.add_argument("--seconds", type=float, default=seconds, help="time limit of one audit")
    options.add_argument("--again", action="store_true", help="measure again what is known")
    options.add_argument("--out", type=Path, default=FOLDER, help="folder of the results")
    return options


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A Markdown table."""
    lines = ["| " + " | ".join(row) + " |" for row in [head, *rows]]
    return [lines[0], "|" + "---|" * len(head), *lines[1:]]
