from __future__ import annotations

import pytest
import torch

from gradaudit.capture.contents import Contents
from gradaudit.capture.roles import ALIASES, UNSAID, split_roles
from gradaudit.errors import InputError

ONE = torch.ones(2)


def _split(entries: object) -> dict[str, list[str]]:
    parts = split_roles(Contents("file", entries, file_bytes=100))
    return {role: list(part) for role, part in parts.items()}


@pytest.mark.parametrize(("alias", "role"), ALIASES.items())
def test_every_alias_nested_and_prefixed(alias, role):
    assert _split({alias: {"a": ONE}}) == {role: ["a"]}
    assert _split({f"{alias}/a": ONE, f"{alias}/b.weight": ONE}) == {role: ["a", "b.weight"]}


def test_plain_tensors_say_nothing():
    assert _split({"a": ONE, "b": ONE}) == {UNSAID: ["a", "b"]}
    assert _split([ONE, ONE]) == {UNSAID: ["0", "1"]}
    assert _split({0: ONE, 1: ONE}) == {UNSAID: ["0", "1"]}
    # A parameter may bear the name of a role.
    assert _split({"delta": ONE, "model": ONE}) == {UNSAID: ["delta", "model"]}


def test_lists_inside_a_role_are_named_by_position():
    assert _split({"weights": {"a": ONE}, "gradient": [ONE]}) == {
        "weights": ["a"],
        "gradient": ["0"],
    }


def test_a_checkpoint_keeps_its_other_entries_out():
    checkpoint = {"state_dict": {"a": ONE}, "epoch": 3, "optimizer": {"state": {}}, "lr": 0.1}
    assert _split(checkpoint) == {"weights": ["a"]}


def test_dots_only_when_unambiguous():
    both = {"weights.fc.weight": ONE, "gradient.fc.weight": ONE}
    assert _split(both) == {"weights": ["fc.weight"], "gradient": ["fc.weight"]}
    # A wrapper called `model`; two submodules whose names are roles; three roles; a stray name.
    for plain in (
        {"model.fc.weight": ONE, "model.fc.bias": ONE},
        {"model.fc.weight": ONE, "delta.head.weight": ONE},
        {"weights.a": ONE, "gradient.a": ONE, "delta.a": ONE},
        {"weights.a": ONE, "gradient.a": ONE, "scale": ONE},
        {"weights.a": ONE, "grad.a": ONE, "gradient.a": ONE},
    ):
        assert _split(plain) == {UNSAID: list(plain)}


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ({"weights": {"a": ONE}, "b": ONE}, "'b' beside the group 'weights'"),
        ({"weights/a": ONE, "b": ONE}, "'b' without a prefix"),
        ({"weights/a": ONE, "model/a": ONE}, "'weights' and 'model' for the weights"),
        ({"grad": {"a": ONE}, "gradient": {"a": ONE}}, "two entries for the gradient"),
        ({"gradient": {}}, "no entries"),
        ({"gradient": {"a": [1.0]}}, "a list, expected a tensor"),
        ({"a": None}, "a NoneType, expected a tensor"),
        ({"a": ONE, 1: "x"}, "a str, expected a tensor"),
        ({"1": ONE, 1: ONE}, "both as text and as number"),
        ({True: ONE}, "a bool as a key"),
        ({b"a": ONE}, "a bytes as a key"),
        ({("a",): ONE}, "a tuple as a key"),
        ("text", "a single str"),
        (ONE, "a single Tensor"),
    ],
)
def test_refusals(entries, said):
    with pytest.raises(InputError) as caught:
        _split(entries)
    assert said in str(caught.value)


def test_hostile_names_are_shown_short_and_without_control_sequences():
    with pytest.raises(InputError) as caught:
        _split({"\x1b[31m\n" + "a" * 900: 3})
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 300
