"""Engines by name."""

from __future__ import annotations

import sys

import pytest

from gradaudit.cli import engines
from gradaudit.engine import ENGINES, Ray, open_engine
from gradaudit.errors import InputError, MissingExtraError


def test_names_are_those_of_the_command_line():
    assert ENGINES == engines.NAMES


@pytest.mark.parametrize(
    ("arguments", "name", "workers"),
    [
        ({}, "in-process", 1),
        ({"workers": 1}, "in-process", 1),
        ({"workers": 3}, "processes", 3),
        ({"name": "processes", "workers": 1}, "processes", 1),
        ({"name": "in-process"}, "in-process", 1),
    ],
)
def test_the_engine_follows_from_what_is_given(arguments, name, workers):
    engine = open_engine(**arguments)
    assert (engine.name, engine.workers) == (name, workers)


def test_an_address_is_ray_s():
    pytest.importorskip("ray", reason="needs gradaudit[ray]")
    assert open_engine(address="auto").name == "ray"
    assert open_engine("ray", workers=3).workers == 3


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"name": "threads"}, "engine: found 'threads', expected one of in-process, processes"),
        ({"name": "in-process", "workers": 2}, "workers: found 2 in one process"),
        ({"name": "processes", "address": "auto"}, "address: found 'auto' with the engine proc"),
        ({"name": "processes", "workers": 0}, "workers: found 0, expected a whole number"),
    ],
)
def test_what_does_not_fit_is_refused(arguments, text):
    with pytest.raises(InputError) as caught:
        open_engine(**arguments)
    assert text in str(caught.value)


def test_ray_s_absence_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'gradaudit\[ray\]'"):
        open_engine("ray")


@pytest.mark.parametrize(
    ("address", "text"),
    [
        ("head", "found 'head', expected host:port, or auto"),
        ("head:0", "found 'head:0', expected host:port"),
        ("ray://head:1", "found 'ray://head:1', expected host:port"),
        ("127.0.0.1:1", "Connection refused"),
    ],
)
def test_an_address_where_nobody_is(address, text):
    pytest.importorskip("ray", reason="needs gradaudit[ray]")
    with pytest.raises(InputError, match="address") as caught, Ray(address):
        pass
    assert text in str(caught.value)
