"""Every reader against broken, lying and hostile contents, for as long as it is told to.

python benchmarks/fuzz.py [--seconds 300] [--engine hypothesis|atheris|both] [--reader TEXT]

Each reader runs in a process of its own, so that a crash of a library is counted and the others
go on. An input must be read, or refused in one line of `gradaudit.errors`; everything else is a
finding, whose input is kept. Needs Linux; `atheris` comes with the extra `fuzz`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import sys
import tempfile
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

# Their lines are counted by atheris; what is imported before is not.
INSTRUMENTED = ["gradaudit", "zipfile", "pickletools"]

ENGINES = {
    "hypothesis": "contents that are nearly right, broken in one way or several",
    "atheris": "bytes changed so that they reach new lines of the code",
}
FOLDER = Path(__file__).parent / "results"
# Files of a few bytes by the ten thousand: no disk need see them.
MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None
KEPT = Path(tempfile.gettempdir()) / "gradaudit-fuzz-findings"


def import_readers(instrumented: bool) -> dict[str, Any]:
    """The readers; instrumented, so that atheris sees which lines an input reaches."""
    import torch  # noqa: F401

    if not instrumented:
        from fuzz.readers import readers

        return readers()
    import atheris

    for name in INSTRUMENTED:
        sys.modules.pop(name, None)
    with (
        open(os.devnull, "w") as nowhere,
        contextlib.redirect_stderr(nowhere),
        atheris.instrument_imports(include=INSTRUMENTED),
    ):
        from fuzz.readers import readers

        return readers()


def run(reader: Any, engine: str, seconds: float, seed: int) -> dict[str, Any]:
    """One reader with one engine, in a child that has all that is imported; a row of the table."""
    from _fuzzing import fuzz, silence

    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        file = Path(folder) / "tally.json"

        def child() -> None:
            os.environ["TMPDIR"] = tempfile.tempdir = folder
            os.chdir(folder)
            silence()
            fuzz(reader, engine, seconds, seed, file, KEPT)

        process = multiprocessing.get_context("fork").Process(target=child)
        process.start()
        # A minute and more for an input that hangs.
        process.join(seconds + 120)
        code: int | str | None = process.exitcode
        if code is None:
            process.kill()
            process.join()
            code = "no end"
        tally = json.loads(file.read_text()) if file.exists() else {"counts": {}, "findings": {}}
    findings = tally["findings"]
    if code:
        # A crash of the interpreter, or libFuzzer's own verdict.
        findings = {**findings, f"ended with {code}": "the process, not one input"}
    return {"reader": reader.name, "engine": engine, "seed": seed} | tally | {"findings": findings}


def page(rows: list[dict[str, Any]], about: dict[str, Any]) -> list[str]:
    """The results in Markdown."""
    from _results import table

    total = sum(sum(row["counts"].values()) for row in rows)
    findings = [(row, place) for row in rows for place in row["findings"]]
    lines = [
        "# Readers against hostile contents",
        "",
        f"{total:,} inputs over {len({row['reader'] for row in rows})} readers; "
        f"findings: {len(findings)}. An input must be read, or refused in one line; a crash, "
        "another exception, five seconds of computing, half a GiB more memory than before, a file "
        "outside the reader's folder or code that ran is a finding.",
        "",
        *(f"- {engine}: {what}." for engine, what in ENGINES.items()),
        "",
        *table(
            [
                "reader",
                "engine",
                "inputs",
                "read",
                "refused",
                "slowest, s",
                "peak, MiB",
                "findings",
            ],
            [
                [
                    row["reader"],
                    row["engine"],
                    f"{sum(row['counts'].values()):,}",
                    f"{row['counts'].get('read', 0):,}",
                    f"{row['counts'].get('refused', 0):,}",
                    f"{row.get('slowest', 0):.2f}",
                    f"{row.get('peak_mib', 0):,}",
                    str(len(row["findings"])),
                ]
                for row in rows
            ],
        ),
        "",
        "The peak is that of the whole process, which begins at some 300 MiB.",
        "",
        *(f"- {row['reader']}: {place}: {row['findings'][place]}" for row, place in findings),
        "",
        f"Run on {about['date']} with {about['versions']}: {json.dumps(about['environment'])}",
        "",
    ]
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=300, help="of all readers together")
    parser.add_argument("--engine", choices=[*ENGINES, "both"], default="hypothesis")
    parser.add_argument("--reader", default="", help="only those whose name holds this text")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=FOLDER, help="folder of the results")
    arguments = parser.parse_args()
    engines = list(ENGINES) if arguments.engine == "both" else [arguments.engine]
    known = import_readers("atheris" in engines)
    from gradaudit.experiments.machine import machine

    chosen = [reader for name, reader in known.items() if arguments.reader in name]
    each = arguments.seconds / (len(chosen) * len(engines))
    rows = []
    for reader in chosen:
        for engine in engines:
            rows.append(run(reader, engine, each, arguments.seed))
            print(
                {key: rows[-1][key] for key in ("reader", "engine", "counts", "findings")},
                flush=True,
            )
    packages = ("torch", "numpy", "safetensors", "pillow", "hypothesis", "atheris")
    about = {
        "date": f"{datetime.now(timezone.utc):%Y-%m-%d}",
        "versions": ", ".join(f"{name} {version(name)}" for name in packages),
        "environment": machine(),
    }
    arguments.out.mkdir(parents=True, exist_ok=True)
    file = arguments.out / "fuzz.json"
    # With --reader, the others' rows are those of the run before.
    before = json.loads(file.read_text())["rows"] if arguments.reader and file.exists() else []
    new = {(row["reader"], row["engine"]): row for row in rows}
    kept = {(row["reader"], row["engine"]): row for row in before}
    rows = list((kept | new).values())
    file.write_text(json.dumps(about | {"rows": rows}, indent=1) + "\n")
    (arguments.out / "fuzz.md").write_text("\n".join(page(rows, about)))
    if any(row["findings"] for row in rows):
        raise SystemExit(f"there are findings; their inputs are in {KEPT}")


if __name__ == "__main__":
    main()
