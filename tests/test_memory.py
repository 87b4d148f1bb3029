from __future__ import annotations

import pytest

from gradaudit import memory
from gradaudit.errors import InputError
from gradaudit.memory import available_memory, check_memory, parse_bytes, total_memory

SYSTEM = "MemTotal: 100 kB\nMemFree: 10 kB\nMemAvailable: 4096 kB\n"


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine with four mebibytes to spare, whose container says what a test lets it say."""
    (tmp_path / "meminfo").write_text(SYSTEM)
    monkeypatch.setattr(memory, "_MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(memory, "_CGROUP", tmp_path)

    def container(limit, used):
        (tmp_path / "memory.max").write_text(f"{limit}\n")
        (tmp_path / "memory.current").write_text(f"{used}\n")

    return container


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1", 1),
        ("8GiB", 8 * 2**30),
        ("8 gib", 8 * 2**30),
        ("500MB", 500_000_000),
        ("1.5k", 1500),
        ("2T", 2 * 10**12),
        ("3Ki", 3072),
    ],
)
def test_sizes(text, size):
    assert parse_bytes("--max-memory", text) == size


@pytest.mark.parametrize("text", ["", "0", "-1", "8 GiBs", "nan", "inf", "1e9", "GiB", "0.1b"])
def test_what_is_no_size(text):
    with pytest.raises(InputError, match=r"--max-memory: found .* expected a size such as 8GiB"):
        parse_bytes("--max-memory", text)


def test_what_is_available_is_the_least_that_is_said(machine):
    assert available_memory() == 4096 * 1024
    machine(2**20, 2**19)
    assert available_memory() == 2**19
    machine(2**19, 2**20)
    assert available_memory() == 0
    machine("max", 2**20)
    assert available_memory() == 4096 * 1024


def test_a_container_s_limit_is_the_whole_of_its_memory(machine):
    whole = total_memory()
    machine(2**20, 2**19)
    assert total_memory() == 2**20
    machine("max", 0)
    assert total_memory() == whole


def test_a_system_that_does_not_say(machine, tmp_path, monkeypatch):
    (tmp_path / "meminfo").unlink()
    monkeypatch.delattr("os.sysconf")
    assert available_memory() is None
    assert total_memory() is None
    check_memory("anything", 2**60, None)


def test_refusals_say_what_is_needed_and_what_there_is(machine):
    check_memory("a layer", 2**21, None)
    with pytest.raises(InputError) as caught:
        check_memory("a layer", 2**40, None)
    assert str(caught.value) == (
        "memory: found a layer, which needs 1,024.00 GiB, expected at most 4.00 MiB, available on "
        "this machine; use a machine with more memory"
    )
    with pytest.raises(InputError, match=r"at most 1.00 GiB, the limit that was set; allow more"):
        check_memory("a layer", 2**31, 2**30)
    check_memory("a layer", 2**40, 2**41)
