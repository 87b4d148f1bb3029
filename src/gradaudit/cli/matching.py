"""What the command line says about gradient matching: the attacker's knowledge, the settings."""

# ruff: noqa: PLC0415 - torch takes a second to import, and --help must not wait for it.

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from gradaudit.cli.verb import Command, numbers, option
from gradaudit.errors import InputError

if TYPE_CHECKING:
    from gradaudit.gradient_matching import Knowledge, Method


def matching_options(command: Command) -> Command:
    """Add --batch-size, --labels, --restarts and --iterations to a command."""
    options = (
        option(
            "--batch-size",
            metavar="N",
            type=click.IntRange(min=1),
            help="Records to search for, with dlg, idlg or inverting-gradients; by default, the "
            "rank of a fully connected layer.",
        ),
        option(
            "--labels",
            metavar="C,..",
            callback=numbers(int),
            help="Their classes, if the attacker knows them; with these attacks.",
        ),
        option(
            "--restarts",
            metavar="N",
            type=click.IntRange(min=1),
            help="Random starts of these attacks.",
        ),
        option(
            "--iterations",
            metavar="N",
            type=click.IntRange(min=1),
            help="Steps of each of these starts.",
        ),
    )
    for add in reversed(options):
        command = add(command)
    return command


def knowledge_and_method(
    attack: str,
    batch_size: int | None,
    labels: tuple[int, ...] | None,
    restarts: int | None,
    iterations: int | None,
) -> tuple[Knowledge | None, Method | None]:
    """What the options say, for `gradaudit.audit`.

    Raises:
        InputError: One is given with an attack that does not match gradients.
    """
    from gradaudit.gradient_matching import METHODS, Knowledge

    given = {
        "--batch-size": batch_size,
        "--labels": labels,
        "--restarts": restarts,
        "--iterations": iterations,
    }
    named = [name for name, value in given.items() if value is not None]
    if attack not in METHODS:
        if named:
            raise InputError(
                named[0],
                f"it with the attack {attack!r}, which does not take it",
                "one of the attacks " + ", ".join(METHODS),
                "choose it with --attack, or leave the option out",
            )
        return None, None
    method = METHODS[attack]
    method = replace(
        method,
        restarts=restarts or method.restarts,
        iterations=iterations or method.iterations,
    )
    return Knowledge(batch_size, labels), method
