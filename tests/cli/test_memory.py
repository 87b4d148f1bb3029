from __future__ import annotations

import pytest
import torch
from torch import nn

from gradaudit.cli import memory
from gradaudit.cli.memory import check_network, check_records
from gradaudit.errors import InputError


@pytest.fixture
def small(monkeypatch):
    """A machine with a gibibyte."""
    monkeypatch.setattr(memory, "total_memory", lambda: 2**30)


def test_batches(small):
    check_records(10_000, 3_072)
    check_records(10**30, None)
    with pytest.raises(InputError, match=r"100,000 records, which need 6.87 GiB.* 1.00 GiB"):
        check_records(100_000, 3_072)


def test_networks(small):
    with torch.device("meta"):
        narrow, wide = nn.Linear(100, 100), nn.Linear(10_000, 10_000)
    check_network(narrow, 10_000, 8)
    with pytest.raises(InputError, match="100,010,000 weights"):
        check_network(wide, 1, 4)
    with pytest.raises(InputError, match="1,000,000 records with 100 neurons"):
        check_network(narrow, 1_000_000, 8)


def test_a_system_that_does_not_say(monkeypatch):
    monkeypatch.setattr(memory, "total_memory", lambda: None)
    check_records(10**30, 10)


def test_the_command_line_refuses_at_once(small, tmp_path, run, error):
    pytest.importorskip("skimage")
    pytest.importorskip("sklearn")
    out = ["--out", tmp_path / "u", "--batch-size"]
    assert "--batch-size" in error(run("simulate", "--data", "patches?size=32", *out, "9" * 30))
    assert "--batch-size" in error(run("demo", "--batch-size", "9" * 30, "--out", tmp_path / "d"))
    assert "at most the" in error(run("simulate", "--data", "digits", *out, "9" * 30))
    assert not list(tmp_path.iterdir())


def test_more_patches_than_there_are(tmp_path, run, error):
    pytest.importorskip("skimage")
    pytest.importorskip("sklearn")
    words = ["--data", "patches?size=2", "--out", tmp_path / "u", "--batch-size", "9999999"]
    assert "different patches of patches (all)" in error(run("simulate", *words))
