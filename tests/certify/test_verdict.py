"""Why a record is certified or not, one reason at a time."""

from __future__ import annotations

import pytest
import torch

from certify.settings import case, draw
from gradaudit.linear.problem import Setting


def reasons(verdict) -> set[str]:
    return {evidence.reason for evidence in verdict.evidence}


def test_a_true_batch_has_no_reasons():
    sample = case(5)
    verdict = sample.judge(sample.inputs)
    assert reasons(verdict) == {""}
    assert verdict.certificate.kind == "layer"
    assert {check.name for check in verdict.certificate.checks} == {
        "records_in_row_space",
        "weight_gradient_residual",
        "bias_gradient_residual",
        "record_scales",
        "leftover_is_noise",
    }
    assert all(e.vanishing_entries > e.vanishing_needed for e in verdict.evidence)
    assert all(e.half_space_mismatches == 0 < e.half_space_rows for e in verdict.evidence)
    assert verdict.gradients.shape == (90, 5)


def test_the_order_of_records_and_the_gradients_factor_do_not_matter():
    sample = case(5)
    turned = sample.judge(sample.inputs.flip(0))
    first = sample.judge(sample.inputs)
    assert [e.vanishing_entries for e in turned.evidence] == [
        e.vanishing_entries for e in reversed(first.evidence)
    ]
    assert turned.recovered == 5


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_records_that_are_no_numbers(bad):
    sample = case(3)
    records = sample.inputs.clone()
    records[1, 4] = bad
    verdict = sample.judge(records)
    assert reasons(verdict) == {
        "The records are not independent, not finite, or not as many as the rank."
    }
    assert verdict.gradients is None


@pytest.mark.parametrize("count", [2, 4])
def test_records_of_another_number(count):
    sample = case(3)
    assert sample.judge(draw(count, 40, 9)).recovered == 0


def test_a_mixture_names_the_column_that_does_not_vanish():
    sample = case(4)
    records = sample.inputs.clone()
    records[0] += 0.5 * records[1]
    verdict = sample.judge(records)
    assert verdict.recovered == 0
    assert any("vanishes in" in r or "contradict" in r for r in reasons(verdict))


def test_scaled_records_fail_the_scale_check():
    sample = case(4)
    records = sample.inputs.clone()
    records[2] *= 1.001
    verdict = sample.judge(records)
    failed = {check.name for check in verdict.certificate.checks if not check.passed}
    assert verdict.recovered == 0
    assert failed == {"bias_gradient_residual", "record_scales"}


def test_a_small_record_does_not_hide_behind_a_large_one():
    """Errors are judged against each record's own size."""
    inputs = draw(3, 40, 1)
    inputs[0] *= 1e6
    sample = case(3, inputs=inputs)
    assert sample.judge(inputs).recovered == 3
    wrong = inputs.clone()
    wrong[2] += 1e-4 * draw(1, 40, 5)[0]
    assert sample.judge(wrong).recovered == 0


def test_records_that_activate_the_same_neurons_leave_mixtures_open():
    """Both ranks are there, but any mixture of the two has the same zeros and fits as well."""
    inputs = draw(3, 40, 0)
    inputs[2] = inputs[0] + 1e-3 * draw(1, 40, 7)[0]
    twins = case(3, inputs=inputs)
    layer = twins.problem.layer
    active = inputs @ layer.weight.T + layer.bias > 0
    assert torch.equal(active[0], active[2])
    for share in (0.0, 0.1, 0.5):
        records = inputs.clone()
        records[0] = (1 - share) * records[0] + share * records[2]
        verdict = twins.judge(records)
        assert verdict.recovered == 0
        assert "Its zeros fit a mixture with another record as well." in reasons(verdict)


def test_zero_weights_tell_no_record_from_a_mean():
    sample = case(1, hidden=())
    sample.problem.preactivation_map.zero_()
    verdict = sample.judge(sample.inputs)
    assert verdict.recovered == 0
    assert "zero weights" in verdict.evidence[0].reason


def test_sparse_inputs_certify_each_record_for_itself():
    """An interior layer's input: a wrong record does not spoil a right one."""
    inputs = (draw(4, 150, 3) - 0.3).clamp(min=0)
    sample = case(4, features=150, hidden=(), inputs=inputs, setting=Setting.SPARSE_INPUT)
    assert sample.judge(inputs).recovered == 4
    records = inputs.clone()
    records[0] = records[0] + records[1]
    verdict = sample.judge(records)
    assert not verdict.evidence[0].recovered


def test_without_a_bias_the_sign_must_fit():
    sample = case(4, bias=False)
    unit = sample.inputs / sample.inputs.norm(dim=1, keepdim=True)
    assert sample.judge(unit, scaled=False).recovered == 4
    unit[1] *= -1
    assert sample.judge(unit, scaled=False).recovered == 0


def test_one_record_without_a_bias_needs_silent_neurons_for_its_sign():
    for activation, expected in (("relu", 1), ("tanh", 0)):
        sample = case(1, bias=False, activation=activation)
        unit = sample.inputs / sample.inputs.norm()
        assert sample.judge(unit, scaled=False).recovered == expected
        assert sample.judge(-unit, scaled=False).recovered == 0


def test_the_network_adds_labels_and_the_full_gradient():
    sample = case(4, labels=[3, 1, 4, 1])
    verdict = sample.judge(sample.inputs, network=True)
    assert [e.label for e in verdict.evidence] == [3, 1, 4, 1]
    assert verdict.certificate.kind == "full_gradient"
    assert verdict.certificate.checks[-1].name == "full_gradient_residual"
    assert all(e.activation_gradient_residual < 1e-10 for e in verdict.evidence)


def test_the_network_certifies_where_zeros_are_too_few():
    """A narrow layer: the activation gradients of three classes' records are their own."""
    sample = case(2, neurons=16, seed=2)
    alone = sample.judge(sample.inputs)
    together = sample.judge(sample.inputs, network=True)
    assert alone.recovered == 0
    assert together.recovered == 2
    assert together.certificate.kind == "full_gradient"
    assert all(e.estimated_error is not None for e in together.evidence)
    assert torch.isfinite(together.gradients).all()
