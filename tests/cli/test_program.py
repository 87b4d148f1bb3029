from __future__ import annotations

import subprocess
import sys
from typing import get_args

import pytest

from gradaudit.capture import Contains
from gradaudit.cli.audit import audit
from gradaudit.cli.exit_codes import ExitCode
from gradaudit.cli.program import program
from gradaudit.cli.rank import rank
from gradaudit.cli.simulate import simulate
from gradaudit.cli.verb import Verb
from gradaudit.models import LOSSES
from gradaudit.models.spec import NAMED
from gradaudit.version import __version__

VERBS = ("demo", "simulate", "audit", "report", "rank")


HEAVY = (
    "loaded = [n for n in ('torch', 'numpy', 'jinja2', 'rich') if n in sys.modules]\n"
    "assert not loaded, loaded"
)


def test_the_command_line_itself_imports_nothing_heavy():
    # The package's own front page is left out: an empty module with its folder stands for it.
    code = (
        "import importlib.util, sys, types\n"
        "front = types.ModuleType('gradaudit')\n"
        "spec = importlib.util.find_spec('gradaudit')\n"
        "front.__path__ = spec.submodule_search_locations\n"
        "sys.modules['gradaudit'] = front\n"
        f"import gradaudit.cli.reference\n{HEAVY}"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_help_does_not_wait_for_torch():
    subprocess.run(
        [sys.executable, "-c", f"import sys, gradaudit.cli.reference\n{HEAVY}"],
        check=True,
        capture_output=True,
    )


@pytest.mark.parametrize("verb", VERBS)
def test_help_has_examples_and_exit_codes(verb, run):
    text = run(verb, "--help").stdout
    assert f"  gradaudit {verb}" in text
    for code in ExitCode:
        assert f"\n  {int(code)} " in text


def test_all_examples_are_commands_that_parse():
    for verb in program.commands.values():
        assert isinstance(verb, Verb)
        for _, line in verb.examples:
            words = line.split(">")[0].replace("'", "").split()
            assert words[:2] == ["gradaudit", verb.name]
            verb.make_context("gradaudit", words[2:])


def test_the_program_itself(run, spawn, error):
    assert "Exit codes" in run("--help").stdout
    assert run().stdout == run("--help").stdout
    assert run("--version").stdout == f"gradaudit, version {__version__}\n"
    assert "No such command 'adit'" in error(run("adit"))
    assert "gradaudit audit --help" in error(run("audit", "x", "--nope"))
    by_module = spawn("--version")
    assert by_module.stdout == f"gradaudit, version {__version__}\n"
    assert by_module.returncode == 0


def option(verb, name: str):
    return next(p for p in verb.params if p.name == name)


def test_words_that_the_help_lists_are_those_that_there_are():
    from gradaudit.auditing import ATTACKS

    assert tuple(option(audit, "contains").type.choices) == get_args(Contains)
    for name in LOSSES:
        assert name in option(audit, "loss").help
        assert name in option(simulate, "loss").help
    for name in ATTACKS:
        assert name in option(audit, "attack").help
    for name in NAMED:
        assert name in option(audit, "model").help
        assert name in option(simulate, "model").help
        assert name in rank.help


@pytest.mark.parametrize(
    "words",
    [
        ("--seconds", "0"),
        ("--seconds", "nan"),
        ("--submatrices", "1.5"),
        ("--seed", "-1"),
        ("--seed", str(2**63)),
        ("--input-shape", "3,32"),
        ("--input-shape", "3,x,32"),
        ("--mean", ""),
        ("--contains", "weights"),
        ("--mean", "0.5"),
        ("--loss", "hinge"),
        ("--learning-rate", "-1"),
        ("--device", "abacus"),
        ("--layer", "fc9"),
        ("--attack", "prayer"),
        ("--model", "mlp:3"),
    ],
)
def test_wrong_options_are_one_line(words, update, run, error):
    line = error(run("audit", update, *words))
    assert words[0].lstrip("-").split("-")[0] in line
