"""What is read as text: JSON results, tables, and choices on a command line."""

from __future__ import annotations

import gzip
import hashlib
import json
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from defending.material import make_run
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy
from report.material import recovered, table

from fuzz.broken import NAMES, any_of, as_json, changed_json, flipped
from gradaudit.bulk.folder import SCHEMA as ROW_SCHEMA
from gradaudit.bulk.folder import SCHEMA_VERSION as ROW_SCHEMA_VERSION
from gradaudit.bulk.manifest import COLUMNS
from gradaudit.bulk.row import Row
from gradaudit.experiments.rows import Rows
from gradaudit.experiments.scale import Scale
from gradaudit.result.file import plain
from gradaudit.result.request import (
    CapturedFile,
    CaptureRequest,
    KnowledgeRequest,
    ModelRequest,
    Request,
)
from gradaudit.update import GradientStep
from gradaudit.update.steps import step_to_text


def _request() -> Request:
    file = CapturedFile("u.pt", "0" * 64)
    capture = CaptureRequest(file, None, "auto", step_to_text(GradientStep(0.1)), 0.1, None)
    model = ModelRequest("mlp:4-3-2", "mlp", "0" * 64)
    knowledge = KnowledgeRequest(2, (0, 1), (3, 2, 2))
    budget = (30.0, 1_000, 2**30)
    return Request("auto", "fc", "mse", 0, "cpu", *budget, False, model, knowledge, None, capture)


def result_files() -> tuple[tuple[bytes, bytes], ...]:
    """Results' JSON, each with its arrays."""
    files = []
    for result in (recovered(2, request=_request()), table(2)):
        with tempfile.TemporaryDirectory() as folder:
            result.save(Path(folder) / "r.json")
            parts = [(Path(folder) / f"r.{end}").read_bytes() for end in ("json", "safetensors")]
        files.append((parts[0], parts[1]))
    return tuple(files)


def rows_file() -> bytes:
    """An experiment's rows, as they are kept."""
    with tempfile.TemporaryDirectory() as folder:
        rows = Rows(Path(folder) / "x.json", Scale())
        rows.add({"n": 1}, [{"n": 1, "square": 1}], seconds=0.5, environment={"torch": "2"})
        return (Path(folder) / "x.json").read_bytes()


def store_file() -> bytes:
    """One run of a grid of defences, as it is kept."""
    return json.dumps(plain({"of": {}, "result": asdict(make_run(2, 1))})).encode()


def row_file() -> bytes:
    """What ties a finished result to its update."""
    value = {
        "schema": ROW_SCHEMA,
        "schema_version": ROW_SCHEMA_VERSION,
        "key": "k",
        "files": {"u.json": hashlib.sha256(b"1").hexdigest()},
        "row": asdict(Row("u", "partial", records_recovered=1, result="results/u.json")),
    }
    return json.dumps(value).encode()


def json_contents(seeds: tuple[bytes, ...]) -> SearchStrategy[bytes]:
    """JSON with other values in it, or damaged as text."""
    values: list[Any] = [json.loads(seed) for seed in seeds]
    changed = st.sampled_from(values).flatmap(changed_json).map(as_json)
    return changed | changed | changed.flatmap(flipped) | any_of(seeds) | st.just(b"[" * 100_000)


CSV = (
    b"age,job,class\n1,a,x\n2,b,y\n",
    b'a,b\n"1,2",x\n3,y\n',
    b"x,y\n" + b"1,2\n" * 50,
    gzip.compress(b"age,job,class\n1,a,x\n2,b,y\n", mtime=0),
)


@st.composite
def _table(draw: DrawFn) -> bytes:
    cells = st.sampled_from(
        [
            "1",
            "-2.5",
            "1e999",
            "nan",
            "",
            "?",
            "a",
            '"',
            '"a,b"',
            '"\n"',
            "\x00",
            "\ufeff",
            "9" * 400,
            "inf",
            "\uff11",
            "1_0",
            "0x1",
            "\u202e",
            "\r",
            "é",
            " 1 ",
            "<b>",
        ]
    )
    columns = draw(st.integers(1, 3))
    lines = [draw(st.lists(cells, min_size=columns, max_size=columns)) for _ in range(4)]
    if draw(st.integers(0, 3)) == 0:
        lines[draw(st.integers(0, 3))] = draw(st.lists(cells, max_size=4))
    encoding = draw(st.sampled_from(["utf-8"] * 4 + ["utf-16", "utf-8-sig"]))
    content = "\n".join(",".join(line) for line in lines).encode(encoding, "replace")
    return gzip.compress(content, mtime=0) if draw(st.integers(0, 3)) == 0 else content


def csv_contents() -> SearchStrategy[bytes]:
    """Tables, plain and gzipped."""
    return _table() | any_of(CSV)


_VALUES = st.sampled_from(
    [
        "0",
        "1",
        "-1",
        "3",
        "0.5",
        "1e-400",
        "1e400",
        "nan",
        "inf",
        "9" * 30,
        "9" * 400,
        "9" * 5000,
        "1e5",
        "٣",
        "²",
        "true",
        "no",
        "0x10",
        "1_0",
        " 1",
        "%00",
        "%ff",
        "none",
        "1/2",
        "",
        "3,16,16",
        "normal",
        "tanh",
        "leaky_relu",
        "float64",
        "train",
        "tensor",
        "unit",
        "tab",
    ]
)


def _choices(
    names: list[str], keys: list[str], opening: str, between: str
) -> SearchStrategy[bytes]:
    """A name with options, in order, or the same words and signs in any order."""
    name, key = st.sampled_from(names), st.sampled_from(keys)
    option = st.tuples(key, _VALUES | NAMES).map("=".join)
    options = st.lists(option, max_size=3).map(between.join)
    ordered = st.tuples(name, options).map(opening.join)
    signs = st.sampled_from([opening, between, "=", "-", "/", "?", "&", ",", "+", "."])
    jumbled = st.lists(st.one_of(name, key, _VALUES, NAMES, signs), max_size=8).map("".join)
    return st.one_of(ordered, ordered, jumbled).map(
        lambda text: text.encode("utf-8", errors="surrogatepass")
    )


MANIFESTS = (
    b"update,weights,noise,local_epochs\na.pt,w.pt,0.1,2\nb/c.pt,,,\n",
    b'[{"update": "a.pt", "noise": 0.1, "weights": null}, {"update": "b.pt", "momentum": 0.9}]',
)


@st.composite
def _manifest_table(draw: DrawFn) -> bytes:
    cells = st.sampled_from(["a.pt", "../a.pt", "/etc/passwd", "", "0.1", "1e400", "nan", "2", '"'])
    columns = draw(st.lists(st.sampled_from(COLUMNS), min_size=1, max_size=4))
    lines = [columns, *draw(st.lists(st.lists(cells | NAMES, max_size=4), max_size=3))]
    return "\n".join(",".join(line) for line in lines).encode("utf-8", "surrogatepass")


def manifest_contents() -> SearchStrategy[bytes]:
    """Manifests of updates, as CSV and as JSON."""
    return _manifest_table() | any_of(MANIFESTS) | json_contents(MANIFESTS[1:])


# A colon after anything but "mlp" imports that module, which is what it is for.
MODELS = _choices(
    [
        "mlp:4-3-2",
        "mlp:12-0",
        "mlp:9999999999-9999999999",
        "mlp:",
        "mlp:-",
        "lenet",
        "cnn6_d",
        "mlp:" + "9" * 5000 + "-2",
        "mlp:1-1-1-1-1-1",
    ],
    [
        "activation",
        "bias",
        "init",
        "init_std",
        "dtype",
        "num_classes",
        "input_shape",
        "hidden",
        "width",
        "normalisation",
        "halving",
        "without_skip",
    ],
    "?",
    "&",
)
SOURCES = _choices(
    ["patches", "digits", "torchvision:CIFAR10", "torchvision:", "nothing.npz", "nothing.csv", "/"],
    [
        "size",
        "split",
        "channels",
        "normalise",
        "limit",
        "contrast",
        "root",
        "label_column",
        "drop",
        "delimiter",
        "categorical",
    ],
    "?",
    "&",
)
DEFENSES = _choices(
    [
        "none",
        "clip-per-record",
        "dp-sgd",
        "clip-update",
        "gaussian-noise",
        "prune",
        "sign",
        "quantise",
        "mask",
        "secure-aggregation",
    ],
    [
        "norm",
        "clip",
        "noise_multiplier",
        "expected_batch_size",
        "std",
        "share",
        "per",
        "bits",
        "stochastic",
        "rescale",
        "n",
        "s",
        "seed",
        "c",
    ],
    ":",
    ",",
)
