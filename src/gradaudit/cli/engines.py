"""Where a verb's units of work are done: the options that say it."""

from __future__ import annotations

import click

from gradaudit.cli.verb import Command, option

# As in `gradaudit.engine`, which help must not wait for.
NAMES = ("in-process", "processes", "ray")

_engine = option(
    "--engine",
    metavar="NAME",
    type=click.Choice(NAMES),
    help="Where the work is done: in-process, in processes of this machine, or on a ray cluster. "
    "By default, as --workers and --address imply. Results do not depend on it.",
)
_workers = option(
    "--workers",
    metavar="N",
    type=click.IntRange(min=1),
    help="How much is done at a time; by default, as much as there are cores.",
)
_address = option(
    "--address",
    metavar="HOST:PORT",
    help="The head of a Ray cluster, or auto for this machine's; by default, one is started.",
)


def engine_options(command: Command) -> Command:
    """Add --engine, --workers and --address, the arguments of `gradaudit.engine.open_engine`."""
    return _engine(_workers(_address(command)))
