"""The lowest versions that pyproject.toml allows, and what the tests say in an environment."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
# Where a library's version can matter: arithmetic, random draws, files, and the command line.
FOLDERS = ("solvers", "chain", "rgap", "certify", "noisy", "linear", "cli")
# Extras that the tests in these folders use.
EXTRAS = ("data", "metrics", "report")
# What an extra of old brings along has moved on: Matplotlib 3.8 is warned by newer releases.
BESIDE = ("pyparsing==3.2.5",)
# What runs them, as in constraints.txt.
TOOLS = (
    *("beartype", "geoopt", "hypothesis", "jsonschema", "mpmath"),
    *("pytest", "pytest-timeout", "pytest-xdist"),
)
LIST = """
import importlib.metadata, json
print(json.dumps({d.name.lower(): d.version for d in importlib.metadata.distributions()}))
"""


def lowest() -> dict[str, str]:
    """The lowest version of every dependency, and of those of some extras, by name."""
    # Not in Python 3.10, with which nothing else here is at odds.
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [*project["dependencies"]]
    for extra in EXTRAS:
        wanted += project["optional-dependencies"][extra]
    return dict(line.split(">=") for line in wanted)


def installed(python: Path) -> dict[str, str]:
    """Versions in an environment, by name in lower case."""
    return json.loads(subprocess.run([python, "-c", LIST], capture_output=True, check=True).stdout)


def tested(python: Path) -> dict[str, Any]:
    """How many tests passed and failed, in an environment that has the package.

    Raises:
        SystemExit: Nothing passed.
    """
    words = [str(python), "-m", "pytest", "-n", "1", "-q", *(f"tests/{name}" for name in FOLDERS)]
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | {"OMP_NUM_THREADS": "1"}
    last = ""
    with subprocess.Popen(words, cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True) as running:
        for line in running.stdout or ():
            print(line, end="", flush=True)
            last = line.strip() or last
    counts = {what: int(number) for number, what in re.findall(r"(\d+) ([a-z]+)", last)}
    if not counts.get("passed"):
        raise SystemExit(f"no test passed: {last}")
    return {
        "folders": ", ".join(FOLDERS),
        "passed": counts["passed"],
        "failed": counts.get("failed", 0) + counts.get("errors", 0) + counts.get("error", 0),
        "skipped": counts.get("skipped", 0),
    }
