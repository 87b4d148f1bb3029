"""The test suite's own guards work: shapes are checked, the network is shut."""

from __future__ import annotations

import inspect
import socket
import sys
import urllib.request

import jaxtyping
import pytest
import torch
from jaxtyping import Float
from torch import Tensor
from typechecker import checked

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


def test_arguments_of_every_kind_and_what_is_returned_are_checked():
    @checked
    def every(a: int, /, b: int, *c: int, d: int, e: int = 5, **f: int) -> int:
        return b

    assert every(1, 2, 3, d=4, g=6) == 2
    for words, options in [
        (("1", 2), {"d": 4}),
        ((1, "2"), {"d": 4}),
        ((1, 2, "3"), {"d": 4}),
        ((1, 2), {"d": "4"}),
        ((1, 2), {"d": 4, "e": "5"}),
        ((1, 2), {"d": 4, "g": "6"}),
    ]:
        with pytest.raises(jaxtyping.TypeCheckError):
            every(*words, **options)


def test_what_is_returned_has_the_sizes_of_the_arguments():
    @checked
    def turned(rows: Float[Tensor, "b n"], really: bool) -> Float[Tensor, "n b"]:
        return rows.T if really else rows

    assert turned(torch.zeros(3, 2), True).shape == (2, 3)
    assert turned(torch.zeros(3, 3), False).shape == (3, 3)
    with pytest.raises(jaxtyping.TypeCheckError):
        turned(torch.zeros(3, 2), False)


def test_closures_of_the_same_lines_share_their_checks_and_nothing_else():
    def adder(number: int):
        @checked
        def add(value: int) -> int:
            return value + number

        return add

    one, two = adder(1), adder(2)
    assert one.checks is two.checks
    assert (one(1), two(1)) == (2, 3)
    with pytest.raises(jaxtyping.TypeCheckError):
        two("1")


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
