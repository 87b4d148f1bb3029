import copy

import pytest
import torch
from torch import nn

from gradaudit.clients import FedSGD
from gradaudit.errors import InputError
from gradaudit.models import mlp
from gradaudit.preprocessing import Preprocessing


def batch(size=4, features=6, classes=3, dtype=torch.float64):
    generator = torch.Generator().manual_seed(9)
    inputs = torch.randn(size, features, generator=generator, dtype=dtype)
    return inputs, torch.randint(classes, (size,), generator=generator)


def test_gradient_by_hand():
    # One layer and softmax cross-entropy: dL/dW = (p - onehot)^T X / b, dL/db = mean(p - onehot).
    model = mlp(2, [], 2, dtype="float64")
    weight = torch.tensor([[1.0, -2.0], [0.5, 3.0]], dtype=torch.float64)
    model.load_state_dict({"fc1.weight": weight, "fc1.bias": torch.tensor([0.25, -1.0])})
    inputs = torch.tensor([[1.0, 2.0], [-1.0, 0.5]], dtype=torch.float64)
    labels = torch.tensor([0, 1])
    update, truth = FedSGD(model).update(inputs, labels)
    logits = inputs @ weight.T + torch.tensor([0.25, -1.0])
    error = logits.exp() / logits.exp().sum(dim=1, keepdim=True) - torch.eye(2)
    torch.testing.assert_close(update.gradient["fc1.weight"], error.T @ inputs / 2)
    torch.testing.assert_close(update.gradient["fc1.bias"], error.mean(dim=0))
    assert torch.equal(truth.inputs, inputs)
    assert torch.equal(truth.labels, labels)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("loss", ["cross_entropy", "mse", nn.CrossEntropyLoss(reduction="none")])
def test_gradient_is_autograds(loss, reduction):
    model = mlp(6, [5], 3, seed=1, dtype="float64")
    inputs, labels = batch()
    update, _ = FedSGD(model, loss, reduction=reduction).update(inputs, labels)
    reference = copy.deepcopy(model)
    criterion = nn.CrossEntropyLoss(reduction=reduction)
    target, divisor = labels, 1
    if loss == "mse":
        criterion = nn.MSELoss(reduction=reduction)
        target = nn.functional.one_hot(labels, 3).double()
        divisor = 3 if reduction == "sum" else 1
    (criterion(reference(inputs), target) / divisor).backward()
    for name, parameter in reference.named_parameters():
        torch.testing.assert_close(update.gradient[name], parameter.grad)
        assert torch.equal(update.weights[name], parameter)


def test_binary_gradient():
    inputs, labels = batch(classes=2)
    model = mlp(6, [4], 1, seed=1, dtype="float64")
    update, _ = FedSGD(model, "binary_cross_entropy").update(inputs, labels)
    reference = copy.deepcopy(model)
    nn.BCEWithLogitsLoss()(reference(inputs)[:, 0], labels.double()).backward()
    torch.testing.assert_close(update.gradient["fc1.weight"], reference.fc1.weight.grad)


class Everything(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(6, 5)
        self.norm = nn.BatchNorm1d(5)
        self.drop = nn.Dropout(0.5)
        self.last = nn.Linear(5, 3)
        self.frozen = nn.Linear(2, 2).requires_grad_(False)
        self.unused = nn.Linear(2, 2)

    def forward(self, x):
        return self.last(self.drop(self.norm(self.first(x).relu())))


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("mode", [False, True])
def test_the_callers_model_is_left_alone(train, mode):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        model = Everything().train(mode)
    before = copy.deepcopy(model.state_dict())
    state = torch.random.get_rng_state()
    update, _ = FedSGD(model, train=train).update(*batch())
    assert all(torch.equal(tensor, before[n]) for n, tensor in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())
    assert {m.training for m in model.modules()} == {mode}
    assert torch.equal(torch.random.get_rng_state(), state)
    # What is recorded as the start are the weights and buffers from before the step.
    assert torch.equal(update.weights["norm.running_mean"], before["norm.running_mean"])
    assert "frozen.weight" not in update.gradient
    assert not update.gradient["unused.weight"].any()
    # Later training must not reach into a recorded update.
    with torch.no_grad():
        model.first.weight.zero_()
    assert torch.equal(update.weights["first.weight"], before["first.weight"])


def test_modes_differ_and_training_is_repeatable():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        model = Everything()
    evaluated, trained, again, other = (
        FedSGD(model, train=train, seed=seed).update(*batch())[0].gradient["last.weight"]
        for train, seed in ((False, 0), (True, 0), (True, 0), (True, 1))
    )
    assert torch.equal(trained, again)
    assert not torch.allclose(trained, evaluated)
    assert not torch.allclose(trained, other)


def test_delta_is_the_difference_of_rounded_weights():
    model = mlp(6, [5], 3, seed=1)
    inputs, labels = batch()
    gradient = FedSGD(model).update(inputs, labels)[0].gradient
    update, _ = FedSGD(model, observe="delta", learning_rate=0.1).update(inputs, labels)
    assert update.gradient is None
    assert update.step.learning_rate == 0.1
    trained = copy.deepcopy(model)
    optimiser = torch.optim.SGD(trained.parameters(), lr=0.1)
    for name, parameter in trained.named_parameters():
        parameter.grad = gradient[name].clone()
    optimiser.step()
    for name, parameter in trained.named_parameters():
        torch.testing.assert_close(
            update.delta[name], parameter - model.state_dict()[name], atol=1e-7, rtol=0
        )
        assert not torch.equal(update.delta[name], -0.1 * gradient[name])


@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16"])
def test_what_is_sent_is_rounded(name):
    model = mlp(6, [5], 3, seed=1, dtype="float64")
    exact = FedSGD(model).update(*batch())[0].gradient
    sent = FedSGD(model, gradient_dtype=name).update(*batch())[0].gradient
    for key, tensor in sent.items():
        assert tensor.dtype == getattr(torch, name)
        assert torch.equal(tensor, exact[key].to(tensor.dtype))


@pytest.mark.wrong_types
def test_dtype_and_preprocessing_are_passed_on():
    preprocessing = Preprocessing(image_shape=(1, 2, 3))
    inputs, labels = batch()
    model = mlp(6, [5], 3)
    update, truth = FedSGD(model, dtype="float64").update(
        inputs.numpy().reshape(4, 1, 2, 3), labels.tolist(), preprocessing
    )
    assert update.gradient["fc1.weight"].dtype == torch.float64
    assert model.fc1.weight.dtype == torch.float32
    assert truth.inputs.shape == (4, 1, 2, 3)
    assert update.preprocessing is truth.preprocessing is preprocessing
    with torch.no_grad():
        assert FedSGD(model).update(inputs, labels)[0].gradient["fc1.weight"].any()


@pytest.mark.parametrize(
    "arguments",
    [
        {"model": "mlp"},
        {"model": nn.ReLU()},
        {"loss": "hinge"},
        {"reduction": "none"},
        {"observe": "weights"},
        {"observe": "delta"},
        {"learning_rate": 0.1},
        {"observe": "delta", "learning_rate": -1.0},
        {"gradient_dtype": "int8"},
        {"dtype": "int8"},
    ],
)
@pytest.mark.wrong_types
def test_bad_arguments(arguments):
    with pytest.raises(InputError):
        FedSGD(**({"model": mlp(2, [], 2)} | arguments))


@pytest.mark.parametrize(
    ("inputs", "labels", "match"),
    [
        (torch.zeros(2, 5), [0, 1], "inputs"),
        (torch.zeros(6), [0], "inputs"),
        (torch.zeros(0, 6), [], "inputs"),
        (torch.zeros(2, 6, dtype=torch.int64), [0, 1], "inputs"),
        (torch.full((2, 6), float("nan")), [0, 1], "inputs"),
        (torch.zeros(2, 6), [0], "labels"),
        (torch.zeros(2, 6), [0, 7], "labels"),
        (torch.zeros(2, 6), ["a", "b"], "labels"),
        (torch.full((2, 6), 1e30), [0, 1], "not finite"),
    ],
)
@pytest.mark.wrong_types
def test_bad_batches_are_one_line(inputs, labels, match):
    client = FedSGD(mlp(6, [4], 3, seed=2), gradient_dtype="float16")
    with pytest.raises(InputError, match=match) as caught:
        client.update(inputs, labels)
    assert "\n" not in str(caught.value)


def test_models_and_preprocessings_that_do_not_fit():
    with pytest.raises(InputError, match="preprocessing"):
        FedSGD(mlp(6, [], 3)).update(*batch(), Preprocessing(image_shape=(1, 2, 2)))
    with pytest.raises(InputError, match="without a gradient"):
        FedSGD(mlp(6, [], 3), lambda o, y: o.detach().sum(dim=1)).update(*batch())
    with pytest.raises(InputError, match="one row a record"):
        FedSGD(nn.Sequential(mlp(6, [], 3), nn.Flatten(0))).update(*batch())
