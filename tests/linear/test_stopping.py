"""A factorisation ends between blocks of work when it is told to."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import pytest
import torch

from gradaudit.budget import Budget, Control, StoppedError
from gradaudit.linear import blocks, factor, stopping
from gradaudit.linear.factor import factor_gradient
from gradaudit.linear.range_finder import decompose
from gradaudit.linear.stopping import ASK_SECONDS, go_on, waiting
from linear.planted import gaussian, seeded

INTERRUPTED = Control()
INTERRUPTED.interrupt()
BLOCKS = 10


class Countdown:
    """Goes on so many times."""

    def __init__(self, times):
        self.left = times

    def __call__(self):
        self.left -= 1
        if self.left < 0:
            raise StoppedError("now")


@pytest.fixture
def in_blocks(monkeypatch):
    """Gives a gradient of some rank that is worked on in ten blocks of rows."""

    def make(shape, rank):
        monkeypatch.setattr(factor, "WIDE_ENTRIES", 0)
        monkeypatch.setattr(blocks, "BLOCK_ENTRIES", shape[0] * shape[1] // BLOCKS)
        return (gaussian(shape[0], rank, 1) @ gaussian(rank, shape[1], 2)).float()

    return make


@pytest.mark.parametrize(
    ("shape", "rank"),
    [((60, 40), 3), ((40, 60), 3), ((540, 560), 4), ((560, 540), 4), ((540, 560), 250)],
    ids=["tall triangles", "wide triangles", "wide sketch", "tall sketch", "Gram matrix"],
)
def test_work_in_blocks_ends_at_the_first_check(in_blocks, shape, rank):
    gradient = in_blocks(shape, rank)
    with pytest.raises(StoppedError, match="interrupted"):
        factor_gradient(gradient, generator=seeded(0), check=INTERRUPTED.check)


@pytest.mark.parametrize(("shape", "rank"), [((60, 40), 3), ((540, 560), 4), ((540, 560), 250)])
def test_every_pass_over_the_gradient_is_checked(in_blocks, shape, rank, monkeypatch):
    # No more checks than there are blocks, however long a call takes.
    monkeypatch.setattr(stopping, "ASK_SECONDS", 600.0)
    gradient = in_blocks(shape, rank)
    whole = Countdown(10**6)
    factors = factor_gradient(gradient, generator=seeded(0), check=whole)
    used = 10**6 - whole.left
    # One for its lines, others for its sketch or squares, the last for what the factors leave.
    assert used >= 3 * (BLOCKS - 1)
    with pytest.raises(StoppedError, match="now"):
        factor_gradient(gradient, generator=seeded(0), check=Countdown(used - 1))
    same = factor_gradient(gradient, generator=seeded(0), check=Countdown(used))
    unchecked = factor_gradient(gradient, generator=seeded(0))
    for one in (same, unchecked):
        assert torch.equal(one.values, factors.values)
        assert torch.equal(one.left, factors.left)
        assert torch.equal(one.row_noise, factors.row_noise)


def test_the_time_that_is_up_says_so():
    control = Control(Budget(seconds=1e-9))
    matrix = gaussian(800, 700, 3)
    with pytest.raises(StoppedError, match="the time budget of 1e-09 seconds is used up"):
        decompose(matrix, lambda _: 1e-9, seeded(0), streamed=False, check=control.check)
    assert control.hurried


def test_a_small_gradient_is_factored_whatever_the_time():
    """It takes no time worth saving, and its rank says how large the batch is."""
    gradient = gaussian(60, 3, 1) @ gaussian(3, 40, 2)
    factors = factor_gradient(gradient, generator=seeded(0), check=INTERRUPTED.check)
    assert factors.rank == 3


def test_one_long_call_is_left_while_it_runs():
    over, ended = threading.Event(), threading.Event()

    def long():
        over.wait(60)
        ended.set()
        return 1

    started = time.monotonic()
    with pytest.raises(StoppedError):
        waiting(long, INTERRUPTED.check, torch.ones(1))
    assert time.monotonic() - started < 20 * ASK_SECONDS
    assert not ended.is_set()
    over.set()
    assert ended.wait(60)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_long_call_gives_the_same_bits_as_any(threads):
    matrix, before = gaussian(300, 280, 5), torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        found = waiting(lambda: torch.linalg.svd(matrix), Countdown(10**6), matrix)
        expected = torch.linalg.svd(matrix)
    finally:
        torch.set_num_threads(before)
    for one, other in zip(found, expected, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("check", [Countdown(10**6), go_on])
def test_what_a_long_call_raises_is_passed_on(check):
    with pytest.raises(torch.linalg.LinAlgError):
        waiting(lambda: torch.linalg.inv(torch.zeros(2, 2)), check, torch.ones(1))


def test_a_process_ends_in_order_while_what_was_given_up_computes():
    # It aborted: "terminate called without an active exception".
    program = """
import torch
from gradaudit.linear.stopping import waiting

def stop():
    raise KeyError("enough")

matrix = torch.randn(900, 900, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
try:
    waiting(lambda: torch.linalg.svd(matrix @ matrix), stop, matrix)
except KeyError:
    print("given up")
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "given up\n", "")
