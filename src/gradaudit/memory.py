"""How much memory there is, what a computation would take of it, and the refusal of one line."""

from __future__ import annotations

import os
import re
from pathlib import Path

from gradaudit.errors import InputError

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY_UNITS = {"ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([kmgt]i?)?b?", re.IGNORECASE)
_CGROUP = Path("/sys/fs/cgroup")
_MEMINFO = Path("/proc/meminfo")


def parse_bytes(argument: str, text: str) -> int:
    """Read a size such as ``8GiB``, ``500 MB`` or a number of bytes.

    Args:
        argument: What to call it in an error.
        text: The size.

    Returns:
        Bytes, at least 1.

    Raises:
        InputError: It is none.

    Example:
        >>> parse_bytes("--max-memory", "1.5GiB"), parse_bytes("--max-memory", "2kb")
        (1610612736, 2000)
    """
    found = _SIZE.fullmatch(text.strip())
    size = 0
    if found is not None:
        unit = (found[2] or "").lower()
        size = int(float(found[1]) * (_UNITS | _BINARY_UNITS)[unit])
    if size < 1:
        raise InputError(argument, repr(text), "a size such as 8GiB, 500MB or a number of bytes")
    return size


def available_memory() -> int | None:
    """Bytes that this process could still take without swapping, None where nothing says it.

    What the system calls available, or what is left of a container's limit if that is less.

    Example:
        >>> (available_memory() or 1) > 0
        True
    """
    found = [size for size in (_of_system(), _of_container()) if size is not None]
    return min(found, default=None)


def total_memory() -> int | None:
    """Bytes of the machine's memory or of its container's limit, None where nothing says it.

    Example:
        >>> (total_memory() or 1) > 0
        True
    """
    try:
        machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None
    limit = _number(_CGROUP / "memory.max")
    return machine if limit is None else min(machine, limit)


def size_text(size: int) -> str:
    """A number of bytes for people, in the unit that fits.

    Example:
        >>> size_text(12), size_text(3 * 2**20), size_text(9 * 2**30)
        ('12 bytes', '3.00 MiB', '9.00 GiB')
    """
    for power, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if size >= 2**power:
            return f"{size / 2**power:,.2f} {unit}"
    return f"{size} bytes"


def check_memory(what: str, needed: int, limit: int | None, argument: str = "memory") -> None:
    """Refuse what would not fit, before it is tried.

    Args:
        what: What needs the memory, for the message.
        needed: Bytes, beside what is held already.
        limit: Bytes that the user allows; None for what is available.
        argument: What to call the limit in the message.

    Raises:
        InputError: It would not fit.

    Example:
        >>> check_memory("a layer", 2**31, 2**30)
        Traceback (most recent call last):
        gradaudit.errors.InputError: memory: found a layer, which needs 2.00 GiB, ...
    """
    allowed = available_memory() if limit is None else limit
    if allowed is not None and needed > allowed:
        where = "available on this machine" if limit is None else "the limit that was set"
        raise InputError(
            argument,
            f"{what}, which needs {size_text(needed)}",
            f"at most {size_text(allowed)}, {where}",
            "use a machine with more memory" if limit is None else "allow more",
        )


def _of_system() -> int | None:
    try:
        lines = _MEMINFO.read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if "MemAvailable" in line)
    except (OSError, ValueError, StopIteration):
        pass
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def _of_container() -> int | None:
    """What is left of a control group's limit; None without one."""
    limit, used = (_number(_CGROUP / name) for name in ("memory.max", "memory.current"))
    return None if limit is None or used is None else max(limit - used, 0)


def _number(file: Path) -> int | None:
    """What a file of the kernel's says, None where there is none or it says "max"."""
    try:
        return int(file.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
