"""What somebody gets who installs the package without extras: built, installed, run.

    python benchmarks/package.py [--keep FOLDER] [--lowest [--torch VERSION]]

Builds the source's archive and from it the wheel, installs that into a new environment with the
pinned versions, and checks there: sizes, `gradaudit`, `python -m gradaudit`, the seconds of an
import, one line for every missing extra, an audit without them, and that a type checker sees the
types. With --lowest, an environment has the lowest versions that pyproject.toml allows instead, and
the tests of some folders are run there. Needs mypy, and a package index for the environments.
Writes benchmarks/results/package.json and .md.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import venv
import zipfile
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from _results import FOLDER, Results, table
from _versions import BESIDE, ROOT, TOOLS, installed, lowest, tested
from distribution.extras import EXPECTED, wrong

BUILD = "import sys; from setuptools import build_meta; build_meta.build_sdist(sys.argv[1])"
# Seconds that an import may take, the best of so many.
IMPORT_SECONDS, TRIES = 2.0, 5
IMPORTS = {
    "import gradaudit": "import gradaudit",
    "import gradaudit, and first use of `ga.audit`": "import gradaudit as ga; ga.audit",
    "import torch": "import torch",
}
NAMES = ("built and installed", "seconds", "checks", "extras", "lowest versions")
INTRODUCTION = """# The package without extras

By `make package-check`: the wheel, built from the source's archive, in a new environment with the
versions of constraints.txt.
"""
WHY_TORCH = """
Not {bound}, torch's lowest, nor 2.14 and 2.15, its newest: where this was run, the package index
has them only with CUDA, which is gigabytes. They were not tested. The whole suite is run with the
versions of constraints.txt.
"""
USER = """
import gradaudit as ga

update = ga.load_update("update.pt")
result: ga.AuditResult = ga.audit(update, seed=1)
reveal_type(result.records_recovered)
ga.audit(update, seed="one")
"""
# What a type checker must say of these lines: a type, and one error.
SEEN = ('Revealed type is "int"', '"audit" has incompatible type "str"; expected "int"')
# Nothing but what audits need: no PyTorch file, no picture, no extra.
AUDIT = """
import torch, gradaudit as ga
client = ga.clients.FedSGD(ga.models.mlp(30, [60, 60], 3, dtype=torch.float64))
inputs = torch.randn(4, 30, generator=torch.Generator().manual_seed(1)).double()
client.update(inputs, torch.tensor([0, 1, 2, 0]))[0].save("u.safetensors")
"""


def run(*words: str | Path, folder: Path, **extra: str) -> str:
    """What a command prints; its environment has no path to this tree."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "GRADAUDIT"))}
    done = subprocess.run(
        [str(word) for word in words],
        cwd=folder,
        env=env | {"OMP_NUM_THREADS": "1", **extra},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, words))}\n{done.stdout}{done.stderr}")
    return done.stdout


def build(folder: Path) -> Path:
    """The wheel, made from the source's archive alone."""
    tree = folder / "tree"
    unwanted = shutil.ignore_patterns("__pycache__", "*.egg-info", ".*", "build", "dist")
    tree.mkdir()
    for name in subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines():
        if "/" not in name and (ROOT / name).is_file():
            shutil.copy(ROOT / name, tree / name)
    shutil.copytree(ROOT / "src", tree / "src", ignore=unwanted)
    run(sys.executable, "-c", BUILD, folder, folder=tree)
    (archive,) = folder.glob("gradaudit-*.tar.gz")
    pip = (sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation")
    run(*pip, "--no-index", "-w", folder, archive, folder=folder)
    (wheel,) = folder.glob("gradaudit-*.whl")
    return wheel


def seconds(python: Path, code: str, folder: Path) -> tuple[float, float]:
    """By the clock, and of the processor, that a new process takes for this code."""
    code += "; import time; print(time.process_time())"
    started = time.perf_counter()
    spent = float(run(python, "-c", code, folder=folder).splitlines()[-1])
    return time.perf_counter() - started, spent


def megabytes(*places: Path) -> float:
    """On the disk, compiled files included."""
    files = (file for place in places for file in place.rglob("*") if file.is_file())
    return sum(file.lstat().st_size for file in files) / 1e6


def environment(place: Path, words: list[str], folder: Path) -> Path:
    """The interpreter of a new environment with this much in it, or of one that is there."""
    python = place / "bin" / "python"
    if not python.exists():
        venv.create(place, with_pip=True)
        run(python, "-m", "pip", "install", "-q", *words, folder=folder)
    return python


def builds(wheel: Path, python: Path, folder: Path) -> list[dict[str, Any]]:
    """What is built and installed, and its size."""
    (source,) = folder.glob("gradaudit-*.tar.gz")
    with tarfile.open(source) as archive:
        yielded = [("source archive", len(archive.getmembers()), source.stat().st_size / 1e6)]
    with zipfile.ZipFile(wheel) as archive:
        yielded.append(("wheel", len(archive.namelist()), wheel.stat().st_size / 1e6))
    (packages,) = (python.parents[1] / "lib").glob("python*/site-packages")
    names = sorted(set(installed(python)) - {"gradaudit", "pip", "setuptools"})
    for name, places in (
        ("gradaudit, installed", [packages / "gradaudit"]),
        ("torch, installed", [packages / "torch"]),
        ("the whole environment", [python.parents[1]]),
    ):
        count = sum(file.is_file() for place in places for file in place.rglob("*"))
        yielded.append((name, count, megabytes(*places)))
    rows = [{"what": name, "files": n, "megabytes": round(size, 2)} for name, n, size in yielded]
    return [*rows, {"what": "packages that come with it", "names": ", ".join(names)}]


def imports(python: Path, folder: Path) -> list[dict[str, Any]]:
    """Seconds of an import: the first, which compiles, and the best of several."""
    rows = []
    for name, code in IMPORTS.items():
        times = [seconds(python, code, folder) for _ in range(TRIES)]
        clock, spent = min(time[0] for time in times), min(time[1] for time in times)
        rows.append({"what": name, "clock": round(clock, 2), "core": round(spent, 2)})
        if name == "import gradaudit" and clock > IMPORT_SECONDS:
            raise SystemExit(f"import gradaudit takes {clock:.1f} s")
    return rows


def checks(python: Path, folder: Path) -> list[dict[str, Any]]:
    """What is done there, and what it says."""
    version = run(python.with_name("gradaudit"), "--version", folder=folder)
    if run(python, "-m", "gradaudit", "--version", folder=folder) != version:
        raise SystemExit("gradaudit and python -m gradaudit are not the same")
    run(python, "-W", "error", "-c", AUDIT, folder=folder)
    gradaudit = (python, "-W", "error", "-m", "gradaudit")
    said = run(*gradaudit, "audit", "u.safetensors", "--out", "a", "-q", folder=folder)
    again = run(*gradaudit, "rerun", "a/result.json", "-q", folder=folder)
    found = {
        "`gradaudit --version` and `python -m gradaudit --version`": version,
        "an audit, warnings being errors": said,
        "its repetition": again,
        "mypy --strict on a script that uses it": types(python, folder),
    }
    return [{"what": what, "found": words.strip()} for what, words in found.items()]


def extras(python: Path, folder: Path) -> list[dict[str, Any]]:
    """What is said where an extra is missing."""
    found = json.loads(run(python, ROOT / "tests" / "distribution" / "extras.py", folder=folder))
    if wrong(found):
        raise SystemExit("\n".join(wrong(found)))
    return [
        {"feature": feature, "extra": extra, "said": found[feature].removeprefix("2: ")}
        for feature, extra in EXPECTED.items()
    ]


def types(python: Path, folder: Path) -> str:
    """What mypy says of a user's script that uses the installed package."""
    (folder / "user.py").write_text(USER)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--python-executable", str(python), "user.py"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    if any(text not in done.stdout for text in SEEN) or "Found 1 error" not in done.stdout:
        raise SystemExit(done.stdout + done.stderr)
    return "sees the types: a revealed int, and the one error that is there"


def bare(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """All checks of the package without extras."""
    wheel = build(folder)
    pinned = ["-c", str(ROOT / "constraints.txt"), str(wheel)]
    python = environment(folder / "bare", pinned, folder)
    return {
        "built and installed": builds(wheel, python, folder),
        "seconds": imports(python, folder),
        "checks": checks(python, folder),
        "extras": extras(python, folder),
    }


def with_lowest(folder: Path, torch: str | None) -> dict[str, Any]:
    """The tests with the lowest versions; of torch another where its lowest cannot be had."""
    versions = lowest() | ({"torch": torch} if torch else {})
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    tools = [pin for pin in pins if pin.partition("==")[0] in TOOLS]
    words = [*(f"{name}=={version}" for name, version in versions.items()), *BESIDE, *tools]
    python = environment(folder / "lowest", words, folder)
    again = ("--force-reinstall", "--no-deps", build(folder))
    run(python, "-m", "pip", "install", "-q", *again, folder=folder)
    there = installed(python)
    counts = tested(python)
    return {"versions": {name: there[name] for name in sorted(versions)}, **counts}


def page(results: Results) -> list[str]:
    """The page's lines."""
    lines = [INTRODUCTION]
    for row in results.rows("checks"):
        lines.append(f"- {row['what']}: {row['found']}")
    built = results.rows("built and installed")
    lines += ["", "## Size", ""]
    lines += table(
        ["what", "files", "MB"],
        [[r["what"], f"{r['files']:,}", f"{r['megabytes']:,}"] for r in built if "files" in r],
    )
    lines += ["", *(f"Packages that come with it: {r['names']}." for r in built if "names" in r)]
    lines += ["", f"## Seconds, the best of {TRIES} new processes", ""]
    lines += table(
        ["what", "by the clock", "of a core"],
        [[r["what"], str(r["clock"]), str(r["core"])] for r in results.rows("seconds")],
    )
    lines += ["", "## Without an extra", ""]
    lines += table(
        ["feature", "what is said"],
        [[row["feature"], f"`{row['said']}`"] for row in results.rows("extras")],
    )
    for row in results.rows("lowest versions"):
        bound, torch = lowest()["torch"], row["versions"]["torch"]
        lines += ["", "## With the lowest versions that pyproject.toml allows", ""]
        lines += [", ".join(f"{name} {version}" for name, version in row["versions"].items()) + "."]
        if not torch.startswith(bound):
            lines += [WHY_TORCH.format(bound=bound).rstrip()]
        lines += [
            "",
            f"Tests in {row['folders']}: {row['passed']:,} passed, {row['failed']} failed, "
            f"{row['skipped']} skipped{row.get('note', '')}.",
        ]
    return lines


def main() -> None:
    """Check, and write the page."""
    options = ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument("--out", type=Path, default=FOLDER, help="folder of the results")
    options.add_argument("--keep", type=Path, help="a folder for what is built; else a temporary")
    options.add_argument("--lowest", action="store_true", help="test with the lowest versions")
    options.add_argument("--torch", help="with --lowest: the version of torch")
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = (chosen.keep or Path(made)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        if chosen.lowest:
            found = {"lowest versions": [with_lowest(folder, chosen.torch)]}
        else:
            found = bare(folder)
    results = Results(chosen.out / "package.json", NAMES, again=True)
    for name, rows in found.items():
        results.begin(name)
        for row in rows:
            results.add(name, row)
    results.page(page(results))


if __name__ == "__main__":
    main()
