import sys

import pytest
import torch
from torch import nn

from gradaudit.errors import InputError
from gradaudit.models import mlp, parse_model, parse_model_on


def test_mlp_text():
    text = "mlp:6-5-4-3?activation=tanh&init=normal&init_std=0.5&bias=false&dtype=float64"
    ours = parse_model(text, seed=4)
    same = mlp(
        6, [5, 4], 3, activation="tanh", init="normal", init_std=0.5, bias=False, seed=4,
        dtype=torch.float64,
    )  # fmt: skip
    assert str(ours) == str(same)
    assert list(ours.state_dict()) == list(same.state_dict())
    assert all(torch.equal(a, b) for a, b in zip(ours.parameters(), same.parameters(), strict=True))


@pytest.fixture
def module(tmp_path, monkeypatch):
    (tmp_path / "a_users_model.py").write_text(
        "import torch\n"
        "def factory(): return torch.nn.Linear(3, 2)\n"
        "instance = torch.nn.Linear(2, 2)\n"
        "number = 5\n"
        "def broken(): raise RuntimeError('two\\nlines')\n"
        "def needs(x): return x\n"
        "def leaves(): raise SystemExit(0)\n"
    )
    monkeypatch.chdir(tmp_path)
    yield "a_users_model"
    sys.modules.pop("a_users_model", None)


def test_factory_in_the_current_folder(module):
    path, state = list(sys.path), torch.random.get_rng_state()
    first, again = (parse_model(f"{module}:factory", seed=5) for _ in range(2))
    assert torch.equal(first.weight, again.weight)
    assert not torch.equal(first.weight, parse_model(f"{module}:factory", seed=6).weight)
    generator = torch.Generator().manual_seed(1)
    drawn = parse_model(f"{module}:factory", generator=generator)
    assert not torch.equal(
        drawn.weight, parse_model(f"{module}:factory", generator=generator).weight
    )
    assert isinstance(parse_model(f"{module}:instance"), nn.Linear)
    assert sys.path == path
    assert torch.equal(torch.random.get_rng_state(), state)


@pytest.mark.parametrize("attribute", ["number", "broken", "needs", "leaves", "absent"])
def test_factories_that_fail_are_one_line(module, attribute):
    with pytest.raises(InputError) as caught:
        parse_model(f"{module}:{attribute}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    ["", "mlp", "mlp:", "mlp:5", "mlp:5-x", "mlp:5--2", "mlp:5-2?depth=3", "no.such:thing",
     "mlp:5-2?bias=maybe", ":x"],
)  # fmt: skip
def test_bad_text(text):
    with pytest.raises(InputError, match="model"):
        parse_model(text)


@pytest.mark.parametrize(
    "text",
    [
        f"mlp:{'9' * 5000}-2",
        f"mlp:{'9' * 4000}-{'9' * 4000}-2",
        "lenet?num_classes=" + "9" * 30,
        "resnet18?width=999999999",
        "cnn6?input_shape=3,99999999999,99999999999",
    ],
)
def test_sizes_without_end(text):
    with pytest.raises(InputError) as caught:
        parse_model_on(text, None, seed=0)
    assert len(str(caught.value)) < 2_000


@pytest.mark.parametrize(
    ("text", "asked", "shape"),
    [
        ("lenet", None, (1, 28, 28)),
        ("lenet", (3, 32, 32), (3, 32, 32)),
        ("lenet?num_classes=10", (3, 20, 24), (3, 20, 24)),
        ("cnn6?input_shape=1,16,16", None, (1, 16, 16)),
        ("cnn6?input_shape=1,16,16", (1, 16, 16), (1, 16, 16)),
        ("mlp:12-5-3", None, (12,)),
        ("mlp:12-5-3", (3, 2, 2), (3, 2, 2)),
    ],
)
def test_records_that_a_text_s_network_takes(text, asked, shape):
    model, found = parse_model_on(text, asked, seed=1)
    assert found == shape
    assert len(model(torch.zeros(2, *shape))) == 2


@pytest.mark.parametrize(
    ("text", "asked"),
    [("cnn6?input_shape=1,16,16", (3, 32, 32)), ("torch.nn:Identity", None), ("mlp:x-3", None)],
)
def test_records_that_do_not_fit_or_are_unknown(text, asked):
    with pytest.raises(InputError):
        parse_model_on(text, asked)
