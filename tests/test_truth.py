import pytest
import torch
from safetensors.torch import save_file

from gradaudit.errors import InputError
from gradaudit.preprocessing import Preprocessing
from gradaudit.truth import Truth


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("preprocessing", [None, Preprocessing(image_shape=(1, 2, 2))])
def test_round_trip(tmp_path, dtype, preprocessing):
    inputs = torch.randn(3, 1, 2, 2, generator=torch.Generator().manual_seed(1)).to(dtype)
    truth = Truth(inputs, torch.tensor([2, 0, 1]), preprocessing)
    truth.save(tmp_path / "truth.safetensors")
    read = Truth.load(tmp_path / "truth.safetensors")
    assert read.inputs.dtype == dtype
    assert torch.equal(read.inputs, inputs)
    assert torch.equal(read.labels, truth.labels)
    assert read.preprocessing == preprocessing
    assert read.batch_size == 3


def test_another_file_is_no_truth(tmp_path):
    path = tmp_path / "other.safetensors"
    save_file({"inputs": torch.zeros(2, 2)}, path)
    with pytest.raises(InputError, match="truth"):
        Truth.load(path)
    path.write_bytes(b"no tensors here")
    with pytest.raises(InputError, match="unreadable"):
        Truth.load(path)
    with pytest.raises(InputError, match="no such file"):
        Truth.load(tmp_path / "missing")


@pytest.mark.wrong_types
def test_labels_must_fit(tmp_path):
    path = tmp_path / "truth.safetensors"
    Truth(torch.zeros(2, 2), torch.zeros(3)).save(path)
    with pytest.raises(InputError, match="one floating-point row and one label"):
        Truth.load(path)


@pytest.mark.parametrize(
    ("inputs", "preprocessing", "expected"),
    [
        (torch.zeros(0, 2), None, "no record"),
        (torch.zeros(2, 0), None, "no record"),
        (torch.tensor([[1.0, float("inf")]]), None, "finite"),
        (torch.zeros(2, 3), Preprocessing(image_shape=(1, 2, 2)), "4 values a record"),
    ],
)
def test_what_could_not_be_compared_is_refused(inputs, preprocessing, expected, tmp_path):
    Truth(inputs, torch.zeros(len(inputs)), preprocessing).save(tmp_path / "t")
    with pytest.raises(InputError, match=expected):
        Truth.load(tmp_path / "t")
