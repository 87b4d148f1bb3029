"""The click group, and the process's entry point."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from gradaudit.cli.audit import audit
from gradaudit.cli.defend import defend
from gradaudit.cli.demo import demo
from gradaudit.cli.experiment import experiment
from gradaudit.cli.guard import guarded
from gradaudit.cli.plan import plan
from gradaudit.cli.rank import rank
from gradaudit.cli.report import report
from gradaudit.cli.rerun import rerun
from gradaudit.cli.signals import end_on_sigterm
from gradaudit.cli.simulate import simulate
from gradaudit.cli.verb import write_exit_codes
from gradaudit.version import __version__


class Program(click.Group):
    """A group whose every error is one line, with the exit codes of `ExitCode`."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Run the command line; see `click.Command.main`."""
        parent = super().main
        if not standalone_mode:
            return parent(args, prog_name, complete_var, standalone_mode=False, **extra)
        sys.exit(
            guarded(lambda: parent(args, prog_name, complete_var, standalone_mode=False, **extra))
        )

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the exit codes under the help."""
        write_exit_codes(formatter)


@click.group(
    name="gradaudit",
    cls=Program,
    context_settings={"help_option_names": ["-h", "--help"]},
    invoke_without_command=True,
)
@click.version_option(__version__, "--version", prog_name="gradaudit")
@click.pass_context
def program(ctx: click.Context) -> None:
    """Audit federated-learning updates.

    Recovers a client's records from the update (gradient) it sent, and proves that they are the
    records, without any original data. Nothing is sent anywhere. Start with: gradaudit demo
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


for _verb in (demo, simulate, audit, report, rerun, rank, defend, plan, experiment):
    program.add_command(_verb)


def main(args: Sequence[str] | None = None) -> None:
    """Run the command line and exit the process.

    Args:
        args: Words after the program's name; those of the process by default.

    Raises:
        SystemExit: Always, with one of the codes of `gradaudit.cli.exit_codes.ExitCode`.

    Example:
        >>> try:
        ...     main(["--version"])
        ... except SystemExit as end:
        ...     print(end.code)  # doctest: +ELLIPSIS
        gradaudit, version ...
        0
    """
    for stream in (sys.stdout, sys.stderr):
        # File names need not be text of the terminal's encoding: show them escaped.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    # Torch's threads wait by spinning; with other work on the machine that made an audit seven
    # times slower, where sleeping made it twice as slow. Read when torch is first imported.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    end_on_sigterm()
    program.main(args, prog_name="gradaudit")
