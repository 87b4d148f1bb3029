"""Rounds try harder while they find nothing, and less hard where they find much."""

from __future__ import annotations

from gradaudit.linear.pace import EFFORTS, LARGEST_SHARPENED, LARGEST_STARTS, STARTS, Pace


def test_effort_rises_before_starts_do_and_both_have_an_end():
    pace = Pace(200)
    seen = []
    for _ in range(12):
        starts = pace.starts_after(0)
        seen.append((EFFORTS.index(pace.effort), starts))
    assert seen[:5] == [(0, 300), (1, 300), (2, 300), (2, 600), (2, 1200)]
    assert seen[-1] == (len(EFFORTS) - 1, LARGEST_STARTS)
    assert pace.sharpened == LARGEST_SHARPENED


def test_a_good_round_halves_the_starts_and_an_easy_one_lowers_the_effort():
    pace = Pace(200)
    for _ in range(5):
        pace.starts_after(0)
    assert pace.starts_after(6) == 600
    assert EFFORTS.index(pace.effort) == 2
    assert pace.starts_after(60) == STARTS
    assert EFFORTS.index(pace.effort) == 1


def test_what_was_found_says_how_many_candidates_are_worth_sharpening():
    pace = Pace(200)
    pace.starts_after(0)
    assert pace.sharpened == 64
    pace.starts_after(50)
    assert pace.sharpened == 100
    large = Pace(512)
    large.starts_after(0)
    assert large.sharpened == 128


def test_few_missing_directions_need_few_starts():
    pace = Pace(100)
    pace.starts_after(0)
    assert pace.starts_after(98) == 100
