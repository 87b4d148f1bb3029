"""The source distribution holds the package and its papers, and nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Beside the package: what says what it is, how it may be used, and what it was tested with.
PAPERS = {"CHANGELOG.md", "CITATION.cff", "LICENSE", "MANIFEST.in", "README.md", "constraints.txt"}
MADE = {"PKG-INFO", "setup.cfg"}
BUILD = "import sys; from setuptools import build_meta; build_meta.build_sdist(sys.argv[1])"


@pytest.mark.slow
def test_the_source_distribution_holds_the_package_and_its_papers(tmp_path):
    pytest.importorskip("setuptools")
    tree = tmp_path / "tree"
    unwanted = shutil.ignore_patterns("__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "src", tree / "src", ignore=unwanted)
    # What must not come along: setuptools takes tests that lie on top if it is let.
    (tree / "tests").mkdir()
    (tree / "tests" / "test_one.py").write_text("")
    for name in (*PAPERS, "pyproject.toml"):
        shutil.copy(ROOT / name, tree / name)
    out = tmp_path / "out"
    out.mkdir()
    subprocess.run(
        [sys.executable, "-c", BUILD, str(out)],
        cwd=tree,
        env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
        check=True,
        capture_output=True,
        timeout=300,
    )
    (archive,) = out.glob("gradaudit-*.tar.gz")
    with tarfile.open(archive) as contents:
        files = {m.name.partition("/")[2] for m in contents.getmembers() if m.isfile()}
    source = {
        path.relative_to(tree).as_posix()
        for path in (tree / "src" / "gradaudit").rglob("*")
        if path.is_file()
    }
    beside = {name for name in files - source if not name.startswith("src/gradaudit.egg-info/")}
    assert source <= files
    assert beside == PAPERS | MADE | {"pyproject.toml"}
