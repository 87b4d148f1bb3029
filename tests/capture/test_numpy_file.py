from __future__ import annotations

import io
import zipfile

import numpy as np
import pytest
import torch

from gradaudit import tensorfile
from gradaudit.capture import load_update
from gradaudit.capture.numpy_file import read_numpy
from gradaudit.errors import InputError


def _entries(path):
    entries = read_numpy(path).entries
    assert isinstance(entries, dict)
    return entries


def _npy(array: np.ndarray, **options: object) -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array, **options)  # type: ignore[arg-type]
    return stream.getvalue()


def _header(shape: tuple[int, ...], descr: str = "<f4", data: bytes = b"") -> bytes:
    stream = io.BytesIO()
    header = {"descr": descr, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, header)
    return stream.getvalue() + data


def _archive(path, members: dict[str, bytes], compression: int = zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


@pytest.mark.parametrize("compressed", [False, True])
def test_orders_and_byte_orders(tmp_path, compressed):
    plain = np.arange(6, dtype=np.float32).reshape(2, 3) / 7
    arrays = {
        "c": plain,
        "fortran": np.asfortranarray(plain),
        "big": plain.astype(">f4"),
        "big_fortran": np.asfortranarray(plain.astype(">f4")),
        "double": plain.astype(">f8"),
        "half": plain.astype(np.float16),
        "scalar": np.float32(3),
        "counter": np.array(7, dtype=">i8"),
        "empty": np.zeros((0, 3), dtype=np.float32),
    }
    (np.savez_compressed if compressed else np.savez)(tmp_path / "u.npz", **arrays)
    read = _entries(tmp_path / "u.npz")
    assert list(read) == list(arrays)
    for name, array in arrays.items():
        assert read[name].shape == array.shape
        assert np.array_equal(read[name].numpy(), array)
        assert read[name].is_contiguous()


def test_version_two_of_the_array_format(tmp_path):
    path = _archive(tmp_path / "u.npz", {"a.npy": _npy(np.ones(3), version=(2, 0))})
    assert torch.equal(_entries(path)["a"], torch.ones(3, dtype=torch.float64))


@pytest.mark.parametrize(
    ("array", "said"),
    [
        (np.array([{"a": 1}], dtype=object), "an object array"),
        (np.array(["text"]), "an array of <U4"),
        (np.zeros(2, dtype="V2"), "bfloat16"),
        (np.zeros(2, dtype=np.longdouble), "an array of float128"),
        (np.zeros(2, dtype="datetime64[s]"), "datetime64"),
        (np.zeros(2, dtype=[("a", "f4")]), "an array of"),
    ],
)
def test_arrays_that_are_no_numbers(tmp_path, refusal, array, said):
    if array.dtype == np.float64:
        pytest.skip("long double is double on this platform")
    np.savez(tmp_path / "u.npz", a=array)
    assert said in refusal(tmp_path / "u.npz")


def test_nested_mappings_say_how_to_save(tmp_path, refusal):
    np.savez(tmp_path / "u.npz", weights={"a": np.ones(2)}, gradient={"a": np.ones(2)})
    assert "'gradient/fc.weight'" in refusal(tmp_path / "u.npz")


@pytest.mark.parametrize("shape", [(2**40, 2**20), (2**62, 4), (-1,), (3,), (1, 0), (10**30,)])
def test_declared_shapes_are_compared_with_what_is_held(tmp_path, refusal, shape):
    path = _archive(tmp_path / "u.npz", {"a.npy": _header(shape, data=b"\0" * 8)})
    assert "8 bytes of data" in refusal(path)


def test_zip_bomb(tmp_path, refusal):
    path = tmp_path / "bomb.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for i in range(3):
            with archive.open(f"{i}.npy", "w", force_zip64=True) as stream:
                stream.write(_header((100 * 2**18,)))
                for _ in range(100):
                    stream.write(b"\0" * 2**20)
    assert path.stat().st_size < 2**20
    assert "declared bytes in a file of" in refusal(path)


def test_other_compressions(tmp_path, refusal):
    path = _archive(tmp_path / "u.npz", {"a.npy": _npy(np.ones(9))}, zipfile.ZIP_LZMA)
    assert "unusual compression" in refusal(path)


def test_traversal_in_names_is_only_a_name(tmp_path, refusal):
    folder = tmp_path / "inner"
    folder.mkdir()
    path = _archive(folder / "u.npz", {"../outside.npy": _npy(np.ones(2))})
    assert set(_entries(path)) == {"../outside"}
    refusal(path)
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["inner", "u.npz"]


def test_encrypted_and_damaged(tmp_path, refusal):
    path = _archive(tmp_path / "u.npz", {"a.npy": _npy(np.ones(2))})
    content = bytearray(path.read_bytes())
    data = content.find(b"\x93NUMPY") + 130
    content[data] ^= 1
    path.write_bytes(content)
    assert "CRC" in refusal(path)
    content[data] ^= 1
    for offset in (content.find(b"PK\x03\x04") + 6, content.find(b"PK\x01\x02") + 8):
        content[offset] |= 1
    path.write_bytes(content)
    assert "encrypted" in refusal(path)


def test_members_without_end_and_names_twice(tmp_path, refusal, monkeypatch):
    monkeypatch.setattr(tensorfile, "MAX_TENSORS", 10)
    path = _archive(tmp_path / "u.npz", {f"{i}.npy": b"" for i in range(11)})
    assert "11 tensors" in refusal(path)
    _archive(path, {"a.npy": _npy(np.ones(2)), "a": _npy(np.ones(2))})
    with pytest.raises(InputError, match="two arrays of one name"):
        read_numpy(path)


def test_missing(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        read_numpy(tmp_path / "none")


def test_half_precision_is_accepted(tmp_path, weights, gradient):
    named = {f"weights/{k}": t.half().numpy() for k, t in weights.items()}
    named |= {f"gradient/{k}": t.half().numpy() for k, t in gradient.items()}
    np.savez(tmp_path / "u.npz", **named)
    update = load_update(tmp_path / "u.npz")
    assert update.observed["fc1.weight"].dtype == torch.float16
