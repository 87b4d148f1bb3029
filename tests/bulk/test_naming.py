from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradaudit.bulk.naming import MAX_BYTES, stems


def test_usual_names_stay_what_they_are():
    assert stems(["round-0001-node-17.safetensors", "step-00001.pt"]) == [
        "round-0001-node-17",
        "step-00001",
    ]
    assert stems(["クライアント.npz", "мир.pt", "हिन्दी.pt"]) == ["クライアント", "мир", "हिन्दी"]


@pytest.mark.parametrize(
    "name",
    ["../../etc/passwd", "..", "/x/y.pt", "-rf.pt", ".hidden.pt", "a\0b.pt", "a\nb.pt", "*.pt"],
)
def test_no_name_leads_out_or_says_something_to_a_shell(name, tmp_path):
    (stem,) = stems([name])
    assert Path(stem).name == stem
    assert stem[0] not in ".-"
    assert not set(stem) & set("/\\\0\n*?\"'<>|: ")
    (tmp_path / f"{stem}.json").write_text("{}")


def test_names_that_would_be_one_file_are_told_apart():
    names = ["a.pt", "a.npz", "A.pt", "a/b.pt", "a-b.pt", "e\u0301.pt", "\u00e9.pt"]
    found = stems(names)
    assert len({unicodedata.normalize("NFC", stem).casefold() for stem in found}) == len(names)
    # It is the name that decides, not the order.
    assert stems(names[::-1]) == found[::-1]


paths = st.lists(
    st.text(st.characters(exclude_characters="/\0"), min_size=1, max_size=300),
    min_size=1,
    max_size=4,
).map("/".join)


@given(st.lists(paths, min_size=1, max_size=6, unique=True))
def test_any_names_give_files_of_their_own(names):
    found = stems(names)
    folded = {unicodedata.normalize("NFC", stem).casefold() for stem in found}
    assert len(folded) == len(names)
    for stem in found:
        assert len(stem.encode()) <= MAX_BYTES + 11
        assert Path(stem).name == stem
