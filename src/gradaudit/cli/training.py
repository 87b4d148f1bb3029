"""What the command line says about a client's local training."""

# ruff: noqa: PLC0415 - torch takes a second to import, and --help must not wait for it.

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from gradaudit.cli.verb import Command, option

if TYPE_CHECKING:
    from gradaudit.update import LocalTraining


def training_options(command: Command) -> Command:
    """Add --local-epochs, --local-batch-size, --momentum and --weight-decay to a command."""
    return _added(
        command,
        option(
            "--local-epochs",
            metavar="N",
            type=click.IntRange(min=1),
            help="Passes of the client over its records (FedAvg).",
        ),
        option(
            "--local-batch-size",
            metavar="N",
            type=click.IntRange(min=1),
            help="Records in a batch of its local training; by default, all of them.",
        ),
        option("--momentum", metavar="MU", type=float, help="Of its local training."),
        option("--weight-decay", metavar="L", type=float, help="Of its local training."),
    )


def observed_training_options(command: Command) -> Command:
    """Add what only an audit asks: --optimizer, --local-records and --noise."""
    return _added(
        command,
        option(
            "--optimizer",
            metavar="NAME",
            help="Of its local training, such as sgd; of other ones, such as adam, the audit says "
            "why it does not apply.",
        ),
        option(
            "--local-records",
            metavar="N",
            type=click.IntRange(min=1),
            help="Records the client trained on, if it says so.",
        ),
        option(
            "--noise",
            metavar="S",
            type=float,
            help="Standard deviation of Gaussian noise in each entry of what was observed.",
        ),
    )


def _added(command: Command, *options: Callable[[Command], Command]) -> Command:
    for add in reversed(options):
        command = add(command)
    return command


def local_training(
    learning_rate: float | None,
    *,
    local_epochs: int | None = None,
    local_batch_size: int | None = None,
    momentum: float | None = None,
    weight_decay: float | None = None,
    optimizer: str | None = None,
    local_records: int | None = None,
) -> LocalTraining | None:
    """What the options say, or None where they say nothing: then the update is one gradient.

    Raises:
        InputError: A value is out of its range.

    Example:
        >>> local_training(0.1, local_epochs=3).epochs
        3
        >>> local_training(0.1)
    """
    from gradaudit.update import LocalTraining

    given = {
        "epochs": local_epochs,
        "batch_size": local_batch_size,
        "momentum": momentum,
        "weight_decay": weight_decay,
        "optimizer": optimizer,
        "records": local_records,
    }
    known: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    return LocalTraining(learning_rate, **known) if known else None
