"""What somebody gets who installs the package without extras: built, installed, run.

    python benchmarks/package.py [--keep FOLDER]

Builds the source's archive and from it the wheel, installs that into a new environment with the
pinned versions, and checks there: `gradaudit`, `python -m gradaudit`, the seconds of an import, one
line for every missing extra, a demonstration without them, and that a type checker sees the types.
Needs mypy, and a package index for the new environment.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import venv
import zipfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from distribution.extras import EXPECTED, wrong

from gradaudit.experiments.machine import machine

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "benchmarks" / "results" / "packaging.md"
BUILD = "import sys; from setuptools import build_meta; build_meta.build_sdist(sys.argv[1])"
# Seconds that an import may take.
IMPORT_SECONDS = 2.0
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


def check(folder: Path) -> list[tuple[str, str]]:
    """All checks; what was looked at, and what was found."""
    wheel = build(folder)
    with zipfile.ZipFile(wheel) as archive:
        members = len(archive.namelist())
    rows = [("wheel", f"{members} files, {wheel.stat().st_size / 1e3:.0f} kB")]
    place = folder / "bare"
    venv.create(place, with_pip=True)
    python = place / "bin" / "python"
    pip = (python, "-m", "pip", "install", "-q", "-c", ROOT / "constraints.txt")
    run(*pip, wheel, folder=folder)
    installed = json.loads(run(python, "-m", "pip", "list", "--format=json", folder=folder))
    rows.append(("installed with it", ", ".join(p["name"] for p in installed)))
    first = seconds(python, "import gradaudit", folder)
    rows.append(("the first import", f"{first[0]:.2f} s by the clock"))
    for name, code in (
        ("import gradaudit", "import gradaudit"),
        ("import torch", "import torch"),
        ("import gradaudit, and first use of `ga.audit`", "import gradaudit as ga; ga.audit"),
    ):
        clock, spent = min(seconds(python, code, folder) for _ in range(3))
        rows.append((name, f"{clock:.2f} s by the clock, {spent:.2f} s of a core"))
        if name == "import gradaudit" and spent > IMPORT_SECONDS:
            raise SystemExit(f"import gradaudit takes {spent:.1f} s")
    version = run(place / "bin" / "gradaudit", "--version", folder=folder)
    if run(python, "-m", "gradaudit", "--version", folder=folder) != version:
        raise SystemExit("gradaudit and python -m gradaudit are not the same")
    rows.append(("`gradaudit --version`", version.strip()))
    found = json.loads(run(python, ROOT / "tests" / "distribution" / "extras.py", folder=folder))
    if wrong(found):
        raise SystemExit("\n".join(wrong(found)))
    rows.append(("features without their extra", f"{len(EXPECTED)} named it in one line each"))
    run(python, "-W", "error", "-c", AUDIT, folder=folder)
    gradaudit = (python, "-W", "error", "-m", "gradaudit")
    said = run(*gradaudit, "audit", "u.safetensors", "--out", "a", "-q", folder=folder)
    again = run(*gradaudit, "rerun", "a/result.json", "-q", folder=folder)
    rows += [("an audit, warnings being errors", said.strip()), ("its repetition", again.strip())]
    rows.append(("a type checker", types(python, folder)))
    return rows


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


def main() -> None:
    """Check, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keep", type=Path, help="a folder for what is built; else a temporary")
    kept = parser.parse_args().keep
    with tempfile.TemporaryDirectory() as made:
        folder = (kept or Path(made)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        rows = check(folder)
    place = machine()
    table = "\n".join(f"| {name} | {found} |" for name, found in rows)
    PAGE.write_text(
        "# The package without extras\n\n"
        "By `python benchmarks/package.py`: the wheel, built from the source's archive, in a new "
        "environment with the versions of constraints.txt.\n\n"
        f"| what | found |\n|---|---|\n{table}\n\n"
        f"{place['date']}, {place['processor']}, {place['cores']} cores, Python {place['python']}, "
        f"torch {place['torch']}; times beside whatever else the machine was doing.\n",
        encoding="utf-8",
    )
    print(PAGE.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
