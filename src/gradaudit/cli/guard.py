"""From an exception to one line on stderr and an exit code."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable

import click

from gradaudit.cli.exit_codes import ExitCode
from gradaudit.errors import GradauditError

DEBUG_VARIABLE = "GRADAUDIT_DEBUG"
_MEMORY_REMEDY = "take a smaller network or batch, one layer (--layer), or a larger machine"
# torch's allocators raise plain RuntimeErrors on the CPU.
_MEMORY_WORDS = ("can't allocate memory", "not enough memory", "out of memory")


def guarded(call: Callable[[], object]) -> int:
    """Run a command and give its exit code; whatever it raises becomes one line.

    ``GRADAUDIT_DEBUG=1`` shows the traceback before that line.

    Args:
        call: The command; it returns an exit code, or anything else for success.

    Returns:
        The exit code.

    Example:
        >>> guarded(lambda: ExitCode.UNFINISHED)
        3
    """
    try:
        code = call()
        return int(code) if isinstance(code, int) else ExitCode.DONE
    except BrokenPipeError:
        # Whoever reads, as in `gradaudit --help | head`, has seen enough.
        silence(sys.stdout)
        return ExitCode.DONE
    except Exception as error:
        if os.environ.get(DEBUG_VARIABLE, "") not in ("", "0"):
            traceback.print_exc()
        code, text = _explain(error)
    except KeyboardInterrupt:
        code, text = ExitCode.ABORTED, "Interrupted: nothing was written."
    say(one_line(text))
    return code


def _explain(error: Exception) -> tuple[ExitCode, str]:
    if isinstance(error, click.exceptions.Abort):
        return ExitCode.ABORTED, "Interrupted: nothing was written."
    if isinstance(error, click.UsageError):
        path = error.ctx.command_path if error.ctx is not None else "gradaudit"
        return ExitCode.BAD_INPUT, f"Error: {error.format_message()} See '{path} --help'."
    if isinstance(error, click.ClickException | GradauditError):
        # Only click's own method names the file of a FileError.
        text = error.format_message() if isinstance(error, click.ClickException) else error
        return ExitCode.BAD_INPUT, f"Error: {text}"
    if _is_memory(error):
        return ExitCode.BAD_INPUT, f"Error: not enough memory ({error}); {_MEMORY_REMEDY}"
    if isinstance(error, OSError):
        where = f"{os.fsdecode(error.filename)}: " if error.filename else ""
        return ExitCode.BAD_INPUT, f"Error: {where}{error.strerror or error}"
    return ExitCode.INTERNAL, (
        f"Error: internal error ({type(error).__name__}: {error}); "
        f"please report it, with the traceback that {DEBUG_VARIABLE}=1 shows"
    )


def _is_memory(error: Exception) -> bool:
    # By name: torch must not be imported for this.
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    return isinstance(error, RuntimeError) and any(
        words in str(error).lower() for words in _MEMORY_WORDS
    )


def one_line(text: str) -> str:
    r"""Foreign text without line breaks, control characters or anything invisible.

    Example:
        >>> one_line("a\nb\x1b[31m")
        'a b\\x1b[31m'
    """
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in " ".join(text.split()))


def say(text: str) -> None:
    """Write a line to stderr; nobody listening is no error."""
    try:
        click.echo(text, err=True)
    except OSError:
        silence(sys.stderr)


def silence(stream: object) -> None:
    """Point a stream that nobody reads any more at nowhere, so that its last flush is harmless."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())  # type: ignore[attr-defined]
        os.close(nowhere)
    except (OSError, AttributeError):
        # A stream without a file behind it.
        return
