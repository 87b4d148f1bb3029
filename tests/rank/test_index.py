from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gradaudit.rank.index import Accumulated, Size, accumulate

SIZES = st.builds(Size, st.integers(1, 50), st.integers(1, 50), st.integers(0, 80))


def by_definition(layers: list[Size], i: int) -> Accumulated:
    """The formula with its sums as they are written; layers are numbered from 1."""

    def x(n: int) -> int:
        return layers[n - 1].unknowns

    def rank(n: int) -> int:
        return min(x(n), layers[n - 1].equations)

    def virtual(m: int) -> int:
        gained = sum(max(layers[n - 1].outputs - x(n), 0) for n in range(1, m))
        return gained - sum(max(x(n) - rank(n), 0) for n in range(2, m))

    return Accumulated(virtual(i), min(rank(n) + virtual(n) - x(n) for n in range(1, i + 1)))


@given(st.lists(SIZES, min_size=1, max_size=8))
def test_the_index_is_the_written_formula(layers):
    found = accumulate(layers)
    assert list(found) == [by_definition(layers, i + 1) for i in range(len(layers))]


@given(st.lists(SIZES, min_size=1, max_size=8))
def test_layers_with_equations_enough_lose_nothing(layers):
    plenty = [Size(s.unknowns, s.outputs, s.unknowns + s.equations) for s in layers]
    assert all(step.index == 0 for step in accumulate(plenty))


def test_equations_of_an_earlier_layer_make_up_for_a_later_deficit_once():
    # 5 too many in the first layer; 3 are missing twice.
    layers = [Size(10, 15, 20), Size(15, 12, 12), Size(12, 12, 9), Size(12, 1, 12)]
    assert [step.virtual_constraints for step in accumulate(layers)] == [0, 5, 2, -1]
    assert [step.index for step in accumulate(layers)] == [0, 0, -1, -1]
