from __future__ import annotations

import os
from pathlib import Path

import pytest

from gradaudit.cli.outputs import Outputs, check_places
from gradaudit.errors import InputError, MissingExtraError


def test_nothing_that_is_read_is_written_over(tmp_path):
    update = tmp_path / "update.safetensors"
    update.touch()
    (tmp_path / "link.safetensors").symlink_to(update)
    for result in ("update.json", "link.json"):
        with pytest.raises(InputError, match=r"recovered records.*UPDATE"):
            Outputs(tmp_path / result).check({"UPDATE": update})
        Outputs(tmp_path / result, keep_records=False).check({"UPDATE": update})
    with pytest.raises(InputError, match=r"--report.*--truth"):
        Outputs(report=tmp_path / "t").check({"UPDATE": update, "--truth": tmp_path / "t"})


def test_two_outputs_need_two_places(tmp_path):
    with pytest.raises(InputError, match="which is --out"):
        check_places({"--out": tmp_path / "a", "--truth": tmp_path / "b" / ".." / "a"}, {})


def test_places_that_cannot_be_written(tmp_path):
    (tmp_path / "file").touch()
    for place in ("", "file/x", "file/x/y", "new/" + "n" * 300):
        with pytest.raises(InputError, match="--out"):
            check_places({"--out": tmp_path / place}, {})
    check_places({"--out": tmp_path / "new" / "folders" / "x", "--truth": None}, {})
    assert not (tmp_path / "new").exists()


def test_messages_name_the_option(tmp_path):
    for option in ("--out", "--json-out"):
        with pytest.raises(InputError, match=f"^{option}, the result: found"):
            Outputs(tmp_path / ("n" * 300) / "r.json", option).check({})
    with pytest.raises(InputError, match=r"^--report: found"):
        Outputs(report=tmp_path).check({})


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_is_protected(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(InputError, match="write-protected"):
        check_places({"--out": tmp_path / "x"}, {})


def test_missing_packages_are_noticed_before_the_search(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    Outputs(result=Path("r.json")).check({})
    with pytest.raises(MissingExtraError, match=r"gradaudit\[report\]"):
        Outputs(report=tmp_path / "r.html").check({})
