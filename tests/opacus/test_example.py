"""The example that users run, on a real run of Opacus."""

from __future__ import annotations

import importlib.util
import statistics
import sys
from pathlib import Path

import pytest

pytest.importorskip("opacus.optimizers")
pytest.importorskip("sklearn")
pytestmark = [
    pytest.mark.filterwarnings("ignore:Secure RNG turned off"),
    pytest.mark.filterwarnings("ignore:Full backward hook is firing"),
    pytest.mark.filterwarnings("ignore:Optimal order is"),
]
EXAMPLE = Path(__file__).parents[2] / "examples" / "opacus_audit.py"


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("opacus_audit", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    # Its dataclass looks itself up.
    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.setitem(sys.modules, "opacus_audit", module)
    spec.loader.exec_module(module)
    yield module
    monkeypatch.undo()


def test_clipping_alone_hides_nothing(example):
    row = example.audit_step(0.0)
    assert row.noise == 0
    assert row.epsilon == float("inf")
    assert row.result.records_recovered == row.batch_size == 13
    # Float32 gradients: the audit predicts 2e-7 of the inputs.
    assert row.pixel_error < 1e-5


def test_a_little_noise_makes_records_inexact_by_what_the_audit_says(example):
    errors = []
    for noise_multiplier in (1e-6, 1e-4):
        row = example.audit_step(noise_multiplier)
        assert row.result.records_recovered >= 7
        (deviation,) = example.DIGITS.preprocessing.std
        estimated = [deviation * record.estimated_error for record in row.result.evidence]
        # The largest error of 64 pixels is 2.5 standard errors in the median, and twice as much is
        # what the estimate may be off by. It may be far too large: a neuron close to its boundary
        # looks like a share of another record, and is counted as one.
        assert row.pixel_error / statistics.median(estimated) < 5
        errors.append(row.pixel_error)
    assert row.result.certificate.kind == "within_noise"
    assert 50 < errors[1] / errors[0] < 200


def test_nothing_is_recovered_at_the_usual_noise(example):
    row = example.audit_step(1.0)
    assert row.noise == 1.0 / 11
    assert 1 < row.epsilon < 3
    assert row.result.records_recovered == 0


def test_it_prints_a_line_for_every_noise_level(example, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["opacus_audit.py", "--noise", "0", "10", "--seconds", "20"])
    example.main()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 5
    assert lines[1].split()[3:6] == ["13", "of", "13"]
    assert lines[3].split()[3:6] == ["0", "of", "13"]
