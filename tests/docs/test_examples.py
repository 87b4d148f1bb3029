"""What the pages and README show runs as it stands there, and their commands are commands."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from report.material import recovered

from gradaudit.cli.program import program

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    *sorted(page for page in (ROOT / "docs").rglob("*.md") if "_build" not in page.parts),
]
# Run, with what they print and write checked, by tests of their own.
ELSEWHERE = {
    "clients.md": "contracts/test_clients_document.py",
    "defences.md": "contracts/test_defences_document.py",
    "flower.md": "flower/test_document.py",
    "formats.md": "contracts/test_formats_document.py",
    "local-training.md": "contracts/test_local_training_document.py",
    "noise.md": "contracts/test_noise_document.py",
    "opacus.md": "opacus/test_document.py",
}
# Files that a page's reader has.
GIVEN = {"result-schema.md": "result.json"}
# Extras without which a page's examples mean nothing.
NEEDS = {"README.md": "skimage"}


def blocks(page, language):
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


def name(page):
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if page.name not in ELSEWHERE and blocks(page, "python")],
    ids=name,
)
def test_examples_run(page, tmp_path, monkeypatch):
    if page.name in NEEDS:
        pytest.importorskip(NEEDS[page.name])
    monkeypatch.chdir(tmp_path)
    if page.name in GIVEN:
        recovered().save(tmp_path / GIVEN[page.name])
    names: dict[str, object] = {}
    for block in blocks(page, "python"):
        exec(block, names)


def test_examples_run_elsewhere_are():
    for page, test in ELSEWHERE.items():
        assert page in (ROOT / "tests" / test).read_text(encoding="utf-8")


def commands(page):
    text = "".join(blocks(page, "(?:sh|bash)")).replace("\\\n", " ")
    words = (shlex.split(line, comments=True) for line in text.splitlines())
    # What follows a > is the shell's.
    return [w[: w.index(">")] if ">" in w else w for w in words if w[:1] == ["gradaudit"]]


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)], ids=name)
def test_commands_are_understood(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for words in commands(page):
        # Options that name files which are read must find them.
        for word in words[1:]:
            if re.fullmatch(r"[\w/-]+\.(?:safetensors|pt|npz|json|csv)", word):
                file = tmp_path / word
                file.parent.mkdir(parents=True, exist_ok=True)
                file.touch()
        with program.make_context("gradaudit", words[1:2]) as context:
            verb = program.get_command(context, words[1])
            assert verb is not None, words
            verb.make_context(words[1], words[2:], parent=context)
