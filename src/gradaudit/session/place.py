"""What an audit computes with: versions, machine and threads, on which rounding depends."""

from __future__ import annotations

import platform

import numpy as np
import scipy
import torch

from gradaudit.version import __version__


def versions() -> dict[str, str]:
    """Of this package and what it computes with.

    Example:
        >>> sorted(versions())
        ['gradaudit', 'numpy', 'python', 'scipy', 'torch']
    """
    return {
        "gradaudit": __version__,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "python": platform.python_version(),
    }


def machine(place: torch.device) -> dict[str, str]:
    """What rounding depends on besides; nothing that tells one machine from its like.

    Args:
        place: Where it computes.

    Example:
        >>> sorted(machine(torch.device("cpu")))
        ['instructions', 'processor', 'system']
    """
    known = {
        "system": platform.system(),
        "processor": platform.machine(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
    }
    if place.type == "cuda":
        known["gpu"] = torch.cuda.get_device_name(place)
    return known
