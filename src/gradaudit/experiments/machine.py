"""What an experiment was run on."""

from __future__ import annotations

import os
import platform
from datetime import datetime, timezone
from typing import Any

import numpy
import torch


def machine() -> dict[str, Any]:
    """Versions, processor and threads.

    Example:
        >>> machine()["cores"] >= 1
        True
    """
    return {
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d"),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
    }
