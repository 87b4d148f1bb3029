"""Broken contents for every reader: read or refused in one line, whatever they hold.

`benchmarks/fuzz.py` does the same for as long as it is told to.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from fuzz.attempt import READ, REFUSED, FoundError, Reader, attempt
from fuzz.material import ATTACKS, RAN
from fuzz.readers import readers
from gradaudit.errors import InputError

READERS = readers()
# The same ones each time: a failure here is a change of the code, and the long run looks for more.
EXAMPLES = settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
# Truths, pairs of files and plain tensors need more than a file of their own.
WHOLE = {name for name in READERS if "beside" not in name}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "reader").mkdir()
    return tmp_path / "reader"


@pytest.mark.parametrize("name", READERS)
@EXAMPLES
@given(data=st.data())
def test_broken_contents(name, folder, data):
    reader = READERS[name]
    assert attempt(reader, data.draw(reader.contents), folder) in (READ, REFUSED)


@pytest.mark.parametrize("name", sorted(WHOLE))
def test_what_they_are_made_from_is_read(name, folder):
    outcomes = [attempt(READERS[name], seed, folder) for seed in READERS[name].seeds]
    assert READ in outcomes


@pytest.mark.parametrize(
    ("read", "said"),
    [
        (lambda content, folder: 1 / 0, "ZeroDivisionError"),
        (lambda content, folder: bytearray(2**30).__len__() and None, "MiB"),
        (lambda content, folder: (folder.parent / "outside").touch(), "outside"),
        (lambda content, folder: RAN.mkdir(), "ran what was"),
    ],
)
def test_a_reader_that_does_wrong_is_found(read, said, folder):
    """So that the tests above can fail."""
    try:
        with pytest.raises(FoundError, match=said):
            attempt(Reader("wrong", read, st.nothing()), b"", folder)
    finally:
        if RAN.exists():
            RAN.rmdir()


def test_a_reader_that_refuses_at_length_or_for_want_of_memory_is_found(folder):
    def at_length(content: bytes, place: Path) -> None:
        error = InputError("a", "b", "c")
        error.args = ("x" * 5_000,)
        raise error

    def for_want(content: bytes, place: Path) -> None:
        raise InputError("a", "b", "c") from MemoryError()

    for read, said in ((at_length, "5000 characters"), (for_want, "too much memory")):
        with pytest.raises(FoundError, match=said):
            attempt(Reader("wrong", read, st.nothing()), b"", folder)


def test_the_attacks_are_some():
    import pickle

    for attack in ATTACKS:
        pickle.loads(attack)
        assert RAN.is_dir()
        os.rmdir(RAN)
