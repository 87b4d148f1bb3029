"""What every defence must fulfil, and what each does to a multiple of its input."""

from __future__ import annotations

import pytest
import torch

from gradaudit.clients import FedAvg, FedSGD
from gradaudit.defenses import (
    DEFENSES,
    RecordDefense,
    RepresentationDefense,
    SentDefense,
    parse_defense,
)
from gradaudit.models import mlp
from gradaudit.update import LocalTraining

# By registered name: settings, and the power of a positive factor that comes out of the defence
# (None where it draws noise of a fixed size or bounds the norm).
EXAMPLES = {
    "clip-per-record": ("norm=0.1", None),
    "dp-sgd": ("clip=0.1,noise=0.01", None),
    "clip-update": ("norm=0.01", 0),
    "gaussian-noise": ("deviation=0.01", None),
    "prune": ("share=0.75", 1),
    "sign": ("", 0),
    "quantise": ("bits=3,rounding=stochastic", 1),
    "mask": ("share=0.5,seed=2", 1),
    "soteria": ("share=0.5", 1),
}
SENT = sorted(name for name, kind in DEFENSES.items() if issubclass(kind, SentDefense))
ON_RECORDS = sorted(name for name, kind in DEFENSES.items() if issubclass(kind, RecordDefense))
ON_REPRESENTATIONS = sorted(
    name for name, kind in DEFENSES.items() if issubclass(kind, RepresentationDefense)
)


def made(name: str):
    return parse_defense(f"{name}:{EXAMPLES[name][0]}")


def changes(seed: int = 0, dtype=torch.float64, rows: tuple[int, ...] = ()) -> dict:
    generator = torch.Generator().manual_seed(seed)
    shapes = {"a.weight": (5, 4), "a.bias": (5,), "conv.weight": (2, 3, 2, 2), "scale": ()}
    return {
        name: torch.randn((*rows, *shape), generator=generator, dtype=torch.float64).to(dtype)
        for name, shape in shapes.items()
    }


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_every_defence_is_tried_here():
    assert EXAMPLES.keys() == DEFENSES.keys()
    assert {*SENT, *ON_RECORDS, *ON_REPRESENTATIONS} == DEFENSES.keys()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", SENT)
def test_names_shapes_and_types_are_kept(name, dtype):
    before = changes(dtype=dtype)
    copy = {key: tensor.clone() for key, tensor in before.items()}
    after = made(name).on_sent(before, seeded())
    assert list(after) == list(before)
    for key, tensor in after.items():
        assert (tensor.shape, tensor.dtype) == (before[key].shape, dtype)
        assert bool(torch.isfinite(tensor).all())
        # What was given is left alone.
        assert torch.equal(before[key], copy[key])


@pytest.mark.parametrize("name", SENT)
def test_something_is_changed_and_seeds_decide(name):
    defense = made(name)
    first, again, other = (defense.on_sent(changes(), seeded(seed)) for seed in (3, 3, 4))
    assert any(not torch.equal(first[key], tensor) for key, tensor in changes().items())
    assert all(torch.equal(first[key], again[key]) for key in first)
    draws = name in ("gaussian-noise", "quantise")
    assert draws == any(not torch.equal(first[key], other[key]) for key in first)


@pytest.mark.parametrize("name", [n for n in SENT if EXAMPLES[n][1] is not None])
def test_a_positive_factor_comes_out_as_its_power(name):
    # A power of two, which rounds nothing.
    defense, power = made(name), EXAMPLES[name][1]
    scaled = defense.on_sent({key: 4 * t for key, t in changes().items()}, seeded())
    for key, tensor in defense.on_sent(changes(), seeded()).items():
        torch.testing.assert_close(scaled[key], 4.0**power * tensor, rtol=1e-14, atol=0)


@pytest.mark.parametrize("name", ["gaussian-noise"])
def test_noise_does_not_depend_on_what_it_is_added_to(name):
    zero = {key: torch.zeros_like(t) for key, t in changes().items()}
    noise = made(name).on_sent(zero, seeded())
    for key, tensor in made(name).on_sent(changes(), seeded()).items():
        torch.testing.assert_close(tensor, changes()[key] + noise[key], rtol=0, atol=1e-14)


@pytest.mark.parametrize("name", SENT)
def test_nothing_to_send_stays_nothing(name):
    zero = {key: torch.zeros_like(t) for key, t in changes().items()}
    sent = made(name).on_sent(zero, seeded())
    assert name == "gaussian-noise" or not any(bool(t.any()) for t in sent.values())


@pytest.mark.parametrize("name", ON_RECORDS)
def test_records_are_changed_each_by_itself(name):
    defense, rows = made(name), changes(rows=(6,))
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    together = defense.on_records(rows)
    permuted = defense.on_records({key: t[order] for key, t in rows.items()})
    single = defense.on_records({key: t[2:3] for key, t in rows.items()})
    for key, tensor in together.items():
        assert tensor.shape == rows[key].shape
        assert not torch.equal(tensor, rows[key])
        torch.testing.assert_close(permuted[key], tensor[order], rtol=1e-14, atol=0)
        torch.testing.assert_close(single[key], tensor[2:3], rtol=1e-14, atol=0)


@pytest.mark.parametrize("name", ON_REPRESENTATIONS)
def test_gradients_are_changed_at_one_layer_each_record_by_itself(name):
    defense, model = made(name), mlp(5, [7], 3, seed=1, dtype="float64")
    inputs, _ = batch()
    generator = torch.Generator().manual_seed(2)
    rows = {
        key: torch.randn(6, *p.shape, generator=generator, dtype=torch.float64)
        for key, p in model.named_parameters()
    }
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    together = defense.on_representations(model, inputs, rows)
    permuted = defense.on_representations(
        model, inputs[order], {key: t[order] for key, t in rows.items()}
    )
    assert [key for key in rows if not torch.equal(together[key], rows[key])] == ["fc2.weight"]
    for key, tensor in together.items():
        assert tensor.shape == rows[key].shape
        assert torch.equal(permuted[key], tensor[order])


def batch(size: int = 6):
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(size, 5, generator=generator, dtype=torch.float64)
    return inputs, torch.randint(3, (size,), generator=generator)


def clients(**more):
    model = mlp(5, [7], 3, seed=1, dtype="float64")
    training = LocalTraining(0.1, epochs=2, batch_size=4)
    yield FedSGD(model, **more)
    yield FedSGD(model, observe="delta", learning_rate=0.1, **more)
    yield FedAvg(model, training=training, **more)


@pytest.mark.parametrize("name", sorted(DEFENSES))
def test_every_client_takes_it(name):
    plain = [client.update(*batch())[0] for client in clients()]
    for client, without in zip(clients(defenses=[made(name)]), plain, strict=True):
        update = client.update(*batch())[0]
        again = client.update(*batch())[0]
        assert update.observed_kind == without.observed_kind
        assert update.sha256() == again.sha256() != without.sha256()
        assert (update.noise is not None) == (name in ("dp-sgd", "gaussian-noise"))


@pytest.mark.parametrize("name", ["clip-per-record", "prune", "soteria"])
def test_the_order_of_records_in_a_batch_leaves_no_trace(name):
    inputs, labels = batch()
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    client = FedSGD(mlp(5, [7], 3, seed=1, dtype="float64"), defenses=[made(name)])
    first = client.update(inputs, labels)[0].gradient
    other = client.update(inputs[order], labels[order])[0].gradient
    for key, tensor in first.items():
        torch.testing.assert_close(other[key], tensor, rtol=1e-12, atol=1e-15)
