from __future__ import annotations

import warnings

import pytest

from gradaudit import tensorfile
from gradaudit.errors import InputError
from gradaudit.hostile import (
    EXPANSION,
    EXPANSION_FLOOR_BYTES,
    check_expansion,
    expansion_limit,
    reading,
    reason,
)


@pytest.mark.parametrize(
    "error", [MemoryError(), RecursionError("deep"), EOFError(), OSError(5, "I/O error")]
)
def test_any_exception_becomes_one_line(error):
    with pytest.raises(InputError, match="a damaged file") as caught, reading("f", "x"):
        raise error
    assert caught.value.__cause__ is error


def test_own_errors_and_interrupts_pass():
    with pytest.raises(InputError, match=r"^mine: found a"), reading("f", "x"):
        raise InputError("mine", "a", "b")
    with pytest.raises(KeyboardInterrupt), reading("f", "x"):
        raise KeyboardInterrupt


def test_library_warnings_are_dropped():
    with reading("f", "x"):
        warnings.warn("for the author", UserWarning, stacklevel=1)


def test_reason_is_short_and_printable():
    assert reason(ValueError("a\x1b[31m\nb")) == "a[31m"
    assert len(reason(ValueError("a" * 10_000))) == 160


def test_limit_grows_with_the_file_up_to_the_maximum():
    assert expansion_limit(1) == EXPANSION_FLOOR_BYTES
    assert expansion_limit(2**30) == EXPANSION * 2**30
    assert expansion_limit(2**40) == tensorfile.MAX_FILE_BYTES
    check_expansion("f", EXPANSION_FLOOR_BYTES, 1)
    with pytest.raises(InputError, match="declared bytes in a file of 1"):
        check_expansion("f", EXPANSION_FLOOR_BYTES + 1, 1)
