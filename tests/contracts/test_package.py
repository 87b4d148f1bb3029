"""What is installed: everything that is needed, nothing that is not asked for."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from gradaudit.data import digits
from gradaudit.errors import MissingExtraError, require

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "gradaudit"
# The names under which packages are installed, where they differ from those of their modules.
DISTRIBUTIONS = {"skimage": "scikit-image", "sklearn": "scikit-learn", "PIL": "pillow"}
OPTIONAL = (
    *("matplotlib", "skimage", "sklearn", "torchvision", "torchmetrics", "PIL"),
    *("flwr", "opacus", "ray"),
)
# Extras that stand for what somebody uses already: data sets on disk, a framework.
APART = {"dev", "lpips", "torchvision", "docs", "flower", "fuzz", "opacus", "ray"}


def project() -> dict:
    tomllib = pytest.importorskip("tomllib" if sys.version_info >= (3, 11) else "tomli")
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def run(code: str) -> str:
    """What a new interpreter prints that has none of this one's modules."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_wheel_holds_all_it_needs(tmp_path):
    if importlib.util.find_spec("setuptools") is None:
        pytest.skip("setuptools is not installed")
    missing = [n for n in ("README.md", "LICENSE", "pyproject.toml") if not (ROOT / n).is_file()]
    assert not missing
    # A copy, since a build leaves folders behind.
    tree = tmp_path / "tree"
    unwanted = shutil.ignore_patterns("__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "src", tree / "src", ignore=unwanted)
    for name in ("README.md", "LICENSE", "pyproject.toml"):
        shutil.copy(ROOT / name, tree / name)
    command = ["-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run(
        [sys.executable, *command, "--wheel-dir", str(tmp_path), str(tree)],
        check=True,
        capture_output=True,
        timeout=300,
    )
    (wheel,) = tmp_path.glob("gradaudit-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (metadata,) = (n for n in names if n.endswith(".dist-info/METADATA"))
        described = archive.read(metadata).decode("utf-8")
        for name in (n for n in names if n.endswith(".json")):
            json.loads(archive.read(name))
    source = {
        path.relative_to(ROOT / "src").as_posix()
        for path in PACKAGE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    packaged = {name for name in names if ".dist-info/" not in name}
    assert packaged == source
    assert "gradaudit/py.typed" in packaged
    assert any(n.startswith("gradaudit/report/templates/") for n in packaged)
    assert any(re.fullmatch(r"gradaudit/schema/.+\.json", n) for n in packaged)
    assert any(n.endswith("licenses/LICENSE") for n in names)
    assert "License-Expression: Apache-2.0" in described


def test_importing_every_module_loads_no_optional_library():
    names = [
        ".".join(path.relative_to(ROOT / "src").with_suffix("").parts).removesuffix(".__init__")
        for path in sorted(PACKAGE.rglob("*.py"))
    ]
    # Flower's own room builds on its classes, and says so when it is imported without.
    names = [n for n in names if not n.endswith("__main__") and ".flower" not in n]
    code = f"""
import importlib, sys
for name in {names}:
    importlib.import_module(name)
import json
print(json.dumps(sorted(sys.modules)))
"""
    everything = json.loads(run(code))
    assert "gradaudit.capture.load" in everything
    assert not {name.split(".")[0] for name in everything} & set(OPTIONAL)


def required() -> list[tuple[str, str, str]]:
    """(file, module, extra) of every call of `require` with fixed names."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] == "require":
                values = [a.value for a in node.args if isinstance(a, ast.Constant)]
                if len(values) == 2:
                    found.append((path.name, *values))
    return found


def test_every_extra_brings_what_it_is_asked_for():
    extras = project()["optional-dependencies"]
    calls = required()
    assert len(calls) > 5
    for file, module, extra in calls:
        root = module.split(".")[0]
        names = {re.split(r"[\[<>=!~; ]", line)[0] for line in extras[extra]}
        assert DISTRIBUTIONS.get(root, root) in names, f"{file}: {module} is not in {extra}"


def test_flowers_room_names_its_extra():
    code = """
import sys
sys.modules["flwr"] = None
import gradaudit
from gradaudit import *
try:
    gradaudit.flower
except gradaudit.MissingExtraError as error:
    print(error)
"""
    assert run(code) == "flwr is not installed; run: pip install 'gradaudit[flower]'\n"


def test_all_brings_every_extra_that_needs_no_download():
    extras = project()["optional-dependencies"]
    (everything,) = extras["all"]
    named = set(re.search(r"\[(.*)\]", everything)[1].split(","))
    assert named == set(extras) - {"all", *APART}


def test_a_missing_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(MissingExtraError) as caught:
        digits()
    assert str(caught.value) == "sklearn is not installed; run: pip install 'gradaudit[data]'"
    with pytest.raises(MissingExtraError, match=r"gradaudit\[report\]"):
        require("a_module_that_nobody_has", "report")


def test_constraints_pin_every_requirement():
    text = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    marker = r'(sys_platform == "linux"|python_version (>=|<) "3\.\d+")'
    pattern = rf"([a-z0-9-]+)==[\w.]+(; {marker}( and {marker})*)?"
    matched = [re.fullmatch(pattern, line) for line in lines]
    assert all(matched), lines[[bool(m) for m in matched].index(False)]
    pinned = {match[1] for match in matched}
    described = project()
    wanted = list(described["dependencies"])
    for extra in ("data", "metrics", "report", "flower", "opacus", "ray", "dev"):
        wanted += described["optional-dependencies"][extra]
    names = {re.split(r"[\[<>=!~; ]", line)[0].lower() for line in wanted} - {"gradaudit"}
    assert names <= pinned
