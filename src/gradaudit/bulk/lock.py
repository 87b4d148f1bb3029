"""One run at a time in a folder."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from gradaudit.errors import InputError
from gradaudit.tensorfile import replacing

LOCK, OWNER = ".lock", ".owner"


@contextmanager
def only_run(folder: Path) -> Iterator[None]:
    """Hold a folder for this process.

    The operating system holds the lock for as long as the process lives: however a run ends, kill
    -9 included, nothing has to be cleaned up before the next one.

    Args:
        folder: Must exist.

    Raises:
        InputError: Another run has it; says which process on which machine.
    """
    lock = FileLock(str(folder / LOCK), timeout=0)
    try:
        lock.acquire()
    except Timeout as error:
        owner = ""
        with suppress(OSError):
            owner = (folder / OWNER).read_text(encoding="utf-8", errors="replace")[:200]
        raise InputError(
            "--out",
            f"{str(folder)!r}, which another run writes to ({owner.strip() or 'just begun'})",
            "a folder that no other run uses",
            "wait until it ends, or give another folder",
        ) from error
    except (OSError, NotImplementedError) as error:
        raise InputError(
            "--out", f"{str(folder)!r}: {error}", "a folder in which a file can be locked"
        ) from error
    try:
        with replacing(folder / OWNER) as temporary:
            temporary.write_text(
                f"process {os.getpid()} on {socket.gethostname()}\n", encoding="utf-8"
            )
        yield
    finally:
        with suppress(OSError):
            (folder / OWNER).unlink(missing_ok=True)
        lock.release()
