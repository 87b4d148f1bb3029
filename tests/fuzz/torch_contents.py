"""Archives of `torch.save` whose pickle or whose storages lie."""

from __future__ import annotations

import io
import pickletools
import struct
import warnings
import zipfile

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from fuzz.broken import NAMES, NUMBERS, any_of
from fuzz.material import ATTACKS, torch_files

SEEDS = torch_files()
_GLOBALS = st.sampled_from(
    [
        "collections OrderedDict",
        "torch._utils _rebuild_tensor_v2",
        "torch._utils _rebuild_tensor",
        "torch._utils _rebuild_parameter",
        "torch._utils _rebuild_tensor_v3",
        "torch FloatStorage",
        "torch.storage UntypedStorage",
        "torch.storage TypedStorage",
        "torch float32",
        "torch Size",
        "torch DoubleStorage",
        "torch BFloat16Storage",
        "torch ComplexFloatStorage",
        "torch uint8",
        "os system",
        "builtins eval",
        "torch._utils _rebuild_sparse_tensor",
        "torch.nn Linear",
        "torch.storage _load_from_bytes",
        "torch FakeStorage",
        "torch load",
        "torch quint8",
        "torch float8_e4m3fn",
        "torch._utils _rebuild_meta_tensor_no_storage",
        "numpy ndarray",
    ]
)


def _int(number: int) -> bytes:
    if 0 <= number < 256:
        return b"K" + bytes([number])
    if -(2**31) <= number < 2**31:
        return b"J" + struct.pack("<i", number)
    size = number.bit_length() // 8 + 1
    data = number.to_bytes(size, "little", signed=True)
    head = b"\x8a" + bytes([size]) if size < 256 else b"\x8b" + struct.pack("<i", size)
    return head + data


def _text(text: str) -> bytes:
    data = text.encode("utf-8", errors="surrogatepass")
    return b"X" + struct.pack("<I", len(data)) + data


def _global(name: str) -> bytes:
    return b"c" + name.replace(" ", "\n").encode() + b"\n"


def _tuple(parts: list[bytes]) -> bytes:
    return b"(" + b"".join(parts) + b"t"


@st.composite
def _storage(draw: DrawFn) -> bytes:
    kind = draw(_GLOBALS) if draw(st.integers(0, 4)) == 0 else "torch FloatStorage"
    key = draw(st.sampled_from(["0", "0", "0", "1", "2", "../0", ""]))
    place = draw(st.sampled_from(["cpu"] * 6 + ["cuda:0", "meta", "mps", "", "cpu:9"]))
    number = draw(st.sampled_from([6, 6, 6, 3, 1, 0]) | NUMBERS)
    parts = [_text("storage"), _global(kind), _text(key), _text(place), _int(number)]
    return _tuple(parts) + b"Q"


@st.composite
def _tensor(draw: DrawFn) -> bytes:
    """A call that makes a tensor of a storage, with sides and strides that need not fit."""
    small = st.lists(st.sampled_from([0, 1, 2, 3]), max_size=3)
    wild = st.lists(NUMBERS, max_size=3)
    sides = draw(small | wild)
    strides = draw(st.just([1] * len(sides)) | small | wild)
    offset = draw(st.just(0) | NUMBERS)
    call = draw(
        st.sampled_from(["_rebuild_tensor_v2"] * 4 + ["_rebuild_tensor", "_rebuild_tensor_v3"])
    )
    parts = [draw(_storage()), _int(offset), _tuple([_int(n) for n in sides])]
    parts += [_tuple([_int(n) for n in strides])]
    if call != "_rebuild_tensor":
        parts += [draw(st.sampled_from([b"\x89", b"\x88", b"N", b"K\x05"])), b"}"]
    if call == "_rebuild_tensor_v3":
        parts += [_global(draw(_GLOBALS))]
    return _global(f"torch._utils {call}") + _tuple(parts) + b"R"


@st.composite
def _object(draw: DrawFn, depth: int = 2) -> bytes:
    kind = draw(st.integers(0, 11))
    if kind < 6 or not depth:
        return draw(_tensor())
    if kind == 6:
        return _global(draw(_GLOBALS)) + _tuple([_int(draw(NUMBERS))]) + b"R"
    if kind == 7:
        return draw(st.sampled_from([b"N", b"\x88", _text("x"), b"]", b"}", _int(10**300), b")"]))
    if kind == 8:
        # State that is put on what was built before.
        return draw(_object(depth - 1)) + draw(_object(depth - 1)) + b"b"
    if kind == 9:
        return _global(draw(_GLOBALS)) + draw(st.sampled_from([b")", b"(K\x05t"])) + b"\x81"
    inner = b"".join(_text(draw(NAMES)) + draw(_object(depth - 1)) for _ in range(2))
    return b"}(" + inner + b"u"


@st.composite
def _built(draw: DrawFn) -> bytes:
    named = [("weights", "fc.weight"), ("gradient", "fc.weight")]
    groups = b"".join(
        _text(group) + b"}" + _text(name) + draw(_object()) + b"s" for group, name in named
    )
    return b"\x80\x02}(" + groups + b"u."


@st.composite
def _instructions(draw: DrawFn, pickle: bytes) -> bytes:
    """A pickle with instructions left out, doubled, exchanged, or put in."""
    places = [place for _, _, place in pickletools.genops(pickle)]
    parts = [pickle[a:b] for a, b in zip(places, [*places[1:], len(pickle)], strict=True)]
    odd = (
        st.sampled_from(
            [
                b"N",
                b"(",
                b"t",
                b"R",
                b"b",
                b"\x81",
                b"}",
                b"]",
                b"s",
                b"u",
                b"a",
                b"e",
                b"Q",
                b"0",
                b".",
                b"q\xff",
                b"r\xff\xff\xff\xff",
                b"h\xff",
                b"j\xff\xff\xff\x7f",
                b"\x80\x05",
                b"\x85",
                b"2",
                b"T\xff\xff\xff\x7f",
                b"X\xff\xff\xff\xff",
                b"\x8b\xff\xff\xff\x7f",
                b"G" + b"\xff" * 8,
            ]
        )
        | NUMBERS.filter(lambda n: n.bit_length() < 9_000).map(_int)
        | _GLOBALS.map(_global)
    )
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, len(parts) - 1))
        what = draw(st.integers(0, 3))
        if what == 0:
            parts[place] = b""
        elif what == 1:
            parts.insert(place, parts[place])
        elif what == 2:
            other = draw(st.integers(0, len(parts) - 1))
            parts[place], parts[other] = parts[other], parts[place]
        else:
            parts.insert(place, draw(odd))
    return b"".join(parts)


@st.composite
def _archive(draw: DrawFn) -> bytes:
    """An archive with its members copied, but for a pickle and, maybe, a storage."""
    with zipfile.ZipFile(io.BytesIO(draw(st.sampled_from(SEEDS)))) as good:
        members = {name: good.read(name) for name in good.namelist()}
    pickle = next(name for name in members if name.endswith("data.pkl"))
    attack = st.sampled_from(ATTACKS)
    members[pickle] = draw(_built() | _instructions(members[pickle]) | attack)
    stored = [name for name in members if "/data/" in name]
    if stored and draw(st.integers(0, 3)) == 0:
        data = members[draw(st.sampled_from(stored))]
        changed = draw(st.sampled_from([b"", data[:-1], data * 3, b"\xff" * len(data)]))
        members[draw(st.sampled_from(stored))] = changed
    if draw(st.integers(0, 7)) == 0:
        folder = pickle.rpartition("/")[0]
        extra = draw(
            st.sampled_from(["other/data.pkl", f"{folder}/byteorder", f"{folder}/version"])
        )
        members[extra] = draw(st.sampled_from([*ATTACKS, b"big", b"little", b"9" * 40, b""]))
    method = zipfile.ZIP_DEFLATED if draw(st.integers(0, 15)) == 0 else zipfile.ZIP_STORED
    stream = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(stream, "w", method) as bad:
        warnings.simplefilter("ignore")
        for name, data in members.items():
            bad.writestr(name, data)
    return stream.getvalue()


def contents() -> SearchStrategy[bytes]:
    """Archives that lie, or damaged anywhere, and bare pickles."""
    return _archive() | _archive() | any_of(SEEDS) | st.sampled_from(ATTACKS)
