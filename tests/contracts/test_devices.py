"""Every device gives the same answer, and a search does not wait for its device step by step.

Without a GPU the first is checked as far as a CPU can: where tensors that name no device would be
made on another one, an audit works as before.
"""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from linear.planted import gaussian, plant, seeded
from torch.utils._python_dispatch import TorchDispatchMode

import gradaudit as ga
from gradaudit.clients import FedSGD
from gradaudit.linear import factor
from gradaudit.linear.disaggregate import disaggregate
from gradaudit.linear.factor import factor_gradient
from gradaudit.linear.invert import invert
from gradaudit.linear.moment import Phase, iterate
from gradaudit.linear.problem import Setting, build_problem
from gradaudit.linear.proposers import PROPOSERS
from gradaudit.models import mlp
from gradaudit.noisy import recover_under_noise

OTHERS = [
    pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA"))
]
# Operations that make a program wait for a GPU: they give it a number, or sizes that it needs.
WAITS = ("_local_scalar_dense", "nonzero", "equal", "is_nonzero", "unique", "_unique2")


class Waits(TorchDispatchMode):
    """Counts what would wait for a GPU."""

    def __init__(self):
        super().__init__()
        self.seen = Counter()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function.overloadpacket.__name__
        if name in WAITS:
            self.seen[name] += 1
        return function(*args, **(kwargs or {}))

    @property
    def count(self):
        return sum(self.seen.values())


def client(records, dtype=torch.float32):
    inputs = torch.randn(records, 90, generator=seeded(4), dtype=dtype)
    labels = torch.randint(5, (records,), generator=seeded(5))
    return FedSGD(mlp(90, [150, 60], 5, dtype=dtype, seed=2)).update(inputs, labels)


@pytest.mark.parametrize("device", OTHERS)
@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    ("attack", "records"),
    [("auto", 1), ("auto", 8), ("halfspace", 8), ("peeling", 8), ("spear", 4), ("spear++", 4)],
)
def test_a_device_gives_the_answer_of_the_cpu(device, attack, records, streamed, monkeypatch):
    if streamed:
        monkeypatch.setattr(factor, "WIDE_ENTRIES", 0)
    update, _ = client(records)
    here, there = (ga.audit(update, attack=attack, device=place) for place in ("cpu", device))
    assert there.search.device.startswith(device)
    assert (there.status, there.batch_size) == (here.status, here.batch_size)
    assert there.certificate.kind == here.certificate.kind
    assert there.records_recovered == here.records_recovered
    distance = torch.cdist(there.records.cpu().double(), here.records.double())
    errors = max(float(e.estimated_error) for e in here.evidence)
    assert float(distance.min(1).values.max()) < 20 * errors * 90**0.5


@pytest.mark.parametrize("device", OTHERS)
def test_blocks_of_a_matrix_that_stays_on_the_host(device):
    gradient = (gaussian(600, 5, 0) @ gaussian(5, 700, 1)).float()
    here = factor_gradient(gradient, generator=seeded(0))
    generator = torch.Generator(device).manual_seed(0)
    there = factor_gradient(gradient, generator=generator, memory=2 * 10**7)
    assert there.streamed
    assert there.right.device.type == device
    assert torch.allclose(there.values.cpu(), here.values, rtol=1e-9)


def test_a_search_multiplies_in_full_float32_and_leaves_the_setting_as_it_was():
    update, _ = client(4)
    seen = []
    control = ga.Control(
        listener=lambda progress: seen.append(torch.get_float32_matmul_precision())
    )
    torch.set_float32_matmul_precision("medium")
    try:
        ga.audit(update, control=control)
        assert set(seen) == {"highest"}
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision("highest")


def problem(batch=6, width=160, dtype=torch.float32):
    return plant(gaussian(batch, 120, 3), width=width, factor_like=dtype).problem


@pytest.mark.parametrize("name", sorted(PROPOSERS))
def test_searches_name_the_device_of_every_tensor(name):
    batch = 4 if name in ("submatrix", "spear") else 6
    found = problem(batch)
    with torch.device("meta"):
        inversion = invert(
            found,
            proposer=name,
            generator=seeded(1),
            control=ga.Control(ga.Budget(seconds=20)),
        )
    assert inversion.batch is not None
    assert inversion.batch.records.device.type == "cpu"


@pytest.mark.parametrize("streamed", [False, True])
def test_factors_problem_and_records_do_too(streamed, monkeypatch):
    planted = plant(gaussian(6, 120, 3), width=160, factor_like=torch.float32)
    if streamed:
        monkeypatch.setattr(factor, "WIDE_ENTRIES", 0)
    with torch.device("meta"):
        factors = factor_gradient(planted.layer.weight_gradient, generator=seeded(0))
        again = build_problem(planted.layer, factors, Setting.SPARSE_GRADIENT)
        batch = disaggregate(again, torch.eye(6, dtype=torch.float64, device="cpu"))
    assert factors.rank == 6
    assert batch.records.device.type == "cpu"


def test_a_search_under_noise_does_too():
    planted = plant(gaussian(3, 120, 3), width=160)
    gradient = planted.layer.weight_gradient
    noisy = gradient + 1e-3 * gradient.abs().max() * gaussian(*gradient.shape, 5)
    factors = factor_gradient(noisy, generator=seeded(0))
    noisy_problem = build_problem(planted.layer, factors, Setting.SPARSE_GRADIENT)
    with torch.device("meta"):
        recovery = recover_under_noise(
            noisy_problem, generator=seeded(0), control=ga.Control(ga.Budget(seconds=20))
        )
    assert recovery.batch is not None


@pytest.mark.parametrize("iterations", [15, 60])
def test_the_half_space_iteration_waits_once_in_fifteen(iterations):
    rows = torch.linalg.qr(problem().unit_rows).Q
    rows = (rows * len(rows) ** 0.5).float()
    starts = torch.nn.functional.normalize(gaussian(20, 6, 1).float(), dim=1)
    link = torch.eye(6)
    with Waits() as waits:
        phases = (Phase(iterations, 1.0, 0.5),)
        iterate(rows, rows.clone(), link, starts, phases, away_from=torch.zeros(6, 0))
    assert waits.count <= iterations // 15


# Steps of a round that would each wait if one did: iterations of all starts, of sharpening, of the
# descent on the sphere.
@pytest.mark.parametrize(("name", "most"), [("halfspace", 80), ("spear++", 80), ("spear", 30)])
def test_a_round_waits_seldom(name, most):
    found = problem(20, 200) if name == "halfspace" else problem(6)
    search = PROPOSERS[name](found)
    with Waits() as waits:
        search.propose(seeded(2), found.zeros_needed + 1, found=None)
    assert waits.count <= most, waits.seen
