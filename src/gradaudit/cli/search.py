"""One audit under the terminal's conditions: progress on stderr, and signals that stop it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import click
from torch import nn

from gradaudit.auditing import audit
from gradaudit.budget import Budget, Control
from gradaudit.cli.exit_codes import ExitCode, exit_code
from gradaudit.cli.guard import silence
from gradaudit.cli.outputs import Outputs
from gradaudit.cli.progress import progress_display
from gradaudit.cli.signals import stop_on_signals
from gradaudit.cli.terminal import output, say
from gradaudit.cli.verdict import (
    compare_with,
    is_of_records,
    print_comparison,
    print_estimates,
    print_records,
    print_verdict,
    print_warnings,
)
from gradaudit.errors import GradauditError
from gradaudit.gradient_matching import Knowledge, Method
from gradaudit.metrics import Comparison
from gradaudit.result import AuditResult
from gradaudit.truth import Truth
from gradaudit.update import Update


@dataclass(frozen=True)
class Question:
    """What to try on an update; the fields are arguments of `gradaudit.audit`."""

    model: nn.Module | str | None = None
    loss: str = "auto"
    layer: str = "auto"
    attack: str = "auto"
    seed: int = 0
    device: str = "auto"
    knowledge: Knowledge | None = None
    method: Method | None = None
    invert_features: bool = False


@dataclass(frozen=True)
class Manner:
    """How to tell the answer.

    Attributes:
        machine: The result's JSON on stdout, and nothing else there.
        quiet: The verdict's sentence alone, and no progress.
        show_records: Print the records.
        fail_on_leak: A proven leak is a failure.
    """

    machine: bool = False
    quiet: bool = False
    show_records: bool = False
    fail_on_leak: bool = False


def ask(
    update: Update,
    question: Question,
    control: Control,
    outputs: Outputs,
    manner: Manner,
    *,
    truth_file: Path | None = None,
    search: Callable[[Control], AuditResult] | None = None,
) -> ExitCode:
    """Audit an update, write the files, print the verdict.

    Args:
        update: What was observed.
        question: What to try.
        control: Budget and stop flag; its listener is set here.
        outputs: Files to write.
        manner: How to tell.
        truth_file: Originals; opened only when the audit is over.
        search: Asks the same in another way than here and now.

    Returns:
        The exit code.

    Raises:
        GradauditError: An argument cannot be used; or, after the verdict was printed, a file could
            not be written.
    """
    with progress_display(quiet=manner.quiet, machine=manner.machine) as display:
        control.listener = display
        result = (
            search(control)
            if search is not None
            else audit(
                update,
                model=question.model,
                loss=question.loss,
                layer=question.layer,
                attack=question.attack,
                knowledge=question.knowledge,
                method=question.method,
                invert_features=question.invert_features,
                seed=question.seed,
                device=question.device,
                control=control,
            )
        )
        # As it is now: a signal while files are written no longer changes what was searched.
        interrupted = control.interrupted
    tell(result, outputs, manner, truth_file=truth_file)
    return exit_code(
        result.status, result.cause, interrupted=interrupted, fail_on_leak=manner.fail_on_leak
    )


def tell(
    result: AuditResult, outputs: Outputs, manner: Manner, *, truth_file: Path | None = None
) -> None:
    """Write a result's files and print it; what fails is raised when the rest is done.

    Raises:
        GradauditError: What failed first.
    """
    truth: Truth | None = None
    comparison: Comparison | None = None
    written: list[Path] = []
    failure: GradauditError | None = None
    try:
        # The result before the truth: if that is of another batch, nothing is lost.
        written += outputs.write_result(result)
        if truth_file is not None and is_of_records(result):
            truth = Truth.load(truth_file)
            comparison = compare_with(result, truth)
        written += outputs.write_views(result, truth, comparison)
    except GradauditError as error:
        failure = error
    # For a program, stdout holds the JSON alone.
    console = output(errors=manner.machine)
    if manner.machine:
        print_json(result)
    else:
        print_verdict(console, result, sentence_only=manner.quiet)
    print_warnings(output(errors=True), result)
    if not manner.quiet:
        if truth is not None:
            print_comparison(console, result, comparison)
            print_estimates(console, result, truth)
        elif truth_file is not None and failure is None:
            say(console, "Not compared with the truth: the layer's inputs are no records.")
        if manner.show_records and not manner.machine:
            print_records(console, result, truth)
        for path in written:
            say(console, f"Written: {path}", "dim")
        if result.records is not None and not written and not manner.machine:
            say(console, "The records were not kept: --out FOLDER keeps them.", "dim")
    if failure is not None:
        raise failure


def print_json(result: AuditResult) -> None:
    """Print a result's JSON; ASCII, so that it is JSON in every terminal's encoding."""
    try:
        click.echo(json.dumps(result.to_json(), indent=2, allow_nan=False))
    except BrokenPipeError:
        silence(sys.stdout)


@contextmanager
def new_control(
    seconds: float | None, submatrices: int | None = None, memory: int | None = None
) -> Iterator[Control]:
    """A control that signals stop while the context is open."""
    control = Control(Budget(seconds, submatrices, memory))
    with stop_on_signals(control):
        yield control
