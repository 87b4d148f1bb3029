"""Photos, digits and table rows from real data: all recovered, all proven, all right."""

from __future__ import annotations

import pytest
import torch
from certify.settings import audited, errors

from gradaudit.budget import Budget
from gradaudit.clients import FedSGD
from gradaudit.data import load_source
from gradaudit.evidence import Status
from gradaudit.models import mlp

PATIENT = Budget(seconds=60)


def recover(source, batch, widths, *, seed=0, dtype="float64", scale=None, **options):
    drawn = source.batch(batch, seed=seed)
    inputs = drawn.inputs if scale is None else scale(drawn.inputs)
    model = mlp(inputs[0].numel(), widths, source.classes, dtype=dtype, seed=seed)
    inputs = inputs.to(getattr(torch, dtype))
    update, truth = FedSGD(model, **options).update(inputs, drawn.labels, drawn.preprocessing)
    return audited(update, truth, None, PATIENT), truth


def check(result, truth, largest):
    assert result.status is Status.RECOVERED, result.cause
    assert result.records_recovered == len(truth.inputs)
    assert result.certificate.kind == "full_gradient"
    inputs = truth.inputs.flatten(1).double()
    assert float(errors(result.records, inputs).max()) < largest
    nearest = torch.cdist(result.records, inputs).argmin(1)
    assert list(result.labels) == truth.labels[nearest].tolist()


@pytest.mark.parametrize("seed", range(3))
def test_cifar(data_folder, seed):
    source = load_source(str(data_folder / "cifar10_2000.npz"))
    result, truth = recover(source, 10, [200] * 5, seed=seed)
    check(result, truth, 1e-6)
    assert result.shaped_records().shape == (10, 3, 32, 32)
    assert len(result.layers) == 6


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_mnist(data_folder, dtype):
    source = load_source(str(data_folder / "mnist_3000.npz"))
    check(*recover(source, 8, [200, 200], dtype=dtype), 1e-6)


@pytest.mark.parametrize("gradient", ["float64", "float32"])
def test_mnist_in_unit_range(data_folder, gradient):
    source = load_source(f"{data_folder / 'mnist_3000.npz'}?normalise=unit")
    result, truth = recover(source, 6, [200, 200], gradient_dtype=gradient)
    check(result, truth, 1e-6)
    assert float(truth.inputs.min()) >= 0


def test_mnist_difference_of_float32_weights(data_folder):
    source = load_source(str(data_folder / "mnist_3000.npz"))
    result, truth = recover(
        source, 5, [200, 200], dtype="float32", observe="delta", learning_rate=0.5
    )
    check(result, truth, 1e-4)


@pytest.mark.parametrize("batch", [1, 8, 16])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_rows_of_a_table(data_folder, dtype, batch):
    source = load_source(str(data_folder / "adult_4000.csv.gz"))
    result, truth = recover(source, batch, [200, 100], dtype=dtype, seed=2)
    check(result, truth, 1e-3)
    rows = result.preprocessing.to_rows(result.records.numpy())
    true = truth.preprocessing.to_rows(truth.inputs.double().numpy())
    assert sorted(row["education"] for row in rows) == sorted(row["education"] for row in true)


def test_digits():
    pytest.importorskip("sklearn")
    check(*recover(load_source("digits"), 6, [150, 60]), 1e-9)
