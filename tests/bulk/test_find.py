from __future__ import annotations

import os

import pytest

from bulk.material import capture
from gradaudit.bulk import Reading, is_many
from gradaudit.bulk.find import find
from gradaudit.errors import InputError


@pytest.fixture
def captures(tmp_path):
    return capture(tmp_path / "captures", ["a.safetensors", "b.safetensors", "sub/c.safetensors"])


def names(found):
    return [job.name for job in found.jobs]


def test_a_folder_with_all_that_is_below_it(captures, tmp_path):
    (captures / ".hidden.safetensors").write_bytes(b"x")
    (captures / "notes.txt").write_text("words")
    found = find([captures], Reading(), tmp_path / "out")
    assert names(found) == ["a.safetensors", "b.safetensors", "notes.txt", "sub/c.safetensors"]
    assert [job.stem for job in found.jobs] == ["a", "b", "notes", "sub-c"]
    assert all(job.come_across for job in found.jobs)


def test_results_are_no_updates(captures):
    out = captures / "audits"
    capture(out, ["results/a.safetensors"])
    assert names(find([captures], Reading(), out)) == [
        "a.safetensors",
        "b.safetensors",
        "sub/c.safetensors",
    ]
    with pytest.raises(InputError, match="where the updates are"):
        find([captures], Reading(), captures)


def test_a_pattern_and_files(captures, tmp_path, monkeypatch):
    found = find([captures / "*.safetensors"], Reading(), tmp_path / "out")
    assert names(found) == ["a.safetensors", "b.safetensors"]
    found = find([captures / "**" / "c.*"], Reading(), tmp_path / "out")
    assert names(found) == ["sub/c.safetensors"]
    monkeypatch.chdir(tmp_path)
    words = ["captures/b.safetensors", "captures/sub/c.safetensors", "captures/b.safetensors"]
    found = find(words, Reading(), tmp_path / "out")
    assert names(found) == ["b.safetensors", "sub/c.safetensors"]
    assert not any(job.come_across for job in found.jobs)
    # A name that looks like a pattern is a file's if there is one.
    (captures / "a.safetensors").rename(captures / "[a].safetensors")
    assert not is_many([captures / "[a].safetensors"])


def test_nothing_is_an_error(tmp_path):
    (tmp_path / "empty").mkdir()
    for word in ("empty", "*.pt", "gone.pt"):
        with pytest.raises(InputError, match=word.strip("*")):
            find([tmp_path / word], Reading(), tmp_path / "out")


def test_a_manifest_says_more_than_the_options(captures, tmp_path):
    (captures / "m.csv").write_text(
        "update,weights,noise\na.safetensors,b.safetensors,\nsub/c.safetensors,,0.5\nno.pt,,\n"
    )
    assert is_many([captures / "m.csv"])
    found = find([captures / "m.csv"], Reading(noise=0.1, weights="w"), tmp_path / "out")
    assert names(found) == ["a.safetensors", "no.pt", "sub/c.safetensors"]
    assert [job.reading.noise for job in found.jobs] == [0.1, 0.1, 0.5]
    assert found.jobs[0].reading.weights == str(captures / "b.safetensors")
    assert found.jobs[1].reading.weights == os.path.abspath("w")
    (captures / "m.csv").write_text("update,momentum\na.safetensors,2\n")
    with pytest.raises(InputError, match=r"a\.safetensors: momentum: found 2"):
        find([captures / "m.csv"], Reading(), tmp_path / "out")
    (captures / "m.csv").write_text("update,momentum,noise\na.safetensors,2,\nno.pt,,-1\n")
    with pytest.raises(InputError, match=r"2 faults \(a\.safetensors: momentum.* no\.pt: noise"):
        find([captures / "m.csv"], Reading(), tmp_path / "out")


def test_the_weights_of_all_are_no_update(captures, tmp_path):
    reading = Reading(weights=str(captures / "b.safetensors"))
    found = find([captures], reading, tmp_path / "out")
    assert names(found) == ["a.safetensors", "sub/c.safetensors"]
    assert [(row.name, row.status) for row in found.others] == [("b.safetensors", "not_an_update")]


def test_links_to_folders_are_not_entered(captures, tmp_path):
    (captures / "loop").symlink_to(captures)
    (captures / "link.safetensors").symlink_to(captures / "a.safetensors")
    found = find([captures], Reading(), tmp_path / "out")
    assert "link.safetensors" in names(found)
    assert len(found.jobs) == 4
    assert [row.name for row in found.others] == ["loop"]


def test_a_single_file_stays_what_it_was(captures):
    assert not is_many([captures / "a.safetensors"])
    assert not is_many(["gone.pt"])
    index = captures / "model.safetensors.index.json"
    index.write_text('{"metadata": {"total_size": 3}}')
    assert not is_many([index])
    # Nor is a result a manifest: what is said of it is what it is.
    (captures / "result.json").write_text('{"schema": "gradaudit.audit-result"}')
    assert not is_many([captures / "result.json"])
    (captures / "a.safetensors").rename(captures / "a.json")
    assert not is_many([captures / "a.json"])
