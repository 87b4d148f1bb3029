"""What the command line says about several updates; for one, it may say none of it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

from gradaudit.cli.engines import engine_options
from gradaudit.cli.verb import Command, flag, limit, option
from gradaudit.errors import InputError

BULK_EXAMPLES = (
    (
        "One update, searched from eight seeds by eight processes",
        "gradaudit audit update.pt --shards 8 --workers 8",
    ),
    (
        "All captured updates, resumed by the same words; one page and one table of all",
        "gradaudit audit captures/ --seconds 60 --out audits",
    ),
    ("The same by four processes", "gradaudit audit captures/ --out audits --workers 4"),
    (
        "As a manifest describes them, with a report of each",
        "gradaudit audit captures/manifest.csv --out audits --reports",
    ),
)

# What says where several updates, or the shards of one, are worked on.
PLACES = ("engine", "workers", "address")
# With what they are when nobody gives them.
_OPTIONS: dict[str, Any] = {
    "reports": False,
    "again": False,
    "total_seconds": None,
    "engine": None,
    "workers": None,
    "address": None,
    "shards": None,
}


def bulk_options(command: Command) -> Command:
    """Add the options for several updates or several workers; the command gets ``bulk``."""

    @functools.wraps(command)
    def gathered(*args: Any, **kwargs: Any) -> Any:
        bulk = {name: kwargs.pop(name) for name in _OPTIONS}
        return command(*args, bulk=bulk, **kwargs)

    added: Callable[..., Any] = engine_options(gathered)
    for add in reversed(
        (
            option(
                "--shards",
                metavar="N",
                type=click.IntRange(min=1),
                help="With one update: search from so many seeds, and take what completes the "
                "batch with the least arithmetic. For workers that are free.",
            ),
            flag("--reports", help="With several updates: write a report of each."),
            flag("--again", help="With several updates: audit again what is finished in --out."),
            option(
                "--total-seconds",
                metavar="N",
                callback=limit(float),
                default="none",
                show_default=True,
                help="With several updates: time for all together, or none.",
            ),
        )
    ):
        added = add(added)
    return added  # type: ignore[return-value]


def refuse_bulk_options(bulk: dict[str, Any]) -> None:
    """Refuse, for a single update, what is for several.

    Args:
        bulk: As the command gets it.

    Raises:
        InputError: One was given.

    Example:
        >>> refuse_bulk_options({"reports": True})
        Traceback (most recent call last):
        gradaudit.errors.InputError: --reports: found it with one update, expected several updates
    """
    for name, value in bulk.items():
        if value != _OPTIONS[name]:
            given = f"--{name.replace('_', '-')}"
            if name in PLACES:
                raise InputError(
                    given,
                    "it with one update, which is searched in this process",
                    "several updates, or one in shards",
                    "add --shards N to search it from N seeds there",
                )
            raise InputError(given, "it with one update", "several updates")
