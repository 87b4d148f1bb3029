"""Captured updates can be audited later, and no earlier run's are replaced."""

from __future__ import annotations

import stat

import pytest

pytest.importorskip("flwr", reason="needs the extra gradaudit[flower]")

from flower.material import SETTINGS, is_recovered, reply_content, sent_content
from gradaudit import audit, load_update
from gradaudit.errors import InputError
from gradaudit.flower import Auditor
from gradaudit.flower.captures import capture, prepare_folder
from gradaudit.tensorfile import read_tensors


def test_a_captured_update_is_audited_later(tmp_path):
    folder = prepare_folder(tmp_path / "captures")
    update = Auditor().read(sent_content(), reply_content(0))
    path = capture(update, folder, server_round=3, node_id=17, examples=4)
    assert path.name == "round-0003-node-17.safetensors"
    notes = {"note.round": "3", "note.node": "17", "note.examples": "4"}
    assert notes.items() <= read_tensors(path)[1].items()
    loaded = load_update(path)
    assert loaded.sha256() == update.sha256()
    assert is_recovered(audit(loaded, **SETTINGS).records, partition=0)


def test_the_folder_is_for_its_owner(tmp_path):
    folder = prepare_folder(tmp_path / "captures")
    assert stat.S_IMODE(folder.stat().st_mode) & 0o077 == 0
    assert prepare_folder(folder) == folder


def test_a_folder_in_use_is_refused(tmp_path):
    (tmp_path / "round-0001-node-1.safetensors").touch()
    with pytest.raises(InputError, match="a new or an empty folder"):
        prepare_folder(tmp_path)


def test_no_folder_is_refused(tmp_path):
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "missing" / "captures"):
        with pytest.raises(InputError, match="capture_dir"):
            prepare_folder(path)
