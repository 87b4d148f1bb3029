"""The test suite's own guards work: shapes are checked, the network is shut."""

from __future__ import annotations

import inspect
import socket
import sys
import urllib.request

import jaxtyping
import pytest
import torch

from gradaudit.metrics import compare
from gradaudit.truth import Truth
from gradaudit.update import LinearLayer


def test_wrong_shapes_are_refused():
    good = torch.zeros(3, 2)
    LinearLayer("fc", good, torch.zeros(3), good, None)
    # One letter stands for one size across all of a function's arguments.
    with pytest.raises(jaxtyping.TypeCheckError):
        LinearLayer("fc", good, torch.zeros(2), good, None)
    with pytest.raises(jaxtyping.TypeCheckError):
        LinearLayer("fc", good, None, torch.zeros(3, 2, dtype=torch.int64), None)
    with pytest.raises(jaxtyping.TypeCheckError):
        compare("records", Truth(good, torch.zeros(3)))


@pytest.mark.wrong_types
def test_the_marker_stops_the_checks():
    assert LinearLayer("fc", torch.zeros(3, 2), torch.zeros(2), torch.zeros(1), None).shape == (
        3,
        2,
    )


def test_modules_are_checked_however_they_are_imported():
    # pytest imports modules of src/ on its own to run the examples in their docstrings.
    loaded = {n: m for n, m in sys.modules.items() if n.split(".")[0] == "gradaudit"}
    assert len(loaded) > 5
    for name, module in loaded.items():
        for function in vars(module).values():
            own = inspect.isfunction(function) and function.__module__ == name
            # A module's own __getattr__ and __dir__ are not called by anybody's code.
            if own and not function.__name__.startswith("__"):
                assert hasattr(function, "__wrapped__"), f"{name}.{function.__name__}"


@pytest.mark.parametrize("address", [("192.0.2.1", 80), ("2001:db8::1", 80)])
def test_the_network_is_shut(address):
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    with socket.socket(family) as client, pytest.raises(RuntimeError, match="no network"):
        client.connect(address)
    with pytest.raises(RuntimeError, match="no network"):
        urllib.request.urlopen("http://example.invalid/")


def test_loopback_is_open():
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(server.getsockname()).close()
