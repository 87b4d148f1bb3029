from __future__ import annotations

import hashlib
import os
import stat

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gradaudit import tensorfile
from gradaudit.errors import InputError
from gradaudit.tensorfile import (
    check_file,
    check_place,
    read_tensors,
    replacing,
    sha256_of,
    write_tensors,
)


@pytest.mark.parametrize(
    "tensor",
    [
        torch.arange(6.0).reshape(2, 3),
        torch.arange(6.0).reshape(2, 3).t(),
        torch.ones(1).expand(4),
        torch.tensor(2.0),
        torch.zeros(0, 3),
        torch.arange(3),
        torch.ones(2, dtype=torch.bfloat16),
        torch.tensor([float("nan"), -0.0, 1e-45]),
    ],
)
def test_round_trip(tmp_path, tensor):
    write_tensors(tmp_path / "t", {"a": tensor, "b": tensor}, {"key": "värde"})
    tensors, metadata = read_tensors(tmp_path / "t")
    assert metadata == {"key": "värde"}
    for read in tensors.values():
        assert read.dtype == tensor.dtype
        assert read.shape == tensor.shape
        assert read.numel() == 0 or torch.equal(
            read.view(-1).view(torch.uint8), tensor.contiguous().view(-1).view(torch.uint8)
        )


def test_gradients_are_not_followed(tmp_path):
    write_tensors(tmp_path / "t", {"a": torch.nn.Parameter(torch.ones(2))}, {})
    assert torch.equal(read_tensors(tmp_path / "t")[0]["a"], torch.ones(2))


def test_a_reader_does_not_see_a_later_write(tmp_path):
    """Tensors are mapped from the file; the next write must not reach them."""
    write_tensors(tmp_path / "t", {"a": torch.ones(1000)}, {})
    first = read_tensors(tmp_path / "t")[0]["a"]
    write_tensors(tmp_path / "t", {"a": torch.zeros(1000)}, {})
    assert bool((first == 1).all())
    assert bool((read_tensors(tmp_path / "t")[0]["a"] == 0).all())


def test_a_failed_write_leaves_the_old_file_and_no_rubbish(tmp_path):
    target = tmp_path / "folder" / "result"
    with replacing(target) as temporary:
        temporary.write_text("old")

    def stop_half_way() -> None:
        with replacing(target) as temporary:
            temporary.write_text("half")
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        stop_half_way()
    assert target.read_text() == "old"
    assert os.listdir(target.parent) == ["result"]


def test_permissions_follow_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        with replacing(tmp_path / "result") as temporary:
            temporary.write_text("x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "result").stat().st_mode) == 0o640


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ("file/result", "a path under folders"),
        (f"new/{'n' * 300}/result", "File name too long"),
        ("device", "no regular file"),
        ("loop/result", "a place that can be written to"),
        ("n" * 300, "File name too long"),
        (".", "a folder"),
    ],
)
def test_a_place_that_cannot_be_written_to(tmp_path, place, expected):
    (tmp_path / "file").write_text("x")
    os.mkfifo(tmp_path / "device")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    before = sorted(os.listdir(tmp_path))
    with pytest.raises(InputError, match=expected):
        check_place("--out", tmp_path / place)
    with pytest.raises(InputError, match=expected), replacing(tmp_path / place):
        pytest.fail("it was opened")
    assert sorted(os.listdir(tmp_path)) == before
    assert not (tmp_path / "device").is_file()


def test_a_file_system_that_takes_no_files():
    if not os.path.isdir("/proc/self"):
        pytest.skip("there is no /proc")
    for place in ("/proc/result", "/proc/folder/result"):
        with pytest.raises(InputError, match=r"--out: found '/proc/.*can be written to"):
            check_place("--out", place)


def test_a_check_of_a_place_leaves_nothing(tmp_path):
    check_place("--out", tmp_path / "new" / "folders" / "result")
    check_place("--out", tmp_path / "result")
    assert os.listdir(tmp_path) == []


def test_what_a_link_points_to_is_replaced(tmp_path):
    (tmp_path / "old").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "old" / "result")
    with replacing(tmp_path / "link") as temporary:
        temporary.write_text("x")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "old" / "result").read_text() == "x"


def test_check_file(tmp_path, monkeypatch):
    path = tmp_path / "f"
    with pytest.raises(InputError, match="no such file"):
        check_file(path)
    with pytest.raises(InputError, match="not a regular file"):
        check_file(tmp_path)
    path.touch()
    with pytest.raises(InputError, match="an empty file"):
        check_file(path)
    path.write_bytes(b"\0" * 100)
    monkeypatch.setattr(tensorfile, "MAX_FILE_BYTES", 100)
    assert check_file(path) == 100
    path.write_bytes(b"\0" * 101)
    with pytest.raises(InputError, match="found 101 bytes, expected at most 100"):
        check_file(path)


def test_a_fifo_does_not_hang(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="not a regular file"):
        read_tensors(tmp_path / "pipe")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.binary(min_size=1, max_size=200))
def test_other_bytes_are_refused(tmp_path, content):
    (tmp_path / "f").write_bytes(content)
    with pytest.raises(InputError, match="expected a safetensors file"):
        read_tensors(tmp_path / "f")


@pytest.mark.parametrize("size", [0, 1, 2**20, 2**20 + 1, 3 * 2**20])
def test_sha256_of_files_across_chunks(tmp_path, size):
    content = bytes(i % 251 for i in range(1000)) * (size // 1000 + 1)
    (tmp_path / "f").write_bytes(content[:size])
    assert sha256_of(tmp_path / "f") == hashlib.sha256(content[:size]).hexdigest()
