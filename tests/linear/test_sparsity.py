from __future__ import annotations

from gradaudit.linear.sparsity import STALL_MINIMUM, SparsityFilter
from linear.planted import gaussian, plant


def test_it_begins_at_the_paper_s_threshold():
    problem = plant(gaussian(6, 60, 0), width=400).problem
    live = len(problem.unit_rows)
    assert 0.38 * live < SparsityFilter(problem).minimum_zeros < 0.41 * live
    strict = SparsityFilter(problem, false_rejection=1e-2)
    assert strict.minimum_zeros > SparsityFilter(problem).minimum_zeros


def test_a_narrow_layer_begins_at_what_proves_a_direction():
    problem = plant(gaussian(6, 60, 0), width=20).problem
    assert SparsityFilter(problem).minimum_zeros == problem.zeros_needed + 1


def test_it_falls_when_the_search_stalls_and_stops_at_the_proof():
    problem = plant(gaussian(6, 60, 0), width=400).problem
    sparsity = SparsityFilter(problem)
    start = sparsity.minimum_zeros
    sparsity.observe(STALL_MINIMUM, 0)
    assert sparsity.minimum_zeros == start
    sparsity.observe(1, 0)
    assert sparsity.minimum_zeros == int(0.85 * start)
    # Every step waits for twice as many candidates as the one before.
    for step in range(60):
        sparsity.observe(STALL_MINIMUM * 3**step, 0)
    assert sparsity.minimum_zeros == problem.zeros_needed + 1


def test_discoveries_put_it_off():
    problem = plant(gaussian(6, 60, 0), width=400).problem
    sparsity = SparsityFilter(problem)
    start = sparsity.minimum_zeros
    for _ in range(50):
        sparsity.observe(STALL_MINIMUM, 1)
    assert sparsity.minimum_zeros == start
    # A stall is twice what had been tried at the last discovery.
    sparsity.observe(STALL_MINIMUM + 1, 0)
    assert sparsity.minimum_zeros == start
