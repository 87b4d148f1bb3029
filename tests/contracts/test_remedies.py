"""What results and refusals advise is for callers of the library and of the program alike."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "gradaudit"
# An argument as Python writes it, which on the command line is an option.
ARGUMENT = re.compile(r"(?<![\w.])[a-z_]+=['\"\w]")


def texts(path: Path) -> list[str]:
    """All that a file may say, without its docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    constants = [n for n in ast.walk(tree) if isinstance(n, ast.Constant) and id(n) not in alone]
    return [node.value for node in constants if isinstance(node.value, str)]


def test_an_argument_is_seen():
    assert ARGUMENT.search("Use attack='auto'.")
    assert not ARGUMENT.search("Use the attack 'auto'; a = b, x == y.")


# The command line rewrites the remedies of an `InputError`; a result's it shows as they are.
@pytest.mark.parametrize("part", ["applicability.py", "outcome", "session", "certify"])
def test_no_result_speaks_python(part):
    place = PACKAGE / part
    paths = [place] if place.is_file() else sorted(place.rglob("*.py"))
    assert paths
    found = [text for path in paths for text in texts(path) if ARGUMENT.search(text)]
    assert not found
