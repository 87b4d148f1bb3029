"""The engines that tests run over."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from engine.checks import TESTS, wait_until
from gradaudit.engine import InProcess, Processes, Ray

# Ray takes the usual address of this machine for one that others should use; these are its own too.
HEAD, NODES = "127.0.0.2", ("127.0.0.3", "127.0.0.4")


@pytest.fixture(scope="package")
def cluster():
    """A Ray cluster as a person starts one: a head without CPUs, two nodes with one each."""
    pytest.importorskip("ray", reason="needs gradaudit[ray]")
    script = Path(sys.executable).with_name("ray")
    if sys.platform != "linux" or not script.exists():
        pytest.skip("needs Linux, whose loopback has many addresses, and the command ray")
    with pytest.MonkeyPatch.context() as patch, started(str(script), patch) as address:
        yield address


@contextlib.contextmanager
def started(script, patch):
    # Workers import `engine.material`. A token would have to be known before Ray is imported.
    patch.setenv("PYTHONPATH", str(TESTS), prepend=os.pathsep)
    patch.setenv("RAY_AUTH_MODE", "disabled")
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
                commands += [start(script, node, log, *options)]
                wait_until(lambda log=log: "runtime started" in log.read_text(), commands)
            yield address
        finally:
            # Those that were started here; `ray stop` would end every cluster of this machine.
            for command in commands:
                command.send_signal(signal.SIGTERM)
            for command in commands:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    command.wait(10)
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(command.pid, signal.SIGKILL)
                command.wait()


def start(script, address, log, *options):
    with log.open("w") as stream:
        return subprocess.Popen(
            [
                # --block: the command stays, and its end is the node's.
                *(script, "start", "--block", "--disable-usage-stats"),
                *(f"--node-ip-address={address}", *options),
            ],
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


@pytest.fixture(scope="package")
def ray_engine(cluster):
    """Connected, with both nodes up."""
    with Ray(cluster) as engine:
        wait_until(lambda: engine.workers == len(NODES))
        yield engine


@pytest.fixture(scope="package")
def processes_engine():
    with Processes(workers=2) as engine:
        yield engine


@pytest.fixture(params=["in-process", "processes", pytest.param("ray", marks=pytest.mark.slow)])
def engine(request):
    """Every engine there is."""
    if request.param == "in-process":
        return InProcess()
    name = {"processes": "processes_engine", "ray": "ray_engine"}[request.param]
    return request.getfixturevalue(name)


@pytest.fixture(params=["processes", pytest.param("ray", marks=pytest.mark.slow)])
def outside(request):
    """Engines whose workers are other processes."""
    name = {"processes": "processes_engine", "ray": "ray_engine"}[request.param]
    return request.getfixturevalue(name)
