"""Cores that a process may use, by control groups of both versions."""

from __future__ import annotations

import os

import pytest

from gradaudit.engine import cores


@pytest.fixture(autouse=True)
def eight(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)


def test_affinity_is_the_limit_where_nothing_else_is(tmp_path):
    assert cores.usable_cores(tmp_path) == 8


@pytest.mark.parametrize(
    ("text", "expected"),
    [("max 100000", 8), ("250000 100000", 2), ("50000 100000", 1), ("9900000 100000", 8)],
)
def test_a_quota_of_version_2(tmp_path, text, expected):
    (tmp_path / "cpu.max").write_text(text + "\n")
    assert cores.usable_cores(tmp_path) == expected


@pytest.mark.parametrize(("quota", "expected"), [("-1", 8), ("300000", 3)])
def test_a_quota_of_version_1(tmp_path, quota, expected):
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / "cpu.cfs_quota_us").write_text(quota + "\n")
    (tmp_path / "cpu" / "cpu.cfs_period_us").write_text("100000\n")
    assert cores.usable_cores(tmp_path) == expected
