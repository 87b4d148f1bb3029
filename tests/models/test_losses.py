import pytest
import torch
from torch import nn
from torch.nn import functional

from gradaudit.errors import InputError
from gradaudit.models import LOSSES, get_loss, usual_loss

OUTPUTS = torch.tensor([[0.3, -1.0, 2.0], [0.0, 0.5, -0.5]], dtype=torch.float64)
LABELS = torch.tensor([2, 0])


def test_cross_entropy_by_hand():
    by_hand = [
        -(OUTPUTS[i, y] - OUTPUTS[i].exp().sum().log()) for i, y in enumerate(LABELS.tolist())
    ]
    loss = get_loss("cross_entropy")
    torch.testing.assert_close(loss(OUTPUTS, LABELS, "none"), torch.stack(by_hand))
    torch.testing.assert_close(loss(OUTPUTS, LABELS, "sum"), sum(by_hand))
    one_hot = functional.one_hot(LABELS, 3).double()
    torch.testing.assert_close(loss(OUTPUTS, one_hot), loss(OUTPUTS, LABELS))


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_binary_cross_entropy_is_torchs(reduction):
    logits, labels = OUTPUTS[:, :1], torch.tensor([1, 0])
    expected = functional.binary_cross_entropy_with_logits(
        logits[:, 0], labels.double(), reduction=reduction
    )
    for shaped in (labels, labels[:, None], labels.double()):
        torch.testing.assert_close(
            get_loss("binary_cross_entropy")(logits, shaped, reduction), expected
        )


def test_mse_is_torchs_for_the_mean_and_takes_classes():
    target = functional.one_hot(LABELS, 3).double()
    loss = get_loss("mse")
    torch.testing.assert_close(loss(OUTPUTS, target), functional.mse_loss(OUTPUTS, target))
    torch.testing.assert_close(loss(OUTPUTS, LABELS), loss(OUTPUTS, target))
    torch.testing.assert_close(loss(OUTPUTS, LABELS, "sum"), 2 * loss(OUTPUTS, LABELS))
    single = loss(OUTPUTS[:, :1], torch.tensor([1, 0]))
    torch.testing.assert_close(single, ((OUTPUTS[:, 0] - torch.tensor([1, 0])) ** 2).mean())


@pytest.mark.parametrize("name", LOSSES)
def test_losses_run_under_vmap(name):
    outputs = OUTPUTS[:, :1] if name == "binary_cross_entropy" else OUTPUTS
    labels = torch.tensor([1, 0])
    loss = get_loss(name)
    each = torch.func.vmap(lambda o, y: loss(o[None], y[None], "sum"))(outputs, labels)
    torch.testing.assert_close(each, loss(outputs, labels, "none"))


def test_own_functions():
    loss = get_loss(nn.CrossEntropyLoss(reduction="none"))
    assert loss.name == "CrossEntropyLoss"
    assert get_loss(loss) is loss
    torch.testing.assert_close(loss(OUTPUTS, LABELS), get_loss("cross_entropy")(OUTPUTS, LABELS))
    with pytest.raises(InputError, match="reduction='none'"):
        get_loss(nn.CrossEntropyLoss())(OUTPUTS, LABELS)
    with pytest.raises(InputError, match="hinge"):
        get_loss("hinge")
    with pytest.raises(InputError, match="reduction"):
        loss(OUTPUTS, LABELS, "average")


@pytest.mark.parametrize(
    ("name", "outputs", "labels"),
    [
        ("cross_entropy", OUTPUTS, torch.tensor([0, 3])),
        ("cross_entropy", OUTPUTS, torch.tensor([-100, 1])),
        ("cross_entropy", OUTPUTS, torch.tensor([0])),
        ("cross_entropy", OUTPUTS, torch.tensor([0.0, 1.0])),
        ("cross_entropy", OUTPUTS[:, :1], torch.tensor([0, 0])),
        ("binary_cross_entropy", OUTPUTS, torch.tensor([0, 1])),
        ("binary_cross_entropy", OUTPUTS[:, :1], torch.tensor([0, 2])),
        ("binary_cross_entropy", OUTPUTS[:, :1], torch.tensor([0.0, float("nan")])),
        ("mse", OUTPUTS, torch.zeros(2, 2)),
        ("mse", OUTPUTS, torch.tensor([0, 3])),
        ("mse", OUTPUTS, torch.tensor(1)),
    ],
)
def test_labels_that_do_not_fit(name, outputs, labels):
    with pytest.raises(InputError, match=r"labels|model"):
        get_loss(name).check_labels(outputs, labels)


@pytest.mark.parametrize("outputs", [1, 2, 10])
def test_the_usual_loss_takes_the_outputs(outputs):
    logits, labels = torch.zeros(2, outputs), torch.zeros(2, dtype=torch.long)
    loss = get_loss(usual_loss(outputs))
    loss.check_labels(logits, labels)
    logits.requires_grad_()
    assert bool(torch.autograd.grad(loss(logits, labels), logits)[0].any())


def test_the_usual_loss_of_an_unknown_network():
    assert usual_loss(None) == "cross_entropy"
