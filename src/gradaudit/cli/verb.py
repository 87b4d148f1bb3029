"""What all verbs share: examples and exit codes in the help, and the types of their options."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from gradaudit.cli.exit_codes import ExitCode
from gradaudit.errors import InputError

Command = TypeVar("Command", bound=Callable[..., Any])


class Verb(click.Command):
    """A command with examples.

    Attributes:
        examples: Pairs of what it is for and the command itself.
    """

    def __init__(self, *args: Any, examples: tuple[tuple[str, str], ...] = (), **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.examples = examples

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; errors name its options, where the package names its arguments."""
        try:
            return super().invoke(ctx)
        except InputError as error:
            raise self._in_options(error, ctx) from error

    def _in_options(self, error: InputError, ctx: click.Context) -> InputError:
        options = {p.name: max(p.opts, key=len) for p in self.params if isinstance(p, click.Option)}
        # An argument that was not given is somebody else's: weights may be those in UPDATE.
        given = ctx.params.get(error.argument) is not None
        argument = options.get(error.argument, error.argument) if given else error.argument

        def spoken(text: str) -> str:
            keyword = rf"\b({'|'.join(map(str, options))})=(?=(\S?))"
            return re.sub(keyword, lambda m: options[m[1]] + (" " if m[2] else ""), text)

        return InputError(argument, error.found, spoken(error.expected), spoken(error.remedy))

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write examples and exit codes under the options."""
        with formatter.section("Examples"):
            for purpose, command in self.examples:
                formatter.write_text(f"# {purpose}")
                # Not wrapped: it is there to be copied.
                formatter.write(f"{'':{formatter.current_indent}}{command}\n")
        write_exit_codes(formatter)


def write_exit_codes(formatter: click.HelpFormatter) -> None:
    """Write the section on exit codes."""
    with formatter.section("Exit codes"):
        formatter.write_dl([(str(int(code)), code.meaning) for code in ExitCode])


Callback = Callable[[click.Context, click.Parameter, Any], Any]


def limit(kind: type[int] | type[float]) -> Callback:
    """A callback that reads a positive number, or ``none`` for no limit."""
    noun = "whole number" if kind is int else "number"

    def read(ctx: click.Context, param: click.Parameter, value: str) -> int | float | None:
        if value.lower() == "none":
            return None
        number = _number(kind, value)
        if number is None or not 0 < number < math.inf:
            raise InputError(param.opts[0], repr(value), f"a positive {noun}, or none")
        return number

    return read


def numbers(kind: type[int] | type[float], count: int | None = None) -> Callback:
    """A callback that reads numbers between commas."""
    expected = "numbers between commas" if count is None else f"{count} numbers between commas"

    def read(
        ctx: click.Context, param: click.Parameter, value: str | None
    ) -> tuple[int | float, ...] | None:
        if value is None:
            return None
        read = [_number(kind, part) for part in value.split(",")]
        known = tuple(number for number in read if number is not None)
        if len(known) != len(read) or (count is not None and len(read) != count):
            raise InputError(param.opts[0], repr(value), expected)
        return known

    return read


def _seed(ctx: click.Context, param: click.Parameter, value: str) -> int:
    number = _number(int, value)
    if number is None or not 0 <= number < 2**63:
        raise InputError(param.opts[0], repr(value), "a whole number from 0 to 2**63 - 1")
    return int(number)


def _secret(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    # Everybody knows the empty one: fingerprints of a table's rows could be guessed from it.
    if value == "":
        raise InputError(param.opts[0], "an empty text", "a secret", "leave the option out")
    return value


def _number(kind: type[int] | type[float], text: str) -> int | float | None:
    try:
        return kind(text)
    except ValueError:
        return None


class _File(click.Path):
    """A path; an empty one, as of an unset shell variable, would be the current folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("The path is empty.", param, ctx)
        return super().convert(value, param, ctx)


# As in `gradaudit.models.LOSSES`, which help must not wait for.
LOSS_NAMES = ("cross_entropy", "binary_cross_entropy", "mse")

# As `gradaudit.models.parse_model` reads it.
MODEL_WORDS = (
    "mlp:INPUTS-WIDTH-...-OUTPUTS; lenet, cnn6, cnn6_d, vgg_small or resnet18, with options as in "
    "'lenet?num_classes=10'; or package.module:factory (its code is run)"
)

FILE = _File(path_type=Path)


def option(*names: str, metavar: str, help: str, **kwargs: Any) -> Callable[[Command], Command]:
    """An option with a value; its metavar is written out, so that help reads well."""
    return click.option(*names, metavar=metavar, help=help, **kwargs)


def flag(*names: str, help: str, **kwargs: Any) -> Callable[[Command], Command]:
    """An option without a value."""
    return click.option(*names, is_flag=True, help=help, **kwargs)


seed_option = option(
    "--seed",
    metavar="N",
    callback=_seed,
    default="0",
    show_default=True,
    help="Seed of every random choice.",
)
quiet_option = flag("--quiet", "-q", help="Print the verdict's sentence alone, and no progress.")
show_option = flag(
    "--show-records",
    help="Show recovered records, which are personal data; they are redacted otherwise.",
)
salt_option = option(
    "--salt",
    metavar="TEXT",
    callback=_secret,
    envvar="GRADAUDIT_SALT",
    help="Secret key of the records' fingerprints in a report, so that reports can be compared; "
    "also read from the environment variable GRADAUDIT_SALT.",
)
