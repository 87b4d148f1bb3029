"""Audits of layers that are too large for copies: the same verdict, from blocks."""

from __future__ import annotations

import pytest
import torch

import gradaudit as ga
from gradaudit.budget import Control
from gradaudit.cli.exit_codes import ExitCode, exit_code
from gradaudit.clients import FedSGD
from gradaudit.linear import blocks, factor
from gradaudit.models import mlp
from gradaudit.session import setup


@pytest.fixture
def streamed(monkeypatch):
    """Every layer is too large for copies, and blocks are of a few rows."""
    monkeypatch.setattr(factor, "WIDE_ENTRIES", 0)
    monkeypatch.setattr(blocks, "BLOCK_ENTRIES", 1000)


def client(records=8, *, dtype=torch.float32):
    generator = torch.Generator().manual_seed(4)
    inputs = torch.randn(records, 90, generator=generator, dtype=dtype)
    labels = torch.randint(5, (records,), generator=generator)
    return FedSGD(mlp(90, [150, 60], 5, dtype=dtype, seed=2)).update(inputs, labels)


def assert_recovered(result, truth):
    assert result.status is ga.Status.RECOVERED
    assert result.records_recovered == len(truth.inputs)
    distance = torch.cdist(result.records.double(), truth.inputs.flatten(1).double())
    assert float(distance.min(1).values.max()) < 1e-3


@pytest.mark.parametrize("records", [1, 8])
def test_records_and_proof_are_those_of_copies(streamed, records):
    update, truth = client(records)
    result = ga.audit(update)
    assert_recovered(result, truth)
    assert result.certificate.kind == "full_gradient"
    assert all(check.passed for check in result.certificate.checks)


def test_checks_measure_the_same(monkeypatch):
    update, _ = client()
    usual = ga.audit(update)
    monkeypatch.setattr(factor, "WIDE_ENTRIES", 0)
    monkeypatch.setattr(blocks, "BLOCK_ENTRIES", 1000)
    again = ga.audit(update)
    for one, other in zip(usual.certificate.checks, again.certificate.checks, strict=True):
        assert (one.name, one.passed) == (other.name, other.passed)
        # Largest singular values of noise come from below, by iterations of their own.
        assert other.value == pytest.approx(one.value, rel=0.1, abs=1e-12)


def test_a_record_left_out_is_seen(streamed):
    """Rank 9 of which the noise threshold is made to hide one: what is left over is no noise."""
    update, _ = client(9)
    gradient = dict(update.gradient)
    name = next(iter(gradient))
    left, values, right = torch.linalg.svd(gradient[name].double(), full_matrices=False)
    values[8] = values[0] * 1e-5
    gradient[name] = ((left * values) @ right).float()
    result = ga.audit(ga.Update(update.weights, gradient=gradient), budget=ga.Budget(seconds=3))
    assert result.records_recovered == 0


def test_noise(streamed):
    update, _ = client(3, dtype=torch.float64)
    generator = torch.Generator().manual_seed(5)
    level = 1e-3 * float(next(iter(update.gradient.values())).abs().max())
    noisy = {
        name: change + level * torch.randn(change.shape, generator=generator, dtype=torch.float64)
        for name, change in update.gradient.items()
    }
    result = ga.audit(ga.Update(update.weights, gradient=noisy, noise=level))
    assert result.certificate.kind == "within_noise"
    assert result.records_recovered == 3


def test_a_network_too_large_for_its_proof_is_left_out_and_it_is_said(monkeypatch):
    update, truth = client()
    monkeypatch.setattr(setup, "total_memory", lambda: 10**6)
    result = ga.audit(update, device="cpu")
    assert_recovered(result, truth)
    assert result.certificate.kind == "layer"
    assert result.labels == (None,) * 8
    assert any("the network's copies in float64 would take" in text for text in result.assumptions)


def test_a_limit_is_kept_or_the_update_refused():
    update, truth = client()
    result = ga.audit(update, budget=ga.Budget(memory=2 * 10**7), device="cpu")
    assert_recovered(result, truth)
    with pytest.raises(ga.InputError, match=r"memory: found a gradient of 150 x 90"):
        ga.audit(update, budget=ga.Budget(memory=1000))


@pytest.mark.parametrize("attack", ["auto", "cocktail-party"])
def test_an_interruption_ends_the_factoring_and_the_audit(streamed, attack):
    update, _ = client()
    control = Control()
    # Heard between the first layer and its first block: nothing of it is known yet.
    control.listener = lambda progress: control.interrupt()
    result = ga.audit(update, attack=attack, control=control, device="cpu")
    assert result.status is ga.Status.BUDGET_EXHAUSTED
    assert "gradient of layer 'fc1' was not factored to the end: interrupted." in result.cause
    assert "withstands" in result.remedy
    assert result.batch_size is None
    assert result.search.hurried
    assert [layer.reason.split()[0] for layer in result.layers] == ["The", "Not", "Not"]
    assert exit_code(result.status, result.cause) is ExitCode.UNFINISHED


def test_an_interruption_ends_the_search_for_the_batch_size(streamed):
    update, _ = client()
    control = Control()
    control.interrupt()
    model = mlp(90, [150, 60], 5, dtype=torch.float32, seed=2)
    result = ga.audit(update, model=model, attack="dlg", control=control, device="cpu")
    assert result.status is ga.Status.BUDGET_EXHAUSTED
    assert result.cause == "The batch size was not read from the gradient's rank: interrupted."
