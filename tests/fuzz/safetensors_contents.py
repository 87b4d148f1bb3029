"""Safetensors files with a header that lies."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from fuzz.broken import NAMES, NUMBERS, SHAPES, any_of, as_json, changed_json
from fuzz.material import header_of, safetensors_files

SEEDS = safetensors_files()
_DTYPES = st.sampled_from(
    ["F32", "F64", "F16", "BF16", "I64", "U8", "BOOL", "F8_E4M3", "F4", "C64", "f32", "", "F128"]
)


@st.composite
def _entry(draw: DrawFn) -> dict[str, Any]:
    """What the header says of a tensor, with or without regard for the data."""
    if draw(st.booleans()):
        begin = draw(st.sampled_from([0, 4, 8, 12, 24]))
        shape = draw(st.sampled_from([[], [1], [3], [3, 2], [0], [0, 3], [2, 0, 2**40]]))
        size = 4
        for side in shape:
            size *= side
        return {"dtype": "F32", "shape": shape, "data_offsets": [begin, begin + size]}
    offsets = draw(st.lists(NUMBERS, max_size=3))
    return {"dtype": draw(_DTYPES), "shape": draw(SHAPES), "data_offsets": offsets}


@st.composite
def _lying(draw: DrawFn, seeds: tuple[bytes, ...]) -> bytes:
    content = draw(st.sampled_from(seeds))
    size = int.from_bytes(content[:8], "little")
    header: dict[str, Any] = header_of(content)
    for _ in range(draw(st.integers(0, 2))):
        header[draw(NAMES)] = draw(_entry())
    if draw(st.booleans()):
        metadata = header.get("__metadata__", {})
        chosen = draw(st.sampled_from(["step", "noise", "preprocessing", "version", "format"]))
        header["__metadata__"] = {**metadata, chosen: draw(_texts(metadata.get(chosen, "")))}
    changed = draw(st.just(header) | changed_json(header))
    text = as_json(changed)
    if draw(st.integers(0, 5)) == 0:
        text = draw(_ill_written(text))
    declared = len(text)
    if draw(st.integers(0, 9)) == 0:
        declared = draw(NUMBERS) % 2**64
    data = content[8 + size :]
    data = draw(st.sampled_from([data, data, data, data[:-1], data + b"\0" * 8, b"", data * 3]))
    return declared.to_bytes(8, "little") + text + data


def _texts(text: str) -> SearchStrategy[str]:
    """Metadata: JSON within JSON, changed in turn."""
    import json

    try:
        value = json.loads(text)
    except ValueError:
        return NAMES
    inner = changed_json(value).map(lambda new: as_json(new).decode("utf-8", "surrogatepass"))
    return inner | NAMES | st.just("[" * 3_000)


@st.composite
def _ill_written(draw: DrawFn, text: bytes) -> bytes:
    """JSON with a key twice, bytes that are no text, nesting without end, or blanks."""
    kind = draw(st.integers(0, 4))
    if kind == 0:
        inside = text[1:-1]
        return b"{" + inside + b"," + inside + b"}"
    if kind == 1:
        return text.replace(b"fc", draw(st.sampled_from([b"\xff\xfe", b"\xed\xa0\x80", b"\xc3"])))
    if kind == 2:
        return b'{"a":' * 2_000 + text + b"}" * 2_000
    if kind == 3:
        return text + b" " * draw(st.integers(0, 4_000))
    return text.replace(b":", b"::", 1)


def contents(seeds: tuple[bytes, ...] = SEEDS) -> SearchStrategy[bytes]:
    """Files with lying headers, or damaged anywhere."""
    return _lying(seeds) | any_of(seeds)
