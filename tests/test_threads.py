from __future__ import annotations

import pytest

from gradaudit import threads
from gradaudit.threads import SETTLING, choose_threads, free_cores


@pytest.fixture
def cores(monkeypatch):
    """A machine of some cores, some of them idle, and an environment that settles nothing."""
    for name in SETTLING:
        monkeypatch.delenv(name, raising=False)

    def have(count, free):
        monkeypatch.setattr(threads, "usable_cores", lambda: count)
        monkeypatch.setattr(threads, "free_cores", lambda: free)

    return have


@pytest.mark.parametrize(
    ("count", "free", "chosen"),
    [
        (8, 8.0, 8),
        (8, 7.6, 8),
        (8, 3.2, 3),
        (8, 0.0, 1),
        # A container's share of a large idle machine, and a machine that says nothing.
        (2, 60.0, 2),
        (4, None, 4),
        (1, 1.0, 1),
    ],
)
def test_a_thread_for_each_idle_core(cores, count, free, chosen):
    cores(count, free)
    assert choose_threads() == chosen


@pytest.mark.parametrize("name", SETTLING)
def test_what_the_user_says_stands(cores, monkeypatch, name):
    cores(8, 0.0)
    assert choose_threads(5) == 5
    monkeypatch.setenv(name, "3")
    assert choose_threads() is None
    assert choose_threads(5) == 5


def test_idle_time_is_read_off_the_counters(tmp_path, monkeypatch):
    stat = tmp_path / "stat"
    stat.write_text("cpu 100 0 0 100 0 0 0 0 0 0\ncpu0 1 1 1 1 1 1 1 1\n")
    later = "cpu 110 0 0 128 2 0 0 0 0 0\n"
    monkeypatch.setattr(threads.time, "sleep", lambda _: stat.write_text(later))
    monkeypatch.setattr(threads.os, "cpu_count", lambda: 4)
    assert free_cores(stat) == pytest.approx(4 * 30 / 40)


@pytest.mark.parametrize("text", ["", "cpu", "cpu a b c d e f g h", "cpu 1 1 1 1 1 1 1 1"])
def test_without_counters_the_load_decides(tmp_path, monkeypatch, text):
    stat = tmp_path / "stat"
    stat.write_text(text)
    monkeypatch.setattr(threads.os, "cpu_count", lambda: 4)
    monkeypatch.setattr(threads.os, "getloadavg", lambda: (1.5, 9.0, 9.0), raising=False)
    assert free_cores(stat, seconds=0.0) == 2.5
    monkeypatch.delattr(threads.os, "getloadavg")
    assert free_cores(stat, seconds=0.0) is None
