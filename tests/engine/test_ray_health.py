"""A cluster that has lost its head or its last CPU; a stand-in for Ray says what Ray would say."""

from __future__ import annotations

import socket
from types import SimpleNamespace

import pytest

from gradaudit.engine import ray_health
from gradaudit.engine.ray_health import RayHealth, why_silent
from gradaudit.errors import GradauditError


@pytest.fixture
def listening(monkeypatch):
    """A port where somebody listens, looked at whenever it is asked about."""
    monkeypatch.setattr(ray_health, "LOOK_SECONDS", 0.0)
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def health_of(server, resources):
    address = f"127.0.0.1:{server.getsockname()[1]}"
    context = SimpleNamespace(gcs_address=address)
    ray = SimpleNamespace(
        get_runtime_context=lambda: context, cluster_resources=lambda: dict(resources)
    )
    return RayHealth(ray), address


def test_cpus_are_those_of_the_cluster_as_it_is(listening):
    resources = {"CPU": 2.0, "memory": 1.0}
    health, address = health_of(listening, resources)
    assert health.cpus() == 2
    resources["CPU"] = 3.0
    assert health.cpus() == 3
    assert health.has_head
    assert why_silent(address) == ""


def test_it_is_not_asked_more_often_than_it_is_looked_at(listening, monkeypatch):
    monkeypatch.setattr(ray_health, "LOOK_SECONDS", 60.0)
    resources = {"CPU": 2.0}
    health, _ = health_of(listening, resources)
    assert health.cpus() == 2
    resources["CPU"] = 3.0
    assert health.cpus() == 2


def test_a_head_that_is_away_for_a_moment_is_waited_for(listening):
    health, address = health_of(listening, {"CPU": 2.0})
    assert health.cpus() == 2
    listening.close()
    # Ray would wait for the head, and not answer.
    health._ray.cluster_resources = None
    assert health.cpus() == 2
    assert not health.has_head
    assert "refused" in why_silent(address)


def test_a_head_that_stays_away_is_told_in_one_line(listening, monkeypatch):
    monkeypatch.setattr(ray_health, "HEAD_SECONDS", 0.0)
    health, address = health_of(listening, {"CPU": 2.0})
    listening.close()
    with pytest.raises(GradauditError, match=f"head of the Ray cluster at {address} has not"):
        health.cpus()


def test_a_cluster_that_has_lost_its_cpus_is_told_in_one_line(listening, monkeypatch):
    resources = {"CPU": 1.0}
    health, address = health_of(listening, resources)
    assert health.cpus() == 1
    del resources["CPU"]
    # A node may come.
    assert health.cpus() == 0
    monkeypatch.setattr(ray_health, "CPU_SECONDS", 0.0)
    with pytest.raises(GradauditError, match=f"no CPU for 0 seconds.*--address={address}'"):
        health.cpus()
    resources["CPU"] = 1.0
    assert health.cpus() == 1
