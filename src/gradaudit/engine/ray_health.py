"""Whether a Ray cluster is still there: its head, and at least one CPU."""

from __future__ import annotations

import math
import socket
import time
from typing import Any

from gradaudit.engine.doing import one_line
from gradaudit.errors import GradauditError

# The cluster is looked at so often.
LOOK_SECONDS = 1.0
# An address where nobody answers is given up after so long.
ANSWER_SECONDS = 5.0
# A head may restart. Ray ends the whole process once it has been away for 60 seconds.
HEAD_SECONDS = 20.0
# New nodes of a cluster that grows by itself are there in minutes.
CPU_SECONDS = 300.0


class RayHealth:
    """Looks at a cluster now and then, while a run is under way.

    Without its head Ray answers no question and in the end ends the process; without CPUs it waits
    for ever. Both are said here.

    Args:
        ray: The module, connected.
    """

    def __init__(self, ray: Any) -> None:
        self._ray = ray
        self._address = str(ray.get_runtime_context().gcs_address)
        self._looked = -math.inf
        self._cpus = 0
        self._silence = ""
        # Since when each has been away, if it is.
        self._no_head = self._no_cpu = math.inf

    @property
    def has_head(self) -> bool:
        """Whether the head answered when it was last looked for."""
        return not self._silence

    def cpus(self) -> int:
        """How many CPUs the cluster has; as they were last seen, while its head is away.

        Raises:
            GradauditError: The head has been away for too long, or all CPUs.
        """
        now = time.monotonic()
        if now - self._looked < LOOK_SECONDS:
            return self._cpus
        self._looked = now
        self._silence = why_silent(self._address)
        if self._silence:
            self._no_head = min(self._no_head, now)
            if now - self._no_head >= HEAD_SECONDS:
                raise GradauditError(
                    f"the head of the Ray cluster at {self._address} has not answered for "
                    f"{HEAD_SECONDS:g} seconds ({self._silence}); start a cluster and run again"
                )
            return self._cpus
        self._no_head = math.inf
        self._cpus = int(self._ray.cluster_resources().get("CPU", 0))
        self._no_cpu = math.inf if self._cpus else min(self._no_cpu, now)
        if now - self._no_cpu >= CPU_SECONDS:
            raise GradauditError(
                f"the Ray cluster at {self._address} has had no CPU for {CPU_SECONDS:g} seconds; "
                f"start a node with 'ray start --address={self._address}' and run again"
            )
        return self._cpus


def why_silent(address: str) -> str:
    """Why nobody answers at an address ``host:port``; empty if somebody does."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), ANSWER_SECONDS).close()
    except OSError as error:
        return one_line(str(error))
    return ""
