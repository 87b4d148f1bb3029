from __future__ import annotations

import math

import pytest

from defending.material import make_run
from gradaudit.defending import Run
from gradaudit.defending.store import Store
from gradaudit.defending.training import Trained
from gradaudit.errors import InputError


def test_what_was_written_is_read(tmp_path):
    store = Store(tmp_path / "new")
    run = make_run(2, 1)
    assert store.read(Run, {"seed": 1}) is None
    store.write(run, {"seed": 1})
    assert store.read(Run, {"seed": 1}) == run
    assert store.read(Run, {"seed": 2}) is None
    store.write(Trained(0.5, 10), {"seed": 2})
    assert Store(tmp_path / "new").read(Trained, {"seed": 2}) == Trained(0.5, 10)


def test_without_a_folder_nothing_is_kept():
    store = Store(None)
    store.write(make_run(), {})
    assert store.read(Run, {}) is None


@pytest.mark.parametrize("text", ["", "{", "{}", '{"result": {"seed": 1}}', "[]", '{"result": 3}'])
def test_another_file_in_its_place_is_named(tmp_path, text):
    store = Store(tmp_path)
    store.write(make_run(), {})
    (path,) = (tmp_path / "runs").iterdir()
    path.write_text(text)
    with pytest.raises(InputError, match=path.name):
        store.read(Run, {})


def test_what_determines_a_result_must_be_numbers(tmp_path):
    with pytest.raises(ValueError, match="JSON"):
        Store(tmp_path).write(make_run(), {"seconds": math.nan})
