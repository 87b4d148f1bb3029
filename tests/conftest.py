"""What holds for every test: checked types and shapes, no network, one thread, repeatable draws."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import jaxtyping
import pytest
import typechecker
from hypothesis import settings

# Before anything imports the package.
typechecker.install("gradaudit")

# Deadlines fail on a busy machine; on CI a failure must be one that anybody can repeat.
settings.register_profile("local", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")


def _refuse_network(event: str, arguments: tuple[object, ...]) -> None:
    if event == "socket.getaddrinfo":
        host = arguments[0]
    elif event in ("socket.connect", "socket.sendto"):
        address = arguments[1]
        # Addresses of other kinds of sockets are paths.
        host = address[0] if isinstance(address, tuple) else None
    else:
        return
    if isinstance(host, bytes):
        host = host.decode()
    if host in (None, "", "localhost", "::1") or str(host).startswith("127."):
        return
    raise RuntimeError(f"tests use no network, but one wants to reach {host}")


def pytest_configure(config: pytest.Config) -> None:
    import torch

    # The matrices are small, and processes, not threads, share the cores.
    torch.set_num_threads(int(os.environ.setdefault("OMP_NUM_THREADS", "1")))
    # An audit hook also sees sockets that libraries open; it stays for the life of the process.
    sys.addaudithook(_refuse_network)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Stop checking annotations in tests of what becomes of wrong types."""
    unchecked = item.get_closest_marker("wrong_types") is not None
    jaxtyping.config.update("jaxtyping_disable", unchecked)
    try:
        return (yield)
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder with real data; tests that ask for it are skipped where there is none."""
    name = os.environ.get("GRADAUDIT_DATA")
    if not name or not Path(name).is_dir():
        pytest.skip("GRADAUDIT_DATA does not name a folder with real data")
    return Path(name)
