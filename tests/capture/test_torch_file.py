from __future__ import annotations

import io
import os
import pickle
import struct
import zipfile
from collections import OrderedDict

import numpy as np
import pytest
import torch

from gradaudit.capture import load_update, torch_file
from gradaudit.capture.torch_file import check_instructions, read_torch
from gradaudit.errors import InputError


class Attack:
    """A pickle that makes a folder when it is loaded."""

    def __init__(self, target):
        self.target = str(target)

    def __reduce__(self):
        return os.mkdir, (self.target,)


def _with_pickle(tmp_path, instructions: bytes):
    """An archive of torch.save whose pickle is replaced."""
    torch.save({}, tmp_path / "donor")
    path = tmp_path / "crafted.pt"
    with zipfile.ZipFile(tmp_path / "donor") as good, zipfile.ZipFile(path, "w") as bad:
        for name in good.namelist():
            bad.writestr(name, instructions if name.endswith("data.pkl") else good.read(name))
    return path


def test_the_attack_is_one(tmp_path):
    pickle.loads(pickle.dumps(Attack(tmp_path / "ran")))
    assert (tmp_path / "ran").exists()


@pytest.mark.parametrize("zipped", [True, False])
def test_code_is_not_run(tmp_path, refusal, zipped):
    path = tmp_path / "evil.pt"
    attack = {"weights": {"a": torch.ones(2)}, "gradient": Attack(tmp_path / "ran")}
    torch.save(attack, path, _use_new_zipfile_serialization=zipped)
    text = refusal(path)
    assert not (tmp_path / "ran").exists()
    if zipped:
        assert "'posix.mkdir' in its pickle, which was not run" in text
    path.write_bytes(pickle.dumps(Attack(tmp_path / "ran")))
    assert "a bare pickle" in refusal(path)
    assert not (tmp_path / "ran").exists()


def test_code_is_not_run_even_if_torch_would_allow_it(tmp_path, refusal):
    torch.save({"a": Attack(tmp_path / "ran")}, tmp_path / "evil.pt")
    with torch.serialization.safe_globals([(os.mkdir, "posix.mkdir")]):
        assert "posix.mkdir" in refusal(tmp_path / "evil.pt")
    assert not (tmp_path / "ran").exists()


def test_a_pickle_in_a_second_place_is_not_run(tmp_path, refusal):
    torch.save({"a": torch.ones(2)}, tmp_path / "ok.pt")
    with (
        zipfile.ZipFile(tmp_path / "ok.pt") as good,
        zipfile.ZipFile(tmp_path / "evil.pt", "w") as bad,
    ):
        for member in good.infolist():
            bad.writestr(member, good.read(member))
        bad.writestr("other/data.pkl", pickle.dumps(Attack(tmp_path / "ran"), protocol=2))
    assert "posix.mkdir" in refusal(tmp_path / "evil.pt")
    assert not (tmp_path / "ran").exists()


def test_whole_modules_and_numpy_arrays_say_what_to_save(tmp_path, refusal, save):
    text = refusal(save("module.pt", torch.nn.Linear(2, 2)))
    assert "torch.nn.modules.linear.Linear" in text
    assert "state_dict()" in text
    assert "not NumPy arrays" in refusal(save("numpy.pt", {"a": np.ones(2)}))
    sparse = torch.eye(3).to_sparse()
    assert "sparse" in refusal(save("sparse.pt", {"a": sparse}))


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:.*TorchScript:DeprecationWarning")
def test_torchscript(tmp_path, refusal):
    torch.jit.script(torch.nn.Linear(2, 2)).save(str(tmp_path / "script.pt"))
    assert "TorchScript" in refusal(tmp_path / "script.pt")


@pytest.mark.parametrize("protocol", [4, 5])
def test_other_protocols(tmp_path, refusal, protocol):
    torch.save({"a": torch.ones(2)}, tmp_path / "p.pt", pickle_protocol=protocol)
    assert "unusual protocol" in refusal(tmp_path / "p.pt")


def test_protocol_three_and_parameters_are_fine(tmp_path, weights, gradient):
    parameters = OrderedDict((k, torch.nn.Parameter(t)) for k, t in weights.items())
    value = {"state_dict": parameters, "grads": gradient, "epoch": 3}
    torch.save(value, tmp_path / "p.pt", pickle_protocol=3)
    update = load_update(tmp_path / "p.pt")
    assert torch.equal(update.weights["fc1.weight"], weights["fc1.weight"])
    assert not update.weights["fc1.weight"].requires_grad


@pytest.mark.parametrize("value", [3, "text", None, torch.ones(2), {}, [], {"a": 3}, {"a": {}}])
def test_values_that_are_no_named_tensors(refusal, save, value):
    refusal(save("v.pt", value))


def test_nested_objects(refusal, save):
    deep: object = torch.ones(2)
    for _ in range(100):
        deep = {"gradient": deep}
    assert "a dict, expected a tensor" in refusal(save("deep.pt", {"gradient": deep}))
    layer = {"gradient": {"fc": {"weight": torch.ones(2)}}}
    assert "flat mapping" in refusal(save("jax.pt", layer))
    assert "as a key" in refusal(save("key.pt", {2.5: torch.ones(2)}))
    assert "too long" in refusal(save("key.pt", {"x" * 5000: torch.ones(2)}))
    assert "too long" in refusal(save("key.pt", {10**15: torch.ones(2)}))
    assert "weights_only" not in refusal(save("key.pt", {10**5000: torch.ones(2)}))


def test_expanded_tensors_cannot_take_the_memory(refusal, save):
    huge = torch.zeros(1).expand(2**40)
    text = refusal(save("huge.pt", {"weights": {"a": huge}, "gradient": {"a": huge}}))
    assert "declared bytes in a file of" in text


def test_small_expanded_tensors_are_fine(save):
    value = {"weights": {"a": torch.ones(3)}, "gradient": {"a": torch.zeros(1).expand(3)}}
    assert load_update(save("small.pt", value)).observed["a"].shape == (3,)


def test_compressed_members_are_refused(tmp_path, refusal):
    torch.save({"a": torch.zeros(1000)}, tmp_path / "ok.pt")
    with (
        zipfile.ZipFile(tmp_path / "ok.pt") as good,
        zipfile.ZipFile(tmp_path / "bomb.pt", "w", zipfile.ZIP_DEFLATED) as bad,
    ):
        for name in good.namelist():
            bad.writestr(name, good.read(name))
    assert "compressed members" in refusal(tmp_path / "bomb.pt")


def test_attributes_hung_on_containers_are_dropped(tmp_path):
    """A pickle may set attributes of an OrderedDict; one may shadow a method."""
    hung = b"}X\x05\0\0\0itemsK\x05sb"
    path = _with_pickle(
        tmp_path, b"\x80\x02ccollections\nOrderedDict\n)RX\1\0\0\0aK\7s" + hung + b"."
    )
    assert read_torch(path).entries == {"a": 7}


def test_nesting_without_end_does_not_overflow_the_stack(tmp_path, refusal):
    deep = 200_000
    path = _with_pickle(tmp_path, b"\x80\x02" + b"]" * deep + b"a" * (deep - 1) + b".")
    assert "a list, expected a tensor" in refusal(path)


def test_a_torch_that_is_not_safe_is_not_given_the_file(refusal, save, monkeypatch):
    path = save("a.pt", {"a": torch.ones(2)})
    monkeypatch.setattr(torch, "__version__", "2.9.1+cpu")
    assert "pip install 'torch>=2.10'" in refusal(path)


def test_an_archive_that_torch_would_read_otherwise_is_refused(tmp_path, refusal):
    """Its end names one directory, which torch reads; Python reads the one just before the end."""
    archives = []
    for value in (torch.zeros(3), torch.ones(2)):
        stream = io.BytesIO()
        torch.save({"a": value}, stream)
        archives.append(stream.getvalue())
    ends = [content.rfind(b"PK\x05\x06") for content in archives]
    members, size, begin = struct.unpack("<HII", archives[0][ends[0] + 10 : ends[0] + 20])
    shown = archives[1][: begin + size]
    end = b"PK\x05\x06" + struct.pack("<IHHIIH", 0, members, members, size, begin, 0)
    path = tmp_path / "both.pt"
    path.write_bytes(archives[0][: ends[0]] + shown + end)
    with zipfile.ZipFile(path) as archive:
        assert archive.start_dir != begin
    assert torch.equal(torch.load(path, weights_only=True)["a"], torch.zeros(3))
    assert "read in two ways" in refusal(path)


def test_names_that_differ_in_case_alone_are_refused(tmp_path, refusal, save):
    """torch finds members whatever their case."""
    save("ok.pt", {"a": torch.ones(2)})
    with (
        zipfile.ZipFile(tmp_path / "ok.pt") as good,
        zipfile.ZipFile(tmp_path / "evil.pt", "w") as bad,
    ):
        for name in good.namelist():
            bad.writestr(name, good.read(name))
            if name.endswith("data.pkl"):
                attack = pickle.dumps(Attack(tmp_path / "ran"), protocol=2)
                bad.writestr(name.upper(), attack)
    assert "read in two ways" in refusal(tmp_path / "evil.pt")


def test_one_list_in_many_places_is_counted(refusal, save):
    many = [torch.zeros(0)] * 2_000
    path = save("laughs.pt", {str(i): many for i in range(2_000)})
    assert path.stat().st_size < 2**16
    assert "at most 100,000" in refusal(path)


def test_a_pickle_without_end(tmp_path, refusal, monkeypatch):
    monkeypatch.setattr(torch_file, "MAX_PICKLE_BYTES", 1_000)
    path = _with_pickle(tmp_path, b"\x80\x02" + b"N0" * 1_000 + b"N.")
    assert "a pickle of 2,004 bytes" in refusal(path)


def test_a_storage_cannot_be_made_by_calling_it(tmp_path, refusal):
    call = b"\x80\x02ctorch.storage\nUntypedStorage\n\x8a\x05" + (2**34).to_bytes(5, "little")
    assert "torch.storage.UntypedStorage" in refusal(_with_pickle(tmp_path, call + b"\x85R."))


def test_truncated_instructions_are_an_error():
    with pytest.raises(ValueError, match="not enough data"):
        check_instructions("f", b"\x80\x02}q")
    with pytest.raises(InputError, match=r"builtins\.eval"):
        check_instructions("f", b"cbuiltins\neval\n(S'1'\ntR.")


def test_shared_storages_load(save, weights, gradient):
    tied = dict(weights, tied=weights["fc1.weight"])
    update = load_update(save("tied.pt", {"weights": tied, "gradient": gradient}))
    assert torch.equal(update.weights["tied"], weights["fc1.weight"])


def test_reads_from_memory_like_the_library(tmp_path, weights):
    stream = io.BytesIO()
    torch.save(weights, stream)
    (tmp_path / "w").write_bytes(stream.getvalue())
    entries = read_torch(tmp_path / "w").entries
    assert isinstance(entries, dict)
    assert list(entries) == list(weights)
