"""Work that can be done in other processes and on other machines."""

from gradaudit.engine.cores import usable_cores
from gradaudit.engine.engine import MAX_ATTEMPTS, Engine
from gradaudit.engine.in_process import InProcess
from gradaudit.engine.unit import Done, Unit

__all__ = ["MAX_ATTEMPTS", "Done", "Engine", "InProcess", "Unit", "usable_cores"]
