"""What the command line says about the machine: memory and threads."""

# ruff: noqa: PLC0415 - torch takes a second to import, and --help must not wait for it.

from __future__ import annotations

import click

from gradaudit.cli.verb import Command, option
from gradaudit.errors import InputError
from gradaudit.memory import parse_bytes
from gradaudit.threads import choose_threads


def _size(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    return None if value is None else parse_bytes(param.opts[0], value)


def machine_options(command: Command) -> Command:
    """Add --max-memory and --threads to a command."""
    options = (
        option(
            "--max-memory",
            metavar="SIZE",
            callback=_size,
            help="What an audit may take beside the update, such as 8GiB: layers that would take "
            "more are worked on in blocks, and what does not fit even so is refused.",
        ),
        option(
            "--threads",
            metavar="N",
            type=click.IntRange(min=1),
            help="Threads to compute with; by default one for each core that is idle.",
        ),
    )
    for add in reversed(options):
        command = add(command)
    return command


def refuse_threads(wanted: int | None) -> None:
    """Refuse --threads with several updates: each is audited with one, and workers share the cores.

    Raises:
        InputError: It was given.
    """
    if wanted is not None:
        raise InputError(
            "--threads", f"{wanted} with several updates", "one update", "see --workers"
        )


def set_threads(wanted: int | None) -> None:
    """Compute with so many threads, or as `choose_threads` says."""
    threads = choose_threads(wanted)
    if threads is not None:
        import torch

        torch.set_num_threads(threads)
