"""What is no file, or not there, or somewhere else: never waited for, never followed into harm."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fuzz.material import data_npz_files, image_files, safetensors_files, truth_files
from fuzz.text_contents import CSV, rows_file, store_file
from gradaudit.capture import load_update
from gradaudit.data import csv_table, image_folder, load_source, npz_file
from gradaudit.defending import Run
from gradaudit.defending.store import Store
from gradaudit.errors import InputError
from gradaudit.experiments.rows import Rows
from gradaudit.experiments.scale import Scale
from gradaudit.result import AuditResult
from gradaudit.truth import Truth

pytestmark = pytest.mark.skipif(os.name != "posix", reason="files of this kind are those of POSIX")

# By name: what reads a path, and a content that it reads.
READERS: dict[str, tuple[Callable[[Path], Any], bytes]] = {
    "update": (load_update, safetensors_files()[0]),
    "result": (AuditResult.load, b""),
    "truth": (Truth.load, truth_files()[0]),
    "rows": (lambda path: Rows(path, Scale()), rows_file()),
    "npz": (npz_file, data_npz_files()[0]),
    "csv": (csv_table, CSV[0]),
    "npz source": (lambda path: load_source(f"{path}.npz"), data_npz_files()[0]),
}


@pytest.fixture(autouse=True)
def _no_waiting() -> Iterator[None]:
    """Whatever waits for a pipe is woken up, and fails."""

    def wake(number: int, frame: object) -> None:
        raise TimeoutError("it waits")

    before = signal.signal(signal.SIGALRM, wake)
    signal.alarm(20)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def _place(folder: Path, name: str) -> Path:
    return folder / ("file.npz" if name == "npz source" else "file")


def _read(folder: Path, name: str) -> Any:
    return READERS[name][0](folder / "file")


def _refused(folder: Path, name: str) -> str:
    with pytest.raises(InputError) as caught:
        _read(folder, name)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("name", READERS)
def test_pipes_devices_and_folders(name, tmp_path):
    place = _place(tmp_path, name)
    os.mkfifo(place)
    assert "not a regular file" in _refused(tmp_path, name)
    place.unlink()
    for device in ("/dev/zero", "/dev/null", "/dev/tty"):
        place.symlink_to(device)
        _refused(tmp_path, name)
        place.unlink()
    place.mkdir()
    _refused(tmp_path, name)


@pytest.mark.parametrize("name", [name for name in READERS if name != "rows"])
def test_links_into_a_circle_or_nowhere(name, tmp_path):
    place = _place(tmp_path, name)
    for target in (place, tmp_path / "absent"):
        place.symlink_to(target)
        _refused(tmp_path, name)
        place.unlink()


@pytest.mark.parametrize("name", [name for name in READERS if READERS[name][1]])
def test_a_link_to_a_file_is_that_file(name, tmp_path):
    (tmp_path / "real").write_bytes(READERS[name][1])
    _place(tmp_path, name).symlink_to(tmp_path / "real")
    _read(tmp_path, name)


def test_kept_runs_that_are_no_files_are_made_anew(tmp_path):
    store = Store(tmp_path)
    place = store._path({})
    assert place is not None
    place.parent.mkdir()
    os.mkfifo(place)
    assert store.read(Run, {}) is None
    place.unlink()
    place.write_bytes(store_file())
    assert store.read(Run, {}) is not None


def test_a_folder_of_images_and_other_things(tmp_path):
    folder = tmp_path / "class"
    folder.mkdir()
    (folder / "real.png").write_bytes(image_files()[0])
    os.mkfifo(folder / "pipe.png")
    (folder / "zero.png").symlink_to("/dev/zero")
    (folder / "gone.png").symlink_to(folder / "absent")
    (folder / "circle").symlink_to(tmp_path)
    (folder / "linked.png").symlink_to(folder / "real.png")
    assert len(image_folder(tmp_path)) == 2


def test_a_file_that_grows_or_goes_while_it_is_read(tmp_path, monkeypatch):
    """Checked first and read later: in between it may change."""
    path = tmp_path / "file"
    path.write_bytes(safetensors_files()[0])
    from gradaudit.capture import load as module

    def remove(file: Path) -> str:
        shutil.rmtree(tmp_path, ignore_errors=True)
        return original(file)

    original = module.sha256_of
    monkeypatch.setattr(module, "sha256_of", remove)
    with pytest.raises(InputError, match="No such file"):
        load_update(path)
