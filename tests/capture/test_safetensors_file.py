from __future__ import annotations

import json
import struct

import pytest
import torch
from safetensors.torch import save_file

from gradaudit import tensorfile
from gradaudit.capture.safetensors_file import read_safetensors
from gradaudit.errors import InputError


def _file(path, header: object, data: bytes = b"", declared: int | None = None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    size = len(text) if declared is None else declared
    path.write_bytes(struct.pack("<Q", size) + text + data)
    return path


def _tensor(begin: int, end: int, shape: list[int], dtype: str = "F32") -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


@pytest.mark.parametrize(
    ("header", "data", "declared"),
    [
        ({"a": _tensor(0, 4, [1])}, b"\0" * 4, 2**62),
        ({"a": _tensor(0, 4, [1])}, b"\0" * 4, 2**32),
        ({"a": _tensor(0, 4, [1])}, b"", None),
        ({"a": _tensor(-4, 0, [1])}, b"\0" * 4, None),
        ({"a": _tensor(0, 4, [1]), "b": _tensor(0, 4, [1])}, b"\0" * 4, None),
        ({"a": _tensor(0, 4, [2**40, 2**40])}, b"\0" * 4, None),
        ({"a": _tensor(0, 4, [-1])}, b"\0" * 4, None),
        ({"a": _tensor(0, 4, [1], "F128")}, b"\0" * 4, None),
        (b'{"a":' + b"[" * 50_000, b"", None),
        (b'{"\xff": 1}', b"", None),
    ],
)
def test_hostile_headers(tmp_path, refusal, header, data, declared):
    path = _file(tmp_path / "bad.safetensors", header, data, declared)
    assert "unreadable" in refusal(path) or "damaged" in refusal(path)


def test_order_is_known_to_be_lost(tmp_path):
    save_file({"z": torch.ones(1), "a": torch.ones(2)}, tmp_path / "u")
    contents = read_safetensors(tmp_path / "u")
    assert not contents.keeps_order
    assert isinstance(contents.entries, dict)
    assert set(contents.entries) == {"a", "z"}


def test_eight_bit_floats_are_refused_by_name(tmp_path, refusal):
    narrow = torch.ones(2).to(torch.float8_e4m3fn)
    save_file({"weights/a": torch.ones(2), "gradient/a": narrow}, tmp_path / "u")
    assert "float8_e4m3fn" in refusal(tmp_path / "u")


def test_four_bit_floats_are_refused_by_name(tmp_path, refusal):
    header = {"weights/a": _tensor(0, 4, [8], "F4"), "gradient/a": _tensor(4, 8, [8], "F4")}
    assert "float4" in refusal(_file(tmp_path / "u", header, b"\0" * 8))


def test_headers_and_tensors_without_end(tmp_path, refusal, monkeypatch):
    empty = {str(i): _tensor(0, 0, [0]) for i in range(11)}
    path = _file(tmp_path / "u", empty)
    monkeypatch.setattr(tensorfile, "MAX_TENSORS", 10)
    assert "11 tensors" in refusal(path)
    monkeypatch.setattr(tensorfile, "MAX_HEADER_BYTES", 100)
    _file(tmp_path / "u", empty, b"\0")
    assert "a safetensors header of" in refusal(path)


def test_missing(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        read_safetensors(tmp_path / "none")
