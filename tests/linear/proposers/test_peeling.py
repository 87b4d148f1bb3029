"""Peeling finds what the true activation pattern allows: no less, and nothing false."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from linear.planted import Planted, gaussian, plant, seeded

from gradaudit.linear.factor import factor_gradient
from gradaudit.linear.problem import Problem, Setting, build_problem
from gradaudit.linear.proposers import PeelingDecoder, peeling
from gradaudit.update import LinearLayer


def alike(batch: int, seed: int, *, common: float = 3.0) -> torch.Tensor:
    """Records with much in common, as images have: most neurons fire for nearly all or none."""
    return gaussian(batch, 40, seed) + common * gaussian(1, 40, seed + 500)


def rounds(problem: Problem, most: int = 1000) -> list[torch.Tensor]:
    """What each round finds, until the decoder is exhausted."""
    decoder, found = PeelingDecoder(problem), []
    for _ in range(most):
        proposals = decoder.propose(seeded(0), 0)
        found.append(proposals.directions)
        if proposals.exhausted:
            return found
    raise AssertionError("the decoder does not come to an end")


def records_found(planted: Planted) -> set[int]:
    """The true records among what was found, everything found being one of them."""
    agreement = (torch.cat(rounds(planted.problem)) @ planted.true_directions.T).abs()
    assert bool((agreement.amax(1) > 1 - 1e-9).all())
    nearest = agreement.argmax(1).tolist()
    assert len(set(nearest)) == len(nearest)
    return set(nearest)


def closure(planted: Planted) -> list[set[int]]:
    """By brute force from the truth: the records that peeling can reach, after each round.

    A record must be alone at a neuron, those known not counted, and the neurons that it does not
    fire must tell its direction from all others.
    """
    gradients, fires = planted.gradients, planted.gradients != 0
    batch = fires.shape[1]
    certain = set()
    for record in range(batch):
        silent = gradients[~fires[:, record]]
        silent = silent[(silent != 0).any(1)]
        if len(silent) > planted.problem.zeros_needed:
            rank = int(torch.linalg.matrix_rank(silent))
            certain |= {record} if rank == batch - 1 else set()
    known: list[set[int]] = [set()]
    while True:
        left = fires.clone()
        left[:, sorted(known[-1])] = False
        alone = set(left[left.sum(1) == 1].int().argmax(1).tolist())
        following = known[-1] | (alone & certain)
        if following == known[-1]:
            return known
        known.append(following)


@pytest.mark.parametrize("common", [0.8, 3.0])
@pytest.mark.parametrize("batch", [8, 16, 24, 32])
@pytest.mark.parametrize("seed", range(4))
def test_exactly_the_peeling_closure_is_found(batch, common, seed):
    planted = plant(alike(batch, seed, common=common), width=300, seed=seed)
    assert planted.problem.batch_size == batch
    assert records_found(planted) == closure(planted)[-1]


def test_the_closures_compared_are_of_all_kinds():
    sizes = [
        [len(known) for known in closure(plant(alike(b, s, common=0.8), width=300, seed=s))]
        for b, s in ((24, 0), (32, 0), (32, 2))
    ]
    partial_after_many, partial_at_once, whole_after_many = sizes
    assert partial_after_many[-1] < 24
    assert len(partial_after_many) > 3
    assert partial_at_once[-1] == 1
    assert whole_after_many[-1] == 32
    assert len(whole_after_many) > 3


def test_the_closure_is_nearly_always_reached():
    # More is found where a neuron's second record has next to no share: the row is nearly the first
    # one's. Seldom (3 of 960 batches like these) such a row is taken for the first one's own and
    # leads astray; the pool then refuses what follows from it.
    short = 0
    for seed, batch, common in itertools.product(range(5), (5, 12, 19), (0.0, 0.5, 2.0)):
        planted = plant(alike(batch, seed, common=common), width=120, seed=seed)
        if planted.problem.batch_size == batch:
            short += not records_found(planted) >= closure(planted)[-1]
    assert short <= 1


def test_what_is_subtracted_opens_other_neurons():
    planted = plant(alike(24, 1), width=300, seed=1)
    sizes = [len(found) for found in rounds(planted.problem)]
    reached = torch.tensor([len(known) for known in closure(planted)])
    # The last rounds only see that what is left is no record's.
    assert [size for size in sizes if size] == reached.diff().tolist()
    assert len(reached) > 3
    assert sizes[-1] == 0


def test_the_normals_give_the_records_themselves():
    planted = plant(alike(24, 0, common=0.8), width=300)
    factors, bias_gradient = planted.problem.factors, planted.layer.bias_gradient
    decoder = PeelingDecoder(planted.problem)
    while not decoder.propose(seeded(0), 0).exhausted:
        pass
    scales = decoder.normals @ (factors.left.T @ bias_gradient)
    found = (decoder.normals * factors.values) @ factors.right.T / scales[:, None]
    expected = planted.records[sorted(closure(planted)[-1])]
    assert 1 < len(found) == len(expected) < 24
    assert float(torch.cdist(expected, found).amin(1).max()) < 1e-9


def test_an_exhausted_decoder_has_nothing_more_to_say():
    planted = plant(alike(12, 0), width=300)
    decoder = PeelingDecoder(planted.problem)
    while not decoder.propose(seeded(0), 0).exhausted:
        pass
    again = decoder.propose(seeded(1), 0, found=planted.true_directions)
    assert again.exhausted
    assert not len(again.directions)


def test_rounds_of_any_length_find_the_same(monkeypatch):
    planted = plant(alike(8, 3), width=150, seed=3)
    long = records_found(planted)
    monkeypatch.setattr(peeling, "ROUND_COST", 1.0)
    short = rounds(planted.problem)
    assert len(short) > 20
    assert all(len(found) <= 1 for found in short)
    assert records_found(planted) == long


def test_a_batch_without_a_lonely_record_is_given_up_at_once():
    planted = plant(gaussian(40, 60, 0), width=200)
    assert not closure(planted)[-1]
    assert [len(found) for found in rounds(planted.problem)] == [0]


def test_a_record_seen_through_float32():
    planted = plant(alike(12, 0), width=300, factor_like=torch.float32)
    agreement = (torch.cat(rounds(planted.problem)) @ planted.true_directions.T).abs()
    assert bool((agreement.amax(1) > 1 - 1e-8).all())
    assert set(agreement.argmax(1).tolist()) == closure(planted)[-1]


def test_without_a_bias_the_neuron_tells_the_sign():
    planted = plant(alike(12, 1), width=300, bias=False)
    assert records_found(planted) == closure(planted)[-1] != set()


def test_a_bias_without_its_gradient_is_refused():
    layer = plant(gaussian(4, 40, 1), width=100).layer
    silent = LinearLayer("fc", layer.weight, layer.bias, layer.weight_gradient, None)
    factors = factor_gradient(silent.weight_gradient, generator=seeded(0))
    with pytest.raises(ValueError, match="gradient of the layer's bias"):
        PeelingDecoder(build_problem(silent, factors, Setting.SPARSE_GRADIENT))


def test_sparse_inputs_are_refused():
    planted = plant(gaussian(4, 40, 1), width=100, setting=Setting.SPARSE_INPUT)
    with pytest.raises(ValueError, match="peeling"):
        PeelingDecoder(planted.problem)


def test_near_duplicates_cost_no_other_record():
    # Of the two a difference may pass for a record: nothing but single neurons tells them apart.
    records = alike(12, 2)
    records[5] = records[4] + 1e-3 * gaussian(1, 40, 99)[0]
    planted = plant(records, width=300)
    found = torch.cat(rounds(planted.problem))
    agreement = (found @ planted.true_directions.T).abs().amax(0)
    others = [record for record in range(12) if record not in (4, 5)]
    assert bool((agreement[others] > 1 - 1e-9).all())
    assert len(found) <= 12


seeds = st.integers(0, 10_000)


@settings(max_examples=5)
@given(seeds, st.sampled_from([1e-20, -1e-3, 1e20]), st.floats(1e-3, 1e3))
def test_order_and_units_change_nothing(seed, factor, unit):
    planted = plant(alike(12, seed), width=200, seed=seed)
    order = torch.randperm(12, generator=seeded(seed))
    layer = planted.layer
    moved = LinearLayer(
        "fc",
        layer.weight / unit,
        layer.bias,
        planted.gradients[:, order] @ planted.records[order] * unit * factor,
        layer.bias_gradient * factor,
    )
    factors = factor_gradient(moved.weight_gradient, generator=seeded(0))
    problem = build_problem(moved, factors, Setting.SPARSE_GRADIENT)
    true_directions = torch.nn.functional.normalize((factors.left.T @ planted.gradients).T, dim=1)
    agreement = (torch.cat(rounds(problem)) @ true_directions.T).abs()
    assert bool((agreement.amax(1) > 1 - 1e-9).all())
    assert set(agreement.argmax(1).tolist()) == records_found(planted)
