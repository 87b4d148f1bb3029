"""NumPy archives with members, headers or a table of contents that lie."""

from __future__ import annotations

import io
import struct
import warnings
import zipfile

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from fuzz.broken import FLOATS, NAMES, NUMBERS, any_of, flipped
from fuzz.material import ATTACKS, npz_files

SEEDS = npz_files()
_METHODS = st.sampled_from(
    [zipfile.ZIP_STORED] * 4 + [zipfile.ZIP_DEFLATED] * 3 + [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]
)
_DESCR = st.sampled_from(
    [
        "'<f4'",
        "'<f8'",
        "'>f4'",
        "'<f2'",
        "'<i8'",
        "'|b1'",
        "'|O'",
        "'|S4'",
        "'<U2'",
        "'|V2'",
        "'|V0'",
        "'<f16'",
        "'<c8'",
        "'<M8[s]'",
        "[('a', '<f4')]",
        "('<f4', (2,))",
        "'<f3'",
        "None",
        "('<f4', (1073741824,))",
        "'f4,f4'",
        "[('a', [('b', '|O')])]",
        "'" + "f" * 99 + "'",
        "1",
    ]
)
_ORDERS = st.sampled_from(["False"] * 4 + ["True"] * 3 + ["None", "2", "'no'"])


def _text(number: int) -> str:
    return str(number) if abs(number) < 10**4_000 else "9" * 5_001


@st.composite
def _shape(draw: DrawFn) -> str:
    kind = draw(st.integers(0, 9))
    if kind < 5:
        return draw(st.sampled_from(["(3, 2)", "(3,)", "()", "(0,)", "(6,)", "(0, 2)"]))
    sides = "".join(f"{_text(side)}," for side in draw(st.lists(NUMBERS, max_size=3)))
    odd = [
        "3",
        "[3, 2]",
        "(True,)",
        "(-3, -2)",
        "(2.0,)",
        "(" * 99 + ")" * 99,
        "(1," * 40 + ")" * 40,
    ]
    return draw(st.sampled_from([f"({sides})", f"({sides})", "(" + "1," * 2_000 + ")", *odd]))


@st.composite
def _header(draw: DrawFn) -> bytes:
    words = {"descr": draw(_DESCR), "fortran_order": draw(_ORDERS), "shape": draw(_shape())}
    if draw(st.integers(0, 9)) == 0:
        words[draw(st.sampled_from(["extra", "descr ", "shape"]))] = "().__class__"
    text = "{" + "".join(f"'{key}': {value}, " for key, value in words.items()) + "}"
    major = draw(st.sampled_from([1] * 6 + [2, 3, 0, 9]))
    encoded = text.encode("latin-1") + b" " * draw(st.integers(0, 70)) + b"\n"
    size = len(encoded) if draw(st.integers(0, 9)) else draw(NUMBERS)
    length = struct.pack("<H", size % 2**16) if major == 1 else struct.pack("<I", size % 2**32)
    return b"\x93NUMPY" + bytes([major, 0]) + length + encoded


@st.composite
def npy(draw: DrawFn) -> bytes:
    """One member: an array whose header may lie, or no array."""
    kind = draw(st.integers(0, 9))
    if kind == 0:
        return draw(st.binary(max_size=60))
    if kind == 1:
        stream = io.BytesIO()
        np.lib.format.write_array(stream, np.array([{}], dtype=object))
        # The same header, and a pickle that does something.
        return stream.getvalue()[:128] + draw(st.sampled_from(ATTACKS))
    if kind == 2:
        stream = io.BytesIO()
        np.save(stream, np.full((3, 2), draw(FLOATS)))
        return draw(flipped(stream.getvalue()))
    size = draw(st.sampled_from([0, 4, 12, 24, 24, 24, 48, 48, 100]))
    return draw(_header()) + b"\0" * size


def _member_names() -> SearchStrategy[str]:
    usual = st.sampled_from(["weights/fc.weight", "gradient/fc.weight", "weights/a", "gradient/a"])
    return st.tuples(usual | NAMES, st.sampled_from([".npy"] * 8 + ["", ".txt"])).map("".join)


@st.composite
def archives(draw: DrawFn) -> bytes:
    """An archive that was built, with the names, methods and members drawn."""
    stream = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(stream, "w") as archive:
        # Two members of one name.
        warnings.simplefilter("ignore")
        for _ in range(draw(st.integers(0, 4))):
            name = draw(_member_names()).encode("utf-8", "replace").decode()[:60_000]
            info = zipfile.ZipInfo(name or "x")
            info.compress_type = draw(_METHODS)
            info.external_attr = draw(st.sampled_from([0, 0, 0xA1FF0000, 0x41FF0010]))
            info.extra = draw(st.sampled_from([b"", b"", b"\x01\0\x08\0" + b"\xff" * 8]))
            archive.writestr(info, draw(npy()))
    content = stream.getvalue()
    return draw(st.just(content) | _lying_table(content))


@st.composite
def _lying_table(draw: DrawFn, content: bytes) -> bytes:
    """A field in the central directory or in the end record is another number."""
    mark = draw(st.sampled_from([b"PK\x01\x02", b"PK\x05\x06", b"PK\x03\x04"]))
    begin = content.rfind(mark)
    if begin < 0:
        return content
    place = begin + draw(st.integers(4, 44))
    size = draw(st.sampled_from([1, 2, 4]))
    number = draw(NUMBERS) % 2 ** (8 * size)
    changed = content[:place] + number.to_bytes(size, "little") + content[place + size :]
    if draw(st.integers(0, 3)) == 0:
        # A directory of 64 bits that nobody asked for.
        locator = b"PK\x06\x07" + struct.pack("<IQI", 0, draw(NUMBERS) % 2**64, 1)
        end = changed.rfind(b"PK\x05\x06")
        changed = changed[:end] + locator + changed[end:]
    return changed


def contents() -> SearchStrategy[bytes]:
    """Archives that lie, or damaged anywhere."""
    return archives() | any_of(SEEDS)
