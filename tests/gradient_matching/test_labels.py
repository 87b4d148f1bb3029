from __future__ import annotations

import pytest
import torch

from gradaudit.gradient_matching import UnsuitedError, infer_labels
from gradient_matching.material import fully_connected, sample


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("outputs", [3, 10])
def test_one_record_s_class_is_read_off(bias, outputs):
    for label in range(outputs):
        case = sample(fully_connected(bias, outputs, "tanh"), (label,), seed=label)
        found = infer_labels(case.target, 1, generator=generator())
        assert found.exact
        assert found.classes.tolist() == [label]


@pytest.mark.parametrize("label", [0, 1])
def test_a_single_logit_s_class_is_read_off(label):
    case = sample(fully_connected(outputs=1), (label,), loss="binary_cross_entropy")
    assert infer_labels(case.target, 1, generator=generator()).classes.tolist() == [label]


@pytest.mark.parametrize("bias", [True, False])
def test_classes_of_a_batch_before_training(bias):
    labels = (0, 1, 1, 3, 3, 3)
    case = sample(fully_connected(bias), labels)
    found = infer_labels(case.target, 6, generator=generator())
    assert not found.exact
    assert tuple(found.classes.tolist()) == labels


def test_counts_of_a_binary_batch():
    case = sample(fully_connected(outputs=1), (0, 1, 1, 1, 0), loss="binary_cross_entropy")
    found = infer_labels(case.target, 5, generator=generator())
    assert found.classes.tolist() == [0, 0, 1, 1, 1]


def test_what_does_not_tell_the_class():
    two = sample(fully_connected(False, 2), (1,))
    with pytest.raises(UnsuitedError, match="Of two classes"):
        infer_labels(two.target, 1, generator=generator())
    squared = sample(fully_connected(), (1,), loss="mse")
    with pytest.raises(UnsuitedError, match="loss 'mse'"):
        infer_labels(squared.target, 1, generator=generator())
    ending = torch.nn.Sequential(fully_connected(), torch.nn.Sigmoid())
    with pytest.raises(UnsuitedError, match="does not end in"):
        infer_labels(sample(ending, (1,)).target, 1, generator=generator())
