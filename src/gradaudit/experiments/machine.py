"""What an experiment was run on."""

from __future__ import annotations

import os
import platform
from datetime import datetime, timezone
from typing import Any

import numpy
import scipy
import torch

from gradaudit.version import __version__


def machine() -> dict[str, Any]:
    """Versions, processor and threads, for the record beside a figure.

    Example:
        >>> machine()["cores"] >= 1
        True
    """
    return {
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d"),
        "gradaudit": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "scipy": scipy.__version__,
        "machine": platform.machine(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
    }


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as stream:
            for line in stream:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or "unknown"
