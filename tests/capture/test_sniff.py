from __future__ import annotations

import io
import os
import pickle
import stat
import tarfile
import zipfile

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from gradaudit import tensorfile
from gradaudit.capture.sniff import Format, sniff
from gradaudit.errors import InputError


@pytest.mark.parametrize("suffix", ["", ".pt", ".npz", ".safetensors", ".txt"])
def test_content_not_suffix_decides(tmp_path, suffix):
    path = tmp_path / f"update{suffix}"
    save_file({"a": torch.ones(2)}, path)
    assert sniff(path) is Format.SAFETENSORS
    torch.save({"a": torch.ones(2)}, path)
    assert sniff(path) is Format.TORCH
    with path.open("wb") as stream:
        np.savez(stream, a=np.ones(2))
    assert sniff(path) is Format.NUMPY


def _tar() -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("storages"))
    return stream.getvalue()


def _npy() -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.ones(2))
    return stream.getvalue()


def _zip(*names: str) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name in names:
            archive.writestr(name, b"x")
    return stream.getvalue()


def _legacy() -> bytes:
    stream = io.BytesIO()
    torch.save({"a": torch.ones(2)}, stream, _use_new_zipfile_serialization=False)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"epoch,loss\n1,0.3\n", "found text, expected"),
        (b'{"abcd":{"x": 1}}', "found text, expected"),
        (b"<!DOCTYPE html><html></html>", "found text, expected"),
        (b"\x89PNG\r\n\x1a\n" + b"\0" * 40, "a PNG image"),
        (b"\x1f\x8b\x08" + b"\0" * 40, "gzip"),
        (b"\x89HDF\r\n\x1a\n" + b"\0" * 40, "HDF5"),
        (b"\0" * 64, "unknown content"),
        (b"\x01", "unknown content"),
        (b"\xff" * 7 + b'\x7f{"a":', "unknown content"),
        (pickle.dumps({"a": 1}), "a bare pickle"),
        (_tar(), "a tar archive"),
        (_npy(), "a single .npy array"),
        (_zip("word/document.xml"), "a zip archive of 'word/document.xml'"),
        (_zip(), "no members"),
        (_zip("a/code/__torch__.py", "a/data.pkl"), "TorchScript"),
        (_legacy(), "before version 1.6"),
        (b"PK\x03\x04" + b"\0" * 40, "a damaged file"),
    ],
)
def test_strangers_are_named(tmp_path, refusal, content, said):
    path = tmp_path / "update.pt"
    path.write_bytes(content)
    assert said in refusal(path)


def test_empty_missing_and_directory(tmp_path, refusal):
    (tmp_path / "empty.pt").touch()
    assert "an empty file" in refusal(tmp_path / "empty.pt")
    assert "no such file" in refusal(tmp_path / "missing.pt")
    assert "not a regular file" in refusal(tmp_path)
    assert "no such file" in refusal("nul\0byte")
    assert "too long" in refusal("x" * 300)


def test_fifo_and_device_do_not_hang(tmp_path, refusal):
    os.mkfifo(tmp_path / "pipe")
    assert "not a regular file" in refusal(tmp_path / "pipe")
    assert "not a regular file" in refusal("/dev/zero")


def test_oversized(tmp_path, monkeypatch, refusal):
    path = tmp_path / "big.pt"
    path.write_bytes(b"\0" * 101)
    monkeypatch.setattr(tensorfile, "MAX_FILE_BYTES", 100)
    assert "101 bytes" in refusal(path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_unreadable(tmp_path, refusal):
    path = tmp_path / "secret.pt"
    path.write_bytes(b"x")
    path.chmod(0)
    assert "Permission denied" in refusal(path)
    path.chmod(stat.S_IRUSR | stat.S_IWUSR)


def test_open_that_fails_is_one_line(tmp_path, monkeypatch):
    path = tmp_path / "update.pt"
    path.write_bytes(b"x")

    def denied(*_args, **_options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.open", denied)
    with pytest.raises(InputError, match="Permission denied, expected a readable file"):
        sniff(path)


def test_duplicate_members(tmp_path, refusal):
    path = tmp_path / "twice.npz"
    with pytest.warns(UserWarning), zipfile.ZipFile(path, "w") as archive:  # noqa: PT030, PT031
        archive.writestr("a.npy", _npy())
        archive.writestr("a.npy", _npy())
    assert "two members of one name" in refusal(path)


def test_nothing_of_a_strangers_content_is_told(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("Alice Smith 1970-02-03,HIV\n")
    with pytest.raises(InputError) as caught:
        sniff(path)
    assert "Alice" not in str(caught.value)
