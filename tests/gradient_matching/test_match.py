from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from gradaudit.budget import Budget, Control
from gradaudit.errors import InputError
from gradaudit.gradient_matching import (
    DLG,
    IDLG,
    INVERTING_GRADIENTS,
    Knowledge,
    UnsuitedError,
    make_target,
    match_gradient,
)
from gradaudit.update import Update
from gradient_matching.material import convolutional, fully_connected, sample

SHORT = replace(INVERTING_GRADIENTS, iterations=30, restarts=2, dtype=torch.float64)


def run(case, method, **options):
    options = {"control": Control(Budget(seconds=60)), "seed": 0} | options
    seed = options.pop("seed")
    return match_gradient(
        case.target,
        method,
        len(case.labels),
        generator=torch.Generator().manual_seed(seed),
        **options,
    )


def test_a_single_record_is_found_with_its_label():
    case = sample(convolutional(), (3,))
    found = run(case, replace(IDLG, restarts=1))
    assert found.classes.tolist() == [3]
    assert found.residual < 1e-14
    assert (found.records - case.inputs).abs().max() < 1e-10


def test_a_batch_is_found_up_to_its_order():
    case = sample(fully_connected(), (3, 1))
    found = run(case, replace(DLG, iterations=3000, restarts=1), labels=(1, 3))
    assert found.labels_from == "given"
    error = (found.records - case.inputs.flip(0).flatten(1).reshape(found.records.shape)).abs()
    assert error.max() < 1e-10


def test_signed_descent_comes_closer_and_stays_in_its_box():
    case = sample(convolutional(nn.ReLU), (3,))
    method = replace(SHORT, iterations=200, restarts=1, total_variation=0.0)
    found = run(case, method)
    assert found.distance < 0.05
    assert found.distance == pytest.approx(min(found.distances))
    # Signs have their scale: random images are about as bad as the best guess of a constant.
    assert (found.records - case.inputs).square().mean() < 0.3 * case.inputs.var()
    low, high = case.target.box
    assert bool(((found.records >= low) & (found.records <= high)).all())


def test_a_seed_decides_the_search():
    case = sample(convolutional(), (3, 0))
    first, again, other = (run(case, SHORT, seed=seed) for seed in (5, 5, 6))
    assert first.records.equal(again.records)
    assert not first.records.equal(other.records)


@pytest.mark.parametrize("method", [SHORT, replace(DLG, iterations=200)])
def test_an_interrupted_search_says_so(method):
    case = sample(convolutional(), (3,))
    seen = []
    control = Control(
        Budget(seconds=60), lambda progress: (seen.append(progress), control.interrupt())
    )
    found = run(case, method, control=control)
    assert found.stopped == "interrupted"
    assert seen[0].phase.startswith(method.name)
    assert seen[0].wanted == method.iterations
    assert bool(found.records.isfinite().all())


def test_refusals():
    case = sample(convolutional(), (3, 0))
    with pytest.raises(UnsuitedError, match="takes a batch of 1"):
        run(case, IDLG)
    delta = {name: -g for name, g in case.update.gradient.items()}
    update = Update(case.update.weights, delta=delta, preprocessing=case.update.preprocessing)
    target = make_target(case.model, update, "cross_entropy", Knowledge())
    unscaled = replace(case, target=target)
    with pytest.raises(UnsuitedError, match="learning rate"):
        run(unscaled, DLG)
    assert run(unscaled, replace(SHORT, iterations=5)).distance < 1


def test_labels_must_be_classes_and_a_loss_of_ones_own_needs_them():
    case = sample(convolutional(), (3,))
    with pytest.raises(InputError, match="the class 4"):
        run(case, DLG, labels=(4,))

    def own(outputs, labels):
        return nn.functional.cross_entropy(outputs, labels, reduction="none") * 2

    target = make_target(case.model, case.update, own, Knowledge())
    with pytest.raises(UnsuitedError, match="Give the labels"):
        run(replace(case, target=target), DLG)
    assert run(replace(case, target=target), SHORT, labels=(3,)).distance < 1


@pytest.mark.parametrize(
    "wrong",
    [{"distance": "l1"}, {"optimiser": "sgd"}, {"iterations": 0}, {"total_variation": -1.0}],
)
def test_impossible_settings(wrong):
    with pytest.raises(InputError, match=next(iter(wrong))):
        replace(DLG, **wrong)


def test_contradicting_knowledge():
    for wrong in ({"batch_size": 0}, {"labels": ()}, {"batch_size": 2, "labels": (1,)}):
        with pytest.raises(InputError):
            Knowledge(**wrong)
    assert Knowledge(labels=(1, 1)).records == 2
