from __future__ import annotations

import pickle
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradaudit.errors import GradauditError, InputError, MissingExtraError, require


def test_an_input_error_says_what_was_found_expected_and_to_do():
    error = InputError("layer", "'fc9'", "one of 'fc1'", "pass layer='fc1'")
    assert str(error) == "layer: found 'fc9', expected one of 'fc1'; pass layer='fc1'"
    assert (error.argument, error.found) == ("layer", "'fc9'")
    assert (error.expected, error.remedy) == ("one of 'fc1'", "pass layer='fc1'")
    assert str(InputError("a", "b", "c")) == "a: found b, expected c"


def test_it_is_a_value_error_and_ours():
    assert issubclass(InputError, ValueError)
    assert issubclass(InputError, GradauditError)
    assert issubclass(MissingExtraError, ImportError)


@given(st.text(), st.text(), st.text(), st.text())
def test_one_printable_line_whatever_a_file_holds(argument, found, expected, remedy):
    text = str(InputError(argument, found, expected, remedy))
    assert len(text.splitlines()) <= 1
    assert text.isprintable()


def test_a_name_of_a_megabyte_is_cut_and_the_remedy_kept():
    text = str(InputError("n" * 10**6, "a" * 10**6, "b", "rename it"))
    assert len(text) < 2_000
    assert text.endswith("; rename it")


def test_it_survives_a_process_boundary():
    error = InputError("layer", "\x1b[31m", "a name", "say so")
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error)
    assert again.found == "\x1b[31m"


def test_require_imports_or_names_the_extra():
    assert require("json", "data").__name__ == "json"
    with pytest.raises(MissingExtraError) as caught:
        require("no_such_module.part", "report")
    assert str(caught.value) == (
        "no_such_module is not installed; run: pip install 'gradaudit[report]'"
    )


def test_importing_errors_imports_nothing_heavy():
    code = "import sys, gradaudit.errors; print('torchvision' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_what_an_installed_package_lacks_itself_is_said(tmp_path, monkeypatch):
    (tmp_path / "half_there.py").write_text("import nobody_has_this\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(MissingExtraError, match=r"half_there cannot be imported \(.*nobody_has"):
        require("half_there", "data")
