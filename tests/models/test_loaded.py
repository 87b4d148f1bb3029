from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.func import functional_call

from gradaudit.errors import InputError
from gradaudit.models.loaded import load_model
from gradaudit.update import Update


def update_of(module: nn.Module) -> Update:
    weights = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    named = {name: torch.full_like(p, 2.0) for name, p in module.named_parameters()}
    return Update(weights, gradient=named)


def test_the_weights_are_the_updates_and_the_model_is_not_touched():
    module = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)).train()
    update = update_of(module)
    other = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)).train()
    before = {name: tensor.clone() for name, tensor in other.state_dict().items()}
    loaded = load_model(other, update)
    inputs = torch.randn(4, 3, dtype=torch.float64)
    found = functional_call(loaded.module, loaded.tensors, (inputs,))
    assert torch.allclose(found, module.double().eval()(inputs))
    assert other.training
    assert all(before[name].equal(tensor) for name, tensor in other.state_dict().items())


def test_wrapped_models_keep_their_own_names():
    module = nn.Linear(3, 2)
    wrapper = nn.ModuleDict({"_orig_mod": nn.Linear(3, 2)})
    loaded = load_model(wrapper, update_of(module))
    assert set(loaded.observed) == {"_orig_mod.weight", "_orig_mod.bias"}
    assert loaded.tensors["_orig_mod.weight"].equal(module.weight.detach().double())


@pytest.mark.parametrize(
    "model", [nn.Linear(3, 2, bias=False), nn.Linear(4, 2), nn.Bilinear(3, 3, 2)]
)
def test_another_model_is_refused(model):
    with pytest.raises(InputError, match="model"):
        load_model(model, update_of(nn.Linear(3, 2)))


def test_hooks_of_opacus_are_taken_off_the_copy():
    """They fail on passes that Opacus does not expect; here they count that they were called."""
    module = nn.Linear(3, 2)
    calls = []
    module.autograd_grad_sample_hooks = [
        module.register_forward_hook(lambda *arguments: calls.append("forward")),
        module.register_full_backward_hook(lambda *arguments: calls.append("backward")),
    ]
    loaded = load_model(module, update_of(module))
    inputs = torch.ones(1, 3, dtype=torch.float64, requires_grad=True)
    functional_call(loaded.module, loaded.tensors, (inputs,)).sum().backward()
    assert not calls
    module(torch.ones(1, 3, requires_grad=True)).sum().backward()
    assert calls == ["forward", "backward"]


@pytest.mark.parametrize("prefix", ["net.", "model.encoder."])
def test_a_model_is_put_where_the_update_has_it(prefix):
    module = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)).eval()
    plain = update_of(module)
    weights = {prefix + name: tensor for name, tensor in plain.weights.items()}
    gradient = {prefix + name: tensor for name, tensor in plain.gradient.items()}
    loaded = load_model(module, Update(weights, gradient))
    assert set(loaded.observed) == set(gradient)
    assert isinstance(loaded.network[1], nn.BatchNorm1d)
    assert not any(part.training for part in loaded.module.modules())
    inputs = torch.randn(4, 3, dtype=torch.float64)
    found = functional_call(loaded.module, loaded.tensors, (inputs,))
    assert torch.allclose(found, module.double()(inputs))


def test_no_module_is_called_like_a_method():
    module = nn.Linear(3, 2)
    named = {f"forward.{name}": tensor for name, tensor in update_of(module).gradient.items()}
    with pytest.raises(InputError, match=r"without the prefix 'forward\.'"):
        load_model(module, Update(named, named))
