"""Every way into the package for somebody else's bytes."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from fuzz import npz_contents, safetensors_contents, torch_contents
from fuzz.attempt import Reader
from fuzz.broken import any_of, as_json, changed_json
from fuzz.material import (
    FLAT,
    PICTURE,
    TABLE,
    data_npz_files,
    image_files,
    npz_files,
    safetensors_files,
    torch_files,
    truth_files,
)
from fuzz.text_contents import (
    CSV,
    DEFENSES,
    MANIFESTS,
    MODELS,
    SOURCES,
    csv_contents,
    json_contents,
    manifest_contents,
    result_files,
    row_file,
    rows_file,
    store_file,
)
from gradaudit.bulk.folder import Folder
from gradaudit.bulk.manifest import read_manifest
from gradaudit.capture import load_update
from gradaudit.data import csv_table, image_folder, load_source, npz_file
from gradaudit.defending import Run
from gradaudit.defending.setting import Setting, expand
from gradaudit.defending.store import Store
from gradaudit.defenses import parse_defense
from gradaudit.errors import InputError
from gradaudit.experiments.rows import Rows
from gradaudit.experiments.scale import Scale
from gradaudit.models import parse_model_on
from gradaudit.preprocessing import Preprocessing
from gradaudit.rerunning.again import budget_of, request_of
from gradaudit.result import AuditResult
from gradaudit.truth import Truth
from gradaudit.update.steps import step_from_text

WEIGHTS_ALONE = safetensors_files()[3]
RESULTS = result_files()
PREPROCESSINGS = tuple(as_json(each.to_json()) for each in (PICTURE, TABLE))


def _file(read: Callable[[Path], Any], name: str = "file") -> Callable[[bytes, Path], Any]:
    """A reader of a path, given bytes."""

    def write_and_read(content: bytes, folder: Path) -> Any:
        (folder / name).write_bytes(content)
        return read(folder / name)

    return write_and_read


def _pair(content: bytes, folder: Path) -> object:
    (folder / "weights").write_bytes(WEIGHTS_ALONE)
    (folder / "update").write_bytes(content)
    contains = ("auto", "gradient", "delta", "weights_after")[len(content) % 4]
    return load_update(folder / "update", folder / "weights", contains=contains)  # type: ignore[arg-type]


def _weights(content: bytes, folder: Path) -> object:
    (folder / "weights").write_bytes(content)
    (folder / "update").write_bytes(npz_files()[3])
    return load_update(folder / "update", folder / "weights", learning_rate=0.1)


def _result(content: bytes, folder: Path) -> object:
    (folder / "r.json").write_bytes(content)
    digests = [hashlib.sha256(arrays).hexdigest().encode() in content for _, arrays in RESULTS]
    (folder / "r.safetensors").write_bytes(RESULTS[digests.index(True) if any(digests) else 0][1])
    result = AuditResult.load(folder / "r.json")
    # As `gradaudit rerun` goes on.
    request = request_of(result, folder / "r.json")
    return result.summary(), budget_of(request), step_from_text(request.capture.step, "step")


def _result_arrays(content: bytes, folder: Path) -> object:
    """The arrays are another file, whose digest the JSON knows."""
    value = json.loads(RESULTS[0][0])
    value["arrays"]["sha256"] = hashlib.sha256(content).hexdigest()
    (folder / "r.json").write_text(json.dumps(value))
    (folder / "r.safetensors").write_bytes(content)
    return AuditResult.load(folder / "r.json").summary()


def _stored(content: bytes, folder: Path) -> object:
    store = Store(folder)
    place = store._path({})
    assert place is not None
    place.parent.mkdir(exist_ok=True)
    place.write_bytes(content)
    return store.read(Run, {})


def _rows(path: Path) -> object:
    rows = Rows(path, Scale())
    return rows.rows, rows.seconds, rows.environments, rows._csv()


def _manifest(content: bytes, folder: Path) -> object:
    end = "json" if content[:1] in b"[{" else "csv"
    return _file(read_manifest, f"manifest.{end}")(content, folder)


def _finished(content: bytes, folder: Path) -> object:
    for name in ("rows", "results"):
        (folder / name).mkdir(exist_ok=True)
    (folder / "rows" / "u.json").write_bytes(content)
    (folder / "results" / "u.json").write_bytes(b"1")
    # Whatever it holds is taken for not finished.
    row = Folder(folder).finished("u", lambda: "k")
    if row is None:
        raise InputError("rows/u.json", "no row", "a finished result's")
    return row.name


def _images(content: bytes, folder: Path) -> object:
    (folder / "class").mkdir(exist_ok=True)
    return _file(lambda path: image_folder(folder), "class/picture.png")(content, folder).batch(1)


def _table(content: bytes, folder: Path) -> object:
    end = ".gz" if content[:2] == b"\x1f\x8b" else ""
    return _file(csv_table, f"table.csv{end}")(content, folder).batch(1)


def _text(read: Callable[[str], Any]) -> Callable[[bytes, Path], Any]:
    return lambda content, folder: read(content.decode("utf-8", errors="surrogateescape"))


def _model(text: str) -> object:
    name = text.strip().partition("?")[0]
    if ":" in name and not name.startswith("mlp:"):
        return None
    # Numbers of a size that is built in a moment; larger ones are refused or built, by their size.
    return parse_model_on(text, (3, 8, 8), seed=0)


def _defense(text: str) -> object:
    alternatives = [Setting(2, width=3, defenses=each) for each in expand(text)]
    return alternatives, parse_defense(text)


def _flower(content: bytes, folder: Path) -> object:
    from flwr.common import Parameters

    from gradaudit.flower.arrays import tensors_of

    return tensors_of("sent", Parameters([content], "numpy.ndarray"))


def _npy() -> bytes:
    import numpy as np

    stream = io.BytesIO()
    np.save(stream, FLAT["weights/fc.weight"].numpy())
    return stream.getvalue()


def _data_npz() -> Reader:
    seeds = data_npz_files()
    contents = npz_contents.archives() | any_of(seeds)
    return Reader("npz_file", _file(lambda p: npz_file(p).batch(1)), contents, seeds)


def readers() -> dict[str, Reader]:
    """All of them, by name."""
    update = _file(load_update)
    whole = (*safetensors_files(), *npz_files(), *torch_files())
    any_format = (
        safetensors_contents.contents() | npz_contents.contents() | torch_contents.contents()
    )
    texts = tuple(json_text for json_text, _ in RESULTS)
    arrays = tuple(file for _, file in RESULTS)
    listed = [
        Reader("update, safetensors", update, safetensors_contents.contents(), safetensors_files()),
        Reader("update, npz", update, npz_contents.contents(), npz_files()),
        Reader("update, torch", update, torch_contents.contents(), torch_files()),
        Reader("update beside weights", _pair, any_format, whole),
        Reader("weights beside update", _weights, any_format, whole),
        Reader("result", _result, json_contents(texts), texts),
        Reader("result's arrays", _result_arrays, safetensors_contents.contents(arrays), arrays),
        Reader(
            "truth",
            _file(Truth.load),
            safetensors_contents.contents(truth_files()),
            truth_files(),
        ),
        Reader("experiment's rows", _file(_rows), json_contents((rows_file(),)), (rows_file(),)),
        Reader("defence's store", _stored, json_contents((store_file(),)), (store_file(),)),
        Reader(
            "preprocessing",
            _text(Preprocessing.from_json),
            st.sampled_from([json.loads(each) for each in PREPROCESSINGS])
            .flatmap(changed_json)
            .map(as_json),
            PREPROCESSINGS,
        ),
        Reader("manifest", _manifest, manifest_contents(), MANIFESTS),
        Reader("finished row", _finished, json_contents((row_file(),)), (row_file(),)),
        _data_npz(),
        Reader("csv_table", _table, csv_contents(), CSV),
        Reader("image_folder", _images, any_of(image_files()), image_files()),
        Reader("model's text", _text(_model), MODELS, (b"mlp:4-3-2?activation=tanh", b"lenet")),
        Reader("source's text", _text(load_source), SOURCES, (b"patches?size=8", b"digits")),
        Reader("defence's text", _text(_defense), DEFENSES, (b"prune:share=0.5", b"sign")),
    ]
    try:
        import flwr  # noqa: F401
    except ImportError:
        pass
    else:
        listed.append(Reader("Flower's array", _flower, npz_contents.npy(), (_npy(),)))
    return {each.name: each for each in listed}
