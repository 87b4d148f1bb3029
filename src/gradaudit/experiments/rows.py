"""The rows of an experiment on disk: what is there is not run again."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gradaudit.decoding import decode
from gradaudit.errors import InputError
from gradaudit.experiments.scale import Scale, shown
from gradaudit.result.file import plain
from gradaudit.tensorfile import check_file, replacing
from gradaudit.version import __version__

AGAIN = "use another --out, or --again to start anew"


class Rows:
    """Rows by unit, in a JSON file that is replaced whole after each unit, and a CSV beside it.

    Args:
        file: The JSON, which need not exist.
        scale: With which the experiment is run; rows of another scale are refused.
        again: Whether what is in the file does not count.

    Raises:
        InputError: The file is not one of these, or of another scale, data or version.
    """

    def __init__(self, file: Path, scale: Scale, *, again: bool = False) -> None:
        self._file = file
        settings = asdict(scale) | {"data": scale.data and shown(scale.data)}
        self._head: dict[str, Any] = {"gradaudit": __version__, "settings": plain(settings)}
        self._units: dict[str, dict[str, Any]] = {}
        self._places: dict[str, int] = {}
        if file.exists() and not again:
            self._read()

    def __contains__(self, unit: Mapping[str, Any]) -> bool:
        return _key(unit) in self._units

    @property
    def rows(self) -> list[dict[str, Any]]:
        """All of them, in the order of `arrange`, or else in which their units were run."""
        return [row for entry in self._units.values() for row in entry["rows"]]

    @property
    def settings(self) -> dict[str, Any]:
        """Of the scale that all rows have."""
        return dict(self._head["settings"])

    @property
    def seconds(self) -> float:
        """That all units took."""
        return sum(entry["seconds"] for entry in self._units.values())

    @property
    def environments(self) -> list[dict[str, Any]]:
        """That units were run in, each once."""
        texts = {json.dumps(entry["environment"]): None for entry in self._units.values()}
        return [json.loads(text) for text in texts]

    def arrange(self, units: Sequence[Mapping[str, Any]]) -> None:
        """Keep rows in the order of their units, in whatever order these are done.

        Args:
            units: All there are; rows of others come last.
        """
        self._places = {_key(unit): place for place, unit in enumerate(units)}
        self._sort()

    def add(
        self,
        unit: Mapping[str, Any],
        rows: list[dict[str, Any]],
        *,
        seconds: float,
        environment: dict[str, Any],
    ) -> None:
        """Keep the rows of a unit, on the disk.

        Args:
            unit: That was run.
            rows: That it gave.
            seconds: That it took.
            environment: In which.

        Raises:
            InputError: The folder cannot be written to.
        """
        entry = {"rows": rows, "seconds": round(seconds, 2), "environment": environment}
        self._units[_key(unit)] = plain(entry)
        self._sort()
        units = [json.loads(key) for key in self._units]
        whole = [{"unit": u, **e} for u, e in zip(units, self._units.values(), strict=True)]
        with replacing(self._file) as temporary:
            text = json.dumps(self._head | {"units": whole}, indent=1, allow_nan=False)
            temporary.write_text(text + "\n", encoding="utf-8")
        with replacing(self._file.with_suffix(".csv")) as temporary:
            temporary.write_text(self._csv(), encoding="utf-8")

    def _sort(self) -> None:
        last = len(self._places)
        keys = sorted(self._units, key=lambda key: self._places.get(key, last))
        self._units = {key: self._units[key] for key in keys}

    def _csv(self) -> str:
        stream = io.StringIO()
        columns = dict.fromkeys(column for row in self.rows for column in row)
        writer = csv.DictWriter(stream, list(columns), lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.rows)
        return stream.getvalue()

    def _read(self) -> None:
        try:
            # A pipe would be read for ever.
            check_file(self._file)
            stored = json.loads(self._file.read_text(encoding="utf-8"))
            head = {key: stored[key] for key in self._head}
            units = {_key(entry["unit"]): _checked(entry) for entry in stored["units"]}
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            found = f"{type(error).__name__}: {error}"
            raise InputError(str(self._file), found, "an experiment's rows", AGAIN) from error
        if head != self._head:
            found, wanted = json.dumps(head), json.dumps(self._head)
            raise InputError(str(self._file), f"rows of {found}", f"rows of {wanted}", AGAIN)
        self._units = units


def _checked(entry: dict[str, Any]) -> dict[str, Any]:
    """What is kept of a unit, if it is of the right types.

    Raises:
        TypeError: It is not.
    """
    rows, environment = entry["rows"], entry["environment"]
    for value, kind in ((rows, list), (environment, dict), *((row, dict) for row in rows)):
        if not isinstance(value, kind):
            raise TypeError(f"a {type(value).__name__} in place of a {kind.__name__}")
    seconds = decode(float, entry["seconds"], "seconds")
    return {"rows": rows, "seconds": seconds, "environment": environment}


def _key(unit: Mapping[str, Any]) -> str:
    return json.dumps(plain(dict(unit)), sort_keys=True)
