"""What breaks any file: bytes flipped, cut, doubled, and numbers that computers stumble over."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

# Around the sizes of integers, the ends of Python's and JSON's numbers, and zero.
NUMBERS = st.sampled_from(
    [
        0,
        -1,
        1,
        2,
        3,
        7,
        255,
        256,
        2**15,
        2**16,
        2**31 - 1,
        2**31,
        2**32,
        2**33,
        2**40,
        2**53 + 1,
        2**62,
        2**63 - 1,
        2**63,
        2**64 - 1,
        2**64,
        -(2**31),
        -(2**63),
        10**30,
        10**400,
        10**5000,
    ]
)
FLOATS = st.sampled_from([0.0, -0.0, 1e-320, 1e-30, 0.1, 1.5, 1e38, 1e200, 1e308, -1e308])
# Names: markup, controls, paths, what terminals obey, what cannot be encoded, and length.
NAMES = st.sampled_from(
    [
        "",
        ".",
        "..",
        "../../outside",
        "/etc/passwd",
        "C:\\x",
        "a/b",
        "weights/",
        "/weight",
        "a\x00b",
        "\x1b[31mred",
        "\u202eevil",
        "�",
        "é" * 40,
        "<script>x</script>",
        "{{ 7 * 7 }}",
        "weight",
        "fc.weight",
        "module.fc.weight",
        "weights/fc.weight",
        "gradient/fc.weight",
        "delta/fc.weight",
        "__metadata__",
        "0",
        "arr_0",
        "9" * 30,
        "n" * 999,
        "n" * 5000,
    ]
) | st.text(max_size=12)
SHAPES = st.lists(NUMBERS, max_size=4) | st.sampled_from([[1] * 40, [0, 2**62], [2] * 64])


@st.composite
def flipped(draw: DrawFn, content: bytes) -> bytes:
    """Some bytes changed, and a part left out, doubled or put elsewhere."""
    changed = bytearray(content)
    for _ in range(draw(st.integers(0, 5))):
        place = draw(st.integers(0, max(0, len(changed) - 1)))
        changed[place : place + 1] = bytes([draw(st.integers(0, 255))])
    kind = draw(st.sampled_from(["", "", "cut", "left out", "doubled", "moved", "put in"]))
    if kind and changed:
        begin, end = sorted(draw(st.tuples(*[st.integers(0, len(changed))] * 2)))
        part = changed[begin:end]
        if kind == "cut":
            return bytes(part)
        if kind == "put in":
            part = bytearray(draw(st.binary(max_size=40)))
            end = begin
        rest = changed[:begin] + changed[end:]
        where = draw(st.integers(0, len(rest)))
        copies = {"left out": 0, "doubled": 2, "moved": 1, "put in": 1}[kind]
        changed = rest[:where] + part * copies + rest[where:]
    return bytes(changed)


@st.composite
def number_written_over(draw: DrawFn, content: bytes) -> bytes:
    """One field of 2, 4 or 8 bytes holds another number."""
    size = draw(st.sampled_from([2, 4, 8]))
    if len(content) < size:
        return content
    place = draw(st.integers(0, len(content) - size))
    number = draw(NUMBERS) % 2 ** (8 * size)
    order = draw(st.sampled_from(["little", "big"]))
    return content[:place] + number.to_bytes(size, order) + content[place + size :]


def any_of(seeds: tuple[bytes, ...]) -> SearchStrategy[bytes]:
    """One of the seeds, damaged without an idea of its format."""
    seed = st.sampled_from(seeds)
    return seed.flatmap(flipped) | seed.flatmap(number_written_over)


@st.composite
def changed_json(draw: DrawFn, value: Any) -> Any:
    """A JSON value in which one to three places hold something else, or are gone."""
    for _ in range(draw(st.integers(1, 3))):
        value = _change(draw, value, draw(st.integers(0, 6)))
    return value


STRANGE: SearchStrategy[Any] = st.one_of(
    NUMBERS,
    FLOATS,
    NAMES,
    st.sampled_from([None, True, False, [], {}, [[]], {"a": 1}, [1, 2, 3], float("nan")]),
    st.sampled_from([float("inf"), [None], "1", "nan", [1.5] * 30, {"": {}}, [{}]]),
)


def _change(draw: DrawFn, value: Any, depth: int) -> Any:
    if depth and isinstance(value, dict) and value:
        key = draw(st.sampled_from(sorted(value)))
        changed = dict(value)
        what = draw(st.sampled_from(["deeper"] * 6 + ["drop", "rename", "add"]))
        if what == "deeper":
            changed[key] = _change(draw, value[key], depth - 1)
        elif what == "drop":
            del changed[key]
        elif what == "rename":
            changed[draw(NAMES)] = changed.pop(key)
        else:
            changed[draw(NAMES)] = draw(STRANGE)
        return changed
    if depth and isinstance(value, list) and value:
        place = draw(st.integers(0, len(value) - 1))
        what = draw(st.sampled_from(["deeper"] * 6 + ["drop", "double"]))
        if what == "deeper":
            return [*value[:place], _change(draw, value[place], depth - 1), *value[place + 1 :]]
        copies = 2 if what == "double" else 0
        return value[:place] + value[place : place + 1] * copies + value[place + 1 :]
    return draw(STRANGE)


_HUGE = "a whole number of many digits"


def as_json(value: Any) -> bytes:
    """Like `json.dumps`, with whole numbers of any length and with lone surrogates as they are."""
    text = json.dumps(_marked(value), ensure_ascii=False)
    text = text.replace(f'"{_HUGE}"', "9" * 5_001)
    return text.encode("utf-8", errors="surrogatepass")


def _marked(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _marked(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_marked(item) for item in value]
    # Python writes no number of more digits than this, and reads none either.
    return _HUGE if isinstance(value, int) and abs(value) >= 10**4_300 else value
