"""Flower's arrays in every form are the same tensors, and hostile ones are refused."""

from __future__ import annotations

import io

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs the extra gradaudit[flower]")

import torch
from flwr.app import Array, ArrayRecord
from flwr.common import Code, FitIns, FitRes, Parameters, Status, ndarrays_to_parameters

from gradaudit.errors import InputError
from gradaudit.flower.arrays import tensors_of

VALUES = [np.arange(6, dtype=np.float32).reshape(2, 3), np.array(7, dtype=np.int64)]


def forms():
    parameters = ndarrays_to_parameters(VALUES)
    yield "ArrayRecord", ArrayRecord(VALUES)
    yield "Parameters", parameters
    yield "FitIns", FitIns(parameters, {})
    yield "FitRes", FitRes(Status(Code.OK, ""), parameters, 3, {})
    yield "ndarrays", VALUES


@pytest.mark.parametrize(("name", "arrays"), list(forms()))
def test_every_form_is_the_same_tensors(name, arrays):
    tensors = tensors_of("the arrays sent", arrays)
    assert list(tensors) == ["0", "1"]
    for tensor, value in zip(tensors.values(), VALUES, strict=True):
        assert torch.equal(tensor, torch.tensor(value))


def test_names_are_kept_in_order():
    named = ArrayRecord({"b": Array(VALUES[0]), "a": Array(VALUES[1])})
    assert list(tensors_of("the arrays sent", named)) == ["b", "a"]


def test_a_list_is_copied():
    (mine,) = tensors_of("the arrays sent", [VALUES[0]]).values()
    mine += 1
    assert VALUES[0][0, 0] == 0


def pickled() -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.array([object()]), allow_pickle=True)
    return stream.getvalue()


@pytest.mark.parametrize("data", [b"", b"\x93NUMPY", b"no array", pickled()])
@pytest.mark.parametrize("older", [False, True])
def test_damaged_and_pickled_arrays_are_refused(data, older):
    arrays = Parameters([data], "numpy.ndarray")
    if not older:
        arrays = ArrayRecord({"fc.weight": Array("float32", (1,), "numpy.ndarray", data)})
    with pytest.raises(InputError, match="the arrays received, array"):
        tensors_of("the arrays received", arrays)


def test_another_serialisation_is_refused():
    arrays = ArrayRecord({"w": Array("float32", (1,), "somebody's own", b"1234")})
    with pytest.raises(InputError, match="serialised by NumPy"):
        tensors_of("the arrays received", arrays)


@pytest.mark.parametrize("arrays", [ArrayRecord(), Parameters([], "numpy.ndarray"), []])
def test_no_arrays_are_refused(arrays):
    with pytest.raises(InputError, match="found no arrays"):
        tensors_of("the arrays sent", arrays)


def test_what_is_declared_and_not_held_takes_no_memory():
    stream = io.BytesIO()
    header = {"descr": "<f4", "fortran_order": False, "shape": (2**40, 2**20)}
    np.lib.format.write_array_header_1_0(stream, header)
    sent = Parameters([stream.getvalue()], "numpy.ndarray")
    with pytest.raises(InputError, match="0 bytes of data"):
        tensors_of("sent", sent)
