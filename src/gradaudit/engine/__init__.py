"""Work that can be done in other processes and on other machines."""

from gradaudit.engine.choose import ENGINES, open_engine
from gradaudit.engine.cores import usable_cores
from gradaudit.engine.engine import MAX_ATTEMPTS, Engine
from gradaudit.engine.in_process import InProcess
from gradaudit.engine.processes import Processes
from gradaudit.engine.ray_cluster import Ray
from gradaudit.engine.unit import Done, Unit
from gradaudit.engine.when_needed import WhenNeeded

__all__ = [
    "ENGINES",
    "MAX_ATTEMPTS",
    "Done",
    "Engine",
    "InProcess",
    "Processes",
    "Ray",
    "Unit",
    "WhenNeeded",
    "open_engine",
    "usable_cores",
]
