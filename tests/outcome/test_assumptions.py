from __future__ import annotations

from dataclasses import replace

import pytest
from certify.settings import case

from gradaudit.evidence import Certificate, Status
from gradaudit.outcome import UNCONFIRMED, Hypothesis, Outcome, assumptions
from gradaudit.update import LocalTraining, Update
from outcome.material import outcome

GIVEN = Hypothesis(True, "cross_entropy", False)
GUESSED = Hypothesis(False, "cross_entropy", False)


def test_assumptions_say_what_the_attacker_has():
    sample = case(3)
    lines = assumptions(outcome(3), sample.update, GIVEN)
    assert "honest-but-curious" in lines[0]
    assert any("order of records" in line for line in lines)
    assert any("ReLU follows the layer" in line for line in lines)
    assert not any("guessed" in line for line in lines)
    interior = assumptions(outcome(3, role="interior"), sample.update, GIVEN)
    assert any("not the first one" in line for line in interior)
    single = assumptions(outcome(1, size=1), sample.update, GIVEN)
    assert any("Rank one means one record" in line for line in single)
    nothing = Outcome(Status.NOT_APPLICABLE, "", "")
    assert len(assumptions(nothing, sample.update, GUESSED)) == 3


def test_assumptions_say_which_model_was_confirmed():
    update = case(3).update
    made = replace(outcome(3), notes=("A remark.",))
    confirmed = replace(made, certificate=Certificate("full_gradient"))
    usual = Hypothesis(False, "binary_cross_entropy", False)
    line, note = assumptions(confirmed, update, usual)[-2:]
    assert "guessed" in line
    assert "binary_cross_entropy, not given" in line
    assert note == "A remark."
    assert not any("guessed" in line for line in assumptions(made, update, usual))


@pytest.mark.parametrize("hypothesis", [GIVEN, Hypothesis(False, "mse", True)])
def test_what_was_given_and_does_not_hold_is_said(hypothesis):
    update = case(3).update
    made = replace(outcome(3), notes=("A remark.",))
    line = assumptions(made, update, hypothesis)[-1]
    assert line.startswith(UNCONFIRMED)
    assert hypothesis.loss in line
    assert "as given" in line
    assert line.endswith("the layer alone. A remark.")
    # Where nothing is proven, there is no proof that could rest on anything.
    failed = assumptions(replace(outcome(0), notes=("A remark.",)), update, hypothesis)
    assert failed[-1] == "A remark."


def test_assumptions_describe_local_training_and_noise():
    update = case(3).update
    training = LocalTraining(epochs=3, batch_size=5, momentum=0.9)
    local = Update(update.weights, delta=update.observed, step=training, noise=0.25)
    line = assumptions(outcome(3), local, GIVEN)[1]
    for part in ("FedAvg", "3 epochs in batches of 5", "sgd, momentum 0.9", "deviation 0.25"):
        assert part in line
    assert "single batch (one step of FedSGD)" in assumptions(outcome(3), update, GIVEN)[1]
