"""The engines that tests run over."""

from __future__ import annotations

import sys

import pytest

from engine.checks import wait_until
from engine.clusters import ENVIRONMENT, NODES, SCRIPT, started
from gradaudit.engine import InProcess, Processes, Ray


@pytest.fixture(scope="package")
def cluster():
    """A Ray cluster as a person starts one: a head without CPUs, two nodes with one each."""
    pytest.importorskip("ray", reason="needs gradaudit[ray]")
    if sys.platform != "linux" or not SCRIPT.exists():
        pytest.skip("needs Linux, whose loopback has many addresses, and the command ray")
    with pytest.MonkeyPatch.context() as patch, started() as address:
        for name, value in ENVIRONMENT.items():
            patch.setenv(name, value)
        yield address


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
