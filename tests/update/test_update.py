from __future__ import annotations

import dataclasses
import json
import random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from gradaudit.errors import InputError
from gradaudit.preprocessing import Preprocessing
from gradaudit.tensorfile import read_tensors
from gradaudit.update import GradientStep, LocalTraining, Update, layer_name

Named = dict[str, Tensor]


@pytest.fixture
def weights() -> Named:
    return {"fc.weight": torch.arange(6.0).reshape(3, 2), "fc.bias": torch.ones(3)}


@pytest.fixture
def gradient() -> Named:
    return {"fc.weight": torch.ones(3, 2), "fc.bias": -torch.ones(3)}


def test_exactly_one_of_gradient_and_delta(weights, gradient):
    with pytest.raises(InputError, match="found neither of gradient and delta"):
        Update(weights)
    with pytest.raises(InputError, match="found both of gradient and delta"):
        Update(weights, gradient, gradient)
    assert Update(weights, gradient).observed_kind == "gradient"
    update = Update(weights, delta=gradient)
    assert update.observed_kind == "delta"
    assert update.observed is update.delta


@pytest.mark.parametrize("prefix", ["_module.", "module.", "_orig_mod.", "_orig_mod._module."])
def test_wrappers_prefixes_are_stripped(weights, gradient, prefix):
    wrapped = {prefix + name: tensor for name, tensor in gradient.items()}
    assert list(Update(weights, wrapped).observed) == list(gradient)
    assert list(Update({prefix + k: t for k, t in weights.items()}, gradient).weights) == list(
        weights
    )


def test_only_leading_prefixes_are_stripped():
    named = {"encoder.module.weight": torch.ones(2, 2), "modules.weight": torch.ones(2, 2)}
    assert list(Update(named, named).observed) == list(named)


def test_names_that_collide_once_stripped(weights, gradient):
    with pytest.raises(InputError, match=r"'fc\.bias' twice once prefixes are stripped"):
        Update(weights | {"module.fc.bias": torch.ones(3)}, gradient)


def test_frozen(weights, gradient):
    update = Update(weights, gradient, source={"u.pt": "00"})
    with pytest.raises(dataclasses.FrozenInstanceError):
        update.gradient = None  # type: ignore[misc]
    for mapping in (update.weights, update.observed, update.source):
        with pytest.raises(TypeError):
            mapping["fc.bias"] = torch.zeros(3)  # type: ignore[index]
    # Later changes of the caller's mappings do not reach it.
    weights.clear()
    gradient.clear()
    assert list(update.weights) == list(update.observed) == ["fc.weight", "fc.bias"]


def test_tensors_are_detached_and_not_copied(gradient):
    parameter = torch.nn.Parameter(torch.ones(3, 2))
    update = Update({"fc.weight": parameter}, {"fc.weight": gradient["fc.weight"]})
    assert not update.weights["fc.weight"].requires_grad
    assert update.weights["fc.weight"].data_ptr() == parameter.data_ptr()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"fc.bias": torch.ones(4)}, "gradient['fc.bias']: found shape (4,), expected (3,)"),
        ({"fd.bias": torch.ones(3)}, "gradient['fd.bias']: found a name that the weights do not"),
        ({"fc.bias": torch.tensor([1.0, float("nan"), 2.0])}, "1 of 3 values not finite"),
        ({"fc.bias": torch.tensor([float("inf"), -float("inf"), 2.0])}, "2 of 3 values not finite"),
        ({"fc.bias": torch.ones(3, dtype=torch.int32)}, "found int32"),
        ({"fc.bias": torch.ones(3, dtype=torch.complex64)}, "found complex64"),
        ({"fc.bias": torch.ones(3).to(torch.float8_e5m2)}, "found float8_e5m2"),
        ({"fc.bias": torch.ones(3).to_sparse()}, "found a sparse, quantized or empty tensor"),
        ({"fc.bias": torch.ones(3, device="meta")}, "found a sparse, quantized or empty tensor"),
        ({"fc.bias": [1.0, 1.0, 1.0]}, "found list under a str key"),
        ({3: torch.ones(3)}, "found Tensor under a int key"),
    ],
)
def test_validation_names_the_tensor(weights, gradient, change, said):
    with pytest.raises(InputError) as caught:
        Update(weights, gradient | change)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("empty", [{}, None, 3, [torch.ones(1)]])
@pytest.mark.wrong_types
def test_mappings_are_needed(weights, gradient, empty):
    with pytest.raises(InputError, match="expected"):
        Update(empty, gradient)
    with pytest.raises(InputError, match="expected"):
        Update(weights, empty)


def test_only_buffers_are_no_update(weights):
    counter = {"bn.num_batches_tracked": torch.tensor(3)}
    with pytest.raises(InputError, match="weights: found no floating-point tensors"):
        Update(counter, {"a": torch.ones(1)})
    with pytest.raises(InputError, match="delta: found no floating-point tensors"):
        Update(weights | counter, delta=counter)


def test_counters_are_dropped(weights, gradient):
    counter = {"bn.num_batches_tracked": torch.tensor(3)}
    update = Update(weights | counter, delta=gradient | counter)
    assert list(update.weights) == list(update.observed) == list(weights)


def test_large_finite_values_are_accepted():
    """Their sum overflows in half precision, not in fact."""
    half = {"w": torch.full((100,), 6e4, dtype=torch.float16)}
    double = {"w": torch.full((100,), 1.7e308, dtype=torch.float64)}
    assert Update(half, half).weights["w"].dtype == torch.float16
    assert Update(double, double).observed_kind == "gradient"


@pytest.mark.parametrize("rate", [0.0, -1.0, float("nan"), float("inf")])
def test_learning_rates(rate):
    with pytest.raises(InputError, match="expected a positive number"):
        GradientStep(rate)


def test_linear_layers():
    weights = {
        "conv.weight": torch.ones(2, 1, 3, 3),
        "a.weight": torch.ones(3, 2),
        "a.bias": torch.ones(3),
        "b.weight": torch.ones(4, 3),
        "norm.weight": torch.ones(4),
        "frozen.weight": torch.ones(2, 2),
        "c.weight": torch.ones(1, 4),
        "c.bias": torch.ones(1),
    }
    gradient = {k: 2 * t for k, t in weights.items() if k not in ("frozen.weight", "c.bias")}
    layers = {layer.name: layer for layer in Update(weights, gradient).linear_layers()}
    assert list(layers) == ["a", "b", "c"]
    assert layers["a"].shape == (3, 2)
    assert torch.equal(layers["a"].weight_gradient, gradient["a.weight"])
    assert torch.equal(layers["a"].bias, weights["a.bias"])
    assert torch.equal(layers["a"].bias_gradient, gradient["a.bias"])
    assert layers["b"].bias is None
    assert layers["b"].bias_gradient is None
    assert layers["c"].bias is not None
    assert layers["c"].bias_gradient is None


def test_layer_names():
    assert layer_name("net.0.weight") == "net.0"
    assert layer_name("weight") == ""


@given(st.randoms(use_true_random=False))
def test_digest_does_not_depend_on_order_or_strides(shuffler: random.Random):
    generator = torch.Generator().manual_seed(1)
    weights = {f"{i}.weight": torch.randn(3, 4, generator=generator) for i in range(4)}
    reference = Update(weights, weights).sha256()
    items = [
        (k, t.t().contiguous().t() if shuffler.random() < 0.5 else t) for k, t in weights.items()
    ]
    shuffler.shuffle(items)
    assert Update(dict(items), dict(reversed(items))).sha256() == reference


def test_digest_sees_every_difference(weights, gradient):
    bit = gradient["fc.weight"].clone()
    bit.view(torch.int32)[2, 1] ^= 1
    variants = [
        Update(weights, gradient),
        Update(weights, delta=gradient),
        Update(gradient, weights),
        Update(weights, gradient | {"fc.weight": bit}),
        Update(weights, {"fc.weight": gradient["fc.weight"]}),
        Update(weights, {k: t.double() for k, t in gradient.items()}),
        Update({k: t.reshape(-1) for k, t in weights.items()},
               {k: t.reshape(-1) for k, t in gradient.items()}),
    ]  # fmt: skip
    assert len({update.sha256() for update in variants}) == len(variants)


def test_digest_of_scalars_and_empty_tensors():
    named = {"scale": torch.tensor(2.0), "none.weight": torch.zeros(0, 3)}
    assert len(Update(named, named).sha256()) == 64


def test_digest_is_stable():
    """A published audit quotes it: it must not change with the version of this package."""
    named = {"a": torch.tensor([1.0, -2.0])}
    digest = "cb5b9c7e3bb37a8fcf8cfb077b3402ade5950b845990260fb80a5d3ac50b080f"
    assert Update(named, named).sha256() == digest


@pytest.mark.parametrize("kind", ["gradient", "delta"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_save(tmp_path, weights, gradient, kind, dtype):
    weights = {k: t.to(dtype) for k, t in weights.items()}
    observed = {k: t.to(dtype) for k, t in gradient.items()}
    grey = Preprocessing(image_shape=(1, 1, 2))
    update = Update(weights, **{kind: observed}, step=GradientStep(0.5), preprocessing=grey)
    update.save(tmp_path / "folder" / "u", notes={"round": "3"})
    tensors, metadata = read_tensors(tmp_path / "folder" / "u")
    expected = {f"weights/{k}": t for k, t in weights.items()}
    expected |= {f"{kind}/{k}": t for k, t in observed.items()}
    assert tensors.keys() == expected.keys()
    assert all(torch.equal(tensors[k], expected[k]) for k in expected)
    assert all(tensors[k].dtype == dtype for k in expected)
    assert metadata["format"] == "gradaudit.update"
    assert metadata["version"] == "1"
    assert metadata["note.round"] == "3"
    assert json.loads(metadata["step"]) == {"kind": "gradient", "learning_rate": 0.5}
    assert Preprocessing.from_json(metadata["preprocessing"]) == grey


def test_save_of_tied_weights(tmp_path):
    tied = torch.ones(2, 2)
    Update({"a": tied, "b": tied, "c": tied.t()}, {"a": tied}).save(tmp_path / "u")
    assert len(read_tensors(tmp_path / "u")[0]) == 4


@pytest.mark.parametrize(
    ("kind", "step", "scale"),
    [
        ("gradient", GradientStep(0.5), 1.0),
        ("delta", GradientStep(0.5), -0.5),
        ("delta", GradientStep(), None),
        ("delta", LocalTraining(0.5), -0.5),
        ("delta", LocalTraining(0.5, batch_size=4, records=3), -0.5),
        # Nesterov's first step looks ahead by its own gradient.
        ("delta", LocalTraining(0.5, momentum=0.5, nesterov=True), -0.75),
        ("delta", LocalTraining(0.5, epochs=2), None),
        ("delta", LocalTraining(0.5, batch_size=4), None),
        ("delta", LocalTraining(), None),
        ("delta", LocalTraining(0.5, optimizer="adam"), None),
    ],
)
def test_the_scale_of_a_single_gradient(weights, gradient, kind, step, scale):
    assert Update(weights, **{kind: gradient}, step=step).gradient_scale == scale


def test_local_training_sends_a_difference(weights, gradient):
    with pytest.raises(InputError, match="pass the update as delta"):
        Update(weights, gradient, step=LocalTraining())


@pytest.mark.parametrize("noise", [-1.0, float("nan"), float("inf"), "1", True])
@pytest.mark.wrong_types
def test_noise_is_a_standard_deviation(weights, gradient, noise):
    with pytest.raises(InputError, match="noise: found"):
        Update(weights, gradient, noise=noise)


def test_the_digest_is_of_what_was_observed_alone(weights, gradient):
    plain = Update(weights, delta=gradient)
    told = Update(weights, delta=gradient, step=LocalTraining(0.1), noise=0.5)
    assert plain.sha256() == told.sha256()
