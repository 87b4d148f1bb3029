"""One try at a reader: what it may do with bytes that somebody else wrote, and what it may not."""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis.strategies import SearchStrategy

from fuzz.material import RAN
from gradaudit.errors import GradauditError

# A refusal is a line that a person reads to its end, even with a path and a name in it.
LONGEST_LINE = 2_000
# Small files: what computes for longer than this hangs, and so does what waits for longer.
LONGEST_SECONDS, LONGEST_WAIT = 5.0, 60.0
# A file may unfold to this much, whatever its size, before it is refused (`gradaudit.hostile`);
# a reader holds what it has read and a copy.
MOST_BYTES = 2 * 2**28

READ, REFUSED = "read", "refused"


class FoundError(AssertionError):
    """A reader did what no content of a file may make it do."""


@dataclass(frozen=True, eq=False)
class Reader:
    """A way into the package for somebody else's bytes.

    Attributes:
        name: For people.
        read: Reads bytes; it may write them into a folder first, which is its own.
        contents: Contents that are nearly right, broken in one way or several.
        seeds: Contents that are read, to begin with.
    """

    name: str
    read: Callable[[bytes, Path], object]
    contents: SearchStrategy[bytes]
    seeds: tuple[bytes, ...] = field(default=())


def attempt(reader: Reader, content: bytes, folder: Path) -> str:
    """Let a reader read; `READ` or `REFUSED`.

    Raises:
        FoundError: It raised another error, took too long or too much, left files behind, or ran
            what was in the file.
    """
    before = _files(folder.parent)
    started, begun = time.process_time(), time.perf_counter()
    outcome = READ
    try:
        with _watched(reader.name):
            reader.read(content, folder)
    except FoundError:
        raise
    except GradauditError as error:
        outcome = REFUSED
        _check_line(reader.name, error)
    except Exception as error:
        raise FoundError(f"{reader.name}: {type(error).__name__}: {error}") from error
    taken, waited = time.process_time() - started, time.perf_counter() - begun
    if taken > LONGEST_SECONDS or waited > LONGEST_WAIT:
        raise FoundError(f"{reader.name}: computed {taken:.1f} s in {waited:.1f} s")
    if RAN.exists():
        raise FoundError(f"{reader.name}: ran what was in the file")
    new = _files(folder.parent) - before
    if new:
        raise FoundError(f"{reader.name}: made {sorted(new)} outside its folder")
    return outcome


def _check_line(name: str, error: GradauditError) -> None:
    text = str(error)
    if not text.isprintable() or len(text) > LONGEST_LINE:
        raise FoundError(f"{name}: a refusal of {len(text)} characters: {text[:80]!r}") from error
    # A reader that tries, and is refused by the system, would have succeeded on a larger machine.
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, MemoryError) or "allocate" in str(cause):
            raise FoundError(f"{name}: asked for too much memory: {text[:200]!r}") from error
        cause = cause.__cause__


def _files(folder: Path) -> set[str]:
    return set(os.listdir(folder))


@contextmanager
def _watched(name: str) -> Iterator[None]:
    """Refuse a peak of memory that is `MOST_BYTES` above the highest one before."""
    before = _peak_bytes()
    yield
    grown = _peak_bytes() - before
    if grown > MOST_BYTES:
        raise FoundError(f"{name}: took {grown / 2**20:,.0f} MiB")


def _peak_bytes() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
