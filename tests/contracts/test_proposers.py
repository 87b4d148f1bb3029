"""What every proposer promises, held for each one in the registry: a new one needs no new test."""

from __future__ import annotations

import functools
import threading
import time

import pytest
import torch
from linear.planted import gaussian, plant, seeded

from gradaudit.budget import Budget, Control
from gradaudit.linear.factor import factor_gradient
from gradaudit.linear.invert import NOTHING_LEFT, invert
from gradaudit.linear.pool import Pool
from gradaudit.linear.problem import Setting, build_problem
from gradaudit.linear.proposers import PROPOSERS, suited
from gradaudit.update import LinearLayer

pytestmark = pytest.mark.parametrize("name", sorted(PROPOSERS))


def changed(layer: LinearLayer, *, neurons=None, inputs=None, scale: float = 1.0) -> LinearLayer:
    """The same layer with its neurons or inputs renumbered and its gradient scaled."""
    neurons = torch.arange(layer.shape[0]) if neurons is None else neurons
    inputs = torch.arange(layer.shape[1]) if inputs is None else inputs
    return LinearLayer(
        layer.name,
        layer.weight[neurons][:, inputs],
        layer.bias[neurons],
        layer.weight_gradient[neurons][:, inputs] * scale,
        layer.bias_gradient[neurons] * scale,
    )


def problem_of(layer: LinearLayer, setting: Setting = Setting.SPARSE_GRADIENT):
    factors = factor_gradient(layer.weight_gradient, generator=seeded(0))
    return build_problem(layer, factors, setting)


def found_by(name: str, problem, *, rounds: int = 3, seed: int = 0) -> Pool:
    proposer, generator, pool = PROPOSERS[name](problem), seeded(seed), Pool(problem)
    minimum = len(problem.unit_rows) // 4
    for _ in range(rounds):
        pool.add(proposer.propose(generator, minimum).directions, minimum)
    return pool


@functools.cache
def found_plainly(name: str) -> tuple[LinearLayer, torch.Tensor]:
    """A layer, and what a proposer finds of it as it is: what changed layers are compared with."""
    layer = plant(gaussian(4, 40, 1), width=100).layer
    problem = problem_of(layer)
    return layer, sparse_columns(problem, found_by(name, problem))


def sparse_columns(problem, pool: Pool) -> torch.Tensor:
    """The zero pattern of what was found, as sorted rows: independent of bases and of order."""
    pattern = (problem.sparse @ pool.directions.T).abs().T
    pattern = pattern / pattern.amax(1, keepdim=True)
    return pattern[pattern.sum(1).argsort()]


@pytest.mark.parametrize("setting", list(Setting))
def test_it_finds_the_records_of_an_easy_batch(name, setting):
    planted = plant(gaussian(4, 40, 1), width=100, setting=setting)
    if setting not in PROPOSERS[name].settings:
        pytest.skip("not a setting that this proposer searches")
    pool = found_by(name, planted.problem)
    agreement = (pool.directions @ planted.true_directions.T).abs()
    assert bool((agreement.amax(0) > 1 - 1e-10).all())


def test_proposals_are_finite_unit_vectors(name):
    problem = plant(gaussian(5, 40, 1), width=80).problem
    proposer, generator = PROPOSERS[name](problem), seeded(0)
    assert isinstance(proposer.unit, str)
    for minimum in (1, problem.zeros_needed + 1, 30, len(problem.unit_rows)):
        proposals = proposer.propose(generator, minimum)
        assert proposals.tried > 0
        assert proposals.directions.shape[1:] == (5,)
        norms = proposals.directions.double().norm(dim=1)
        assert torch.allclose(norms, torch.ones_like(norms), atol=1e-5)


def test_the_order_of_neurons_does_not_matter(name):
    layer, one = found_plainly(name)
    order = torch.randperm(100, generator=seeded(5))
    moved = problem_of(changed(layer, neurons=order))
    other = sparse_columns(moved, found_by(name, moved, seed=1))
    assert torch.allclose(one[:, order], other, atol=1e-9)


def test_the_order_of_inputs_does_not_matter(name):
    layer, one = found_plainly(name)
    moved = problem_of(changed(layer, inputs=torch.randperm(40, generator=seeded(5))))
    other = sparse_columns(moved, found_by(name, moved, seed=1))
    assert torch.allclose(one, other, atol=1e-9)


@pytest.mark.parametrize("scale", [1e-30, -1.0, 1e30])
def test_scale_and_sign_of_the_gradient_do_not_matter(name, scale):
    layer, one = found_plainly(name)
    scaled = problem_of(changed(layer, scale=scale))
    other = sparse_columns(scaled, found_by(name, scaled))
    assert torch.allclose(one, other, atol=1e-9)


def test_the_seed_decides_everything(name):
    problem = plant(gaussian(5, 40, 1), width=80).problem

    def draw(seed: int) -> list[torch.Tensor]:
        proposer, generator = PROPOSERS[name](problem), seeded(seed)
        return [proposer.propose(generator, 20).directions for _ in range(3)]

    torch.manual_seed(1)
    once = draw(7)
    torch.manual_seed(2)
    assert all(torch.equal(a, b) for a, b in zip(once, draw(7), strict=True))


def test_the_global_generator_is_left_alone(name):
    problem = plant(gaussian(5, 40, 1), width=80).problem
    torch.manual_seed(3)
    state = torch.get_rng_state()
    PROPOSERS[name](problem).propose(seeded(0), 20)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("limit", [1, 100, 3000])
def test_no_more_candidates_than_the_budget_allows(name, limit):
    problem = plant(gaussian(20, 60, 1), width=120).problem
    if not PROPOSERS[name].by_sparsity:
        pytest.skip("the budget of submatrices is not this proposer's")
    control = Control(Budget(seconds=None, submatrices=limit))
    inversion = invert(problem, proposer=name, generator=seeded(0), control=control)
    unit = PROPOSERS[name](problem).unit
    assert inversion.counters[unit] == limit
    assert f"{limit:,}" in inversion.stopped
    assert inversion.batch is None


def test_the_time_budget_ends_the_search(name):
    problem = plant(gaussian(58, 60, 1), width=120).problem
    started = time.monotonic()
    control = Control(Budget(seconds=0.2, submatrices=None))
    inversion = invert(problem, proposer=name, generator=seeded(0), control=control)
    # A deterministic proposer may have nothing left to try before that.
    assert "time budget" in inversion.stopped or inversion.stopped == NOTHING_LEFT
    assert time.monotonic() - started < 5.0


def test_another_thread_can_interrupt(name):
    problem = plant(gaussian(58, 60, 1), width=120).problem
    control = Control(Budget(seconds=60.0, submatrices=None))
    timer = threading.Timer(0.2, control.interrupt)
    timer.start()
    inversion = invert(problem, proposer=name, generator=seeded(0), control=control)
    timer.join()
    assert inversion.stopped in ("interrupted", NOTHING_LEFT)
    assert control.elapsed_seconds < 10.0


def test_a_keyboard_interrupt_keeps_what_was_found(name):
    planted = plant(gaussian(6, 60, 1), width=150)

    def listener(progress) -> None:
        if progress.found > 0:
            raise KeyboardInterrupt

    control = Control(Budget(seconds=60.0), listener)
    inversion = invert(
        planted.problem,
        proposer=name,
        generator=seeded(0),
        control=control,
        accept=lambda batch: False,
    )
    assert inversion.directions_found > 0
    assert inversion.stopped in ("interrupted", "")
    assert control.interrupted or inversion.matching == 1.0


@pytest.mark.parametrize("setting", list(Setting))
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("batch", "inputs", "width"),
    [(2, 2, 2), (2, 3, 4), (3, 3, 3), (5, 5, 40), (8, 60, 8), (12, 60, 10), (40, 10, 30)],
)
def test_odd_problems_end_without_an_exception(name, setting, dtype, batch, inputs, width):
    if setting not in PROPOSERS[name].settings:
        pytest.skip("not a setting that this proposer searches")
    planted = plant(gaussian(batch, inputs, 3), width=width, setting=setting, factor_like=dtype)
    if planted.problem.batch_size < 2:
        pytest.skip("a rank of one or none is not searched")
    control = Control(Budget(seconds=0.2, submatrices=600))
    inversion = invert(planted.problem, proposer=name, generator=seeded(0), control=control)
    assert inversion.batch is None or bool(torch.isfinite(inversion.batch.records).all())


@pytest.mark.parametrize("kind", ["one hot", "zeros and ones", "constant columns", "duplicates"])
def test_degenerate_records_end_without_an_exception(name, kind):
    records = gaussian(5, 40, 0)
    if kind == "one hot":
        records = torch.eye(40, dtype=torch.float64)[:5]
    elif kind == "zeros and ones":
        records = (records > 0).double()
    elif kind == "constant columns":
        records[:, :20], records[:, 20:30] = 1.0, 0.0
    else:
        records[3] = records[1]
    planted = plant(records, width=150)
    control = Control(Budget(seconds=10.0, submatrices=60_000))
    inversion = invert(planted.problem, proposer=name, generator=seeded(0), control=control)
    assert inversion.matching == 1.0
    distance = torch.cdist(records, inversion.batch.records)
    distinct = 4 if kind == "duplicates" else 5
    assert len(inversion.batch.records) == distinct
    if kind != "duplicates":
        assert float(distance.amin(1).max()) < 1e-9
    else:
        assert float(distance.amin(1).max()) < 1e-9


@pytest.mark.parametrize("setting", list(Setting))
@pytest.mark.parametrize("with_gradient", [True, False])
def test_those_that_suit_can_be_set_up_and_the_others_refuse(name, setting, with_gradient):
    layer = plant(gaussian(4, 40, 1), width=100, setting=setting).layer
    gradient = layer.bias_gradient if with_gradient else None
    layer = LinearLayer("fc", layer.weight, layer.bias, layer.weight_gradient, gradient)
    factors = factor_gradient(layer.weight_gradient, generator=seeded(0))
    problem = build_problem(layer, factors, setting)
    if suited([name], problem):
        PROPOSERS[name](problem)
    else:
        with pytest.raises(ValueError, match=r"peeling|half-space"):
            PROPOSERS[name](problem)
