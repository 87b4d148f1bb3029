"""A Ray cluster of this machine, started and ended as a person would."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from engine.checks import TESTS, wait_until

# Ray takes the usual address of this machine for one that others should use; these are its own too.
HEAD, NODES, PASSING = "127.0.0.2", ("127.0.0.3", "127.0.0.4"), "127.0.0.5"
SCRIPT = Path(sys.executable).with_name("ray")
# Workers import `engine.material`. A token would have to be known before Ray is imported.
ENVIRONMENT = {"PYTHONPATH": str(TESTS), "RAY_AUTH_MODE": "disabled"}


@contextlib.contextmanager
def started():
    """A cluster as long as the context is open: a head without CPUs, two nodes with one each.

    Yields:
        Its address. Whoever connects must have `ENVIRONMENT` too.
    """
    with socket.socket() as free:
        free.bind((HEAD, 0))
        address = f"{HEAD}:{free.getsockname()[1]}"
    commands = []
    # Ray's sockets lie below it, and their paths may have 107 characters.
    with tempfile.TemporaryDirectory(prefix="ga", dir="/tmp") as folder:
        head = ["--head", "--num-cpus=0", "--include-dashboard=false", f"--temp-dir={folder}"]
        try:
            starts = [(HEAD, *head, f"--port={address.rpartition(':')[2]}")]
            starts += [(node, "--num-cpus=1", f"--address={address}") for node in NODES]
            # One after another: those that start together may take the same names for sockets.
            for number, (node, *options) in enumerate(starts):
                log = Path(folder) / f"{number}.log"
                commands += [start(node, log, *options)]
                wait_until(lambda log=log: "runtime started" in log.read_text(), commands)
            yield address
        finally:
            end(commands)


@contextlib.contextmanager
def joined(address, folder):
    """A third `Node` with one CPU, which may die while the context is open."""
    log = folder / "node.log"
    command = start(PASSING, log, "--num-cpus=1", f"--address={address}")
    try:
        wait_until(lambda: "runtime started" in log.read_text(), [command])
        yield Node(command.pid)
    finally:
        end([command])


def end(commands):
    """End what was started here; `ray stop` would end every cluster of this machine."""
    for command in commands:
        command.send_signal(signal.SIGTERM)
    for command in commands:
        with contextlib.suppress(subprocess.TimeoutExpired):
            command.wait(10)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(command.pid, signal.SIGKILL)
        command.wait()


@dataclass(frozen=True)
class Node:
    """What the command that started a node is the parent of.

    Attributes:
        pid: Of the command.
    """

    pid: int

    def processes(self):
        """The command, all that it started, and what these started, as workers are."""
        parents = {}
        for place in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                words = place.read_text().rpartition(")")[2].split()
                parents[int(place.parent.name)] = int(words[1])
        found = [self.pid]
        for each in found:
            found += [child for child, parent in parents.items() if parent == each]
        return found

    def die(self):
        """End them all at once, as a machine that loses its power; give their numbers."""
        pids = self.processes()
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return pids


def start(address, log, *options):
    with log.open("w") as stream:
        return subprocess.Popen(
            [
                # --block: the command stays, and its end is the node's.
                *(str(SCRIPT), "start", "--block", "--disable-usage-stats"),
                *(f"--node-ip-address={address}", *options),
            ],
            env={**os.environ, **ENVIRONMENT},
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
