"""Where results go: checked before a search of minutes, and never over its own input."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gradaudit.errors import InputError, require
from gradaudit.metrics import Comparison
from gradaudit.report import write_report
from gradaudit.result import AuditResult
from gradaudit.tensorfile import check_place, replacing
from gradaudit.truth import Truth


@dataclass(frozen=True)
class Outputs:
    """The files an audit is asked to write.

    Attributes:
        result: The result's JSON, or None; the arrays go beside it.
        option: The option that names the result's place, for messages.
        report: The HTML report, or None.
        comparison: The comparison with the truth as JSON, or None.
        keep_records: Whether the arrays, which are personal data, are written.
        show_records: Whether the report shows the records.
        salt: Key of the report's fingerprints.
    """

    result: Path | None = None
    option: str = "--out"
    report: Path | None = None
    comparison: Path | None = None
    keep_records: bool = True
    show_records: bool = False
    salt: str | None = None

    def check(self, inputs: Mapping[str, Path | None]) -> None:
        """Check, before anything is computed, that all files can be written.

        Args:
            inputs: Files that are read, by the argument that names them.

        Raises:
            InputError: A file would take the place of an input or of another file, or cannot be
                written.
            MissingExtraError: A report needs packages that are not installed.
        """
        places = {
            "--report": self.report,
            f"{self.option}, the comparison": self.comparison,
            f"{self.option}, the result": self.result,
        }
        if self.result is not None and self.keep_records:
            arrays = self.result.with_suffix(".safetensors")
            places[f"{self.option}, the recovered records"] = arrays
        check_places(places, inputs)
        if self.report is not None:
            require("matplotlib", "report")
            require("PIL", "report")

    def write_result(self, result: AuditResult) -> list[Path]:
        """Write the result's JSON and arrays; give the files written.

        Raises:
            InputError: A file cannot be written.
        """
        if self.result is None:
            return []
        result.save(self.result, keep_records=self.keep_records)
        arrays = self.keep_records and result.records is not None
        return [self.result, *([self.result.with_suffix(".safetensors")] if arrays else [])]

    def write_views(
        self, result: AuditResult, truth: Truth | None, comparison: Comparison | None
    ) -> list[Path]:
        """Write the comparison and the report; give the files written.

        Raises:
            InputError: A file cannot be written, or the truth is of another batch.
        """
        written = []
        if self.comparison is not None and comparison is not None:
            with replacing(self.comparison) as temporary:
                temporary.write_text(json.dumps(comparison.to_json(), indent=2) + "\n")
            written.append(self.comparison)
        if self.report is not None:
            write_report(
                result, self.report, truth=truth, show_records=self.show_records, salt=self.salt
            )
            written.append(self.report)
        return written


def audit_outputs(
    out: Path | None,
    json_out: Path | None,
    *,
    report: Path | None,
    compared: bool,
    keep_records: bool,
    show_records: bool,
    salt: str | None,
) -> Outputs:
    """What the options of an audit of one update ask for.

    Args:
        out: The folder of --out.
        json_out: The file of --json-out.
        report: The page.
        compared: Whether a truth is given.
        keep_records: Whether the arrays are written.
        show_records: Whether the report shows the records.
        salt: Key of the report's fingerprints.

    Raises:
        InputError: They contradict each other, or are of the wrong kind.
    """
    if out is not None and json_out is not None:
        raise InputError("--json-out", f"{str(json_out)!r} with --out", "one of the two")
    if json_out is not None and (not json_out.name or json_out.suffix == ".safetensors"):
        raise InputError(
            "--json-out", f"{str(json_out)!r}", "a path for the JSON", "end it in .json"
        )
    if out is not None and os.path.isfile(out):
        raise InputError("--out", f"{str(out)!r}, a file", "a folder", "use --json-out for a file")
    return Outputs(
        result=out / "result.json" if out is not None else json_out,
        option="--out" if out is not None else "--json-out",
        report=report,
        comparison=out / "comparison.json" if out is not None and compared else None,
        keep_records=keep_records,
        show_records=show_records,
        salt=salt,
    )


def check_places(places: Mapping[str, Path | None], inputs: Mapping[str, Path | None]) -> None:
    """Check that files can be written, each in a place of its own.

    Args:
        places: Files to write, by what they are for.
        inputs: Files to read, by the argument that names them.

    Raises:
        InputError: They cannot; says which.

    Example:
        >>> check_places({"--out": Path("u.pt")}, {"UPDATE": Path("./u.pt")})
        Traceback (most recent call last):
        gradaudit.errors.InputError: --out: found 'u.pt', which is UPDATE, expected another file
    """
    # Path.resolve() raises an error at a link to itself.
    taken = {os.path.realpath(path): name for name, path in inputs.items() if path is not None}
    for name, path in places.items():
        if path is None:
            continue
        if (other := taken.get(os.path.realpath(path))) is not None:
            raise InputError(name, f"{str(path)!r}, which is {other}", "another file")
        taken[os.path.realpath(path)] = name
        check_place(name, path)
