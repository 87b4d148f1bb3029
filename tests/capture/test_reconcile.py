from __future__ import annotations

import torch

from gradaudit.capture.reconcile import reconcile_names

WEIGHTS = {
    "embed.weight": torch.arange(6.0).reshape(3, 2),
    "fc.weight": torch.ones(2, 2),
    "fc.bias": torch.zeros(2),
}


def test_a_prefix_on_either_side():
    plain = {name: tensor + 1 for name, tensor in WEIGHTS.items()}
    wrapped = {f"net.{name}": tensor for name, tensor in plain.items()}
    found = reconcile_names(wrapped, WEIGHTS)
    assert set(found) == set(WEIGHTS)
    assert all(found[name] is plain[name] for name in WEIGHTS)
    outer = {f"net.{name}": tensor for name, tensor in WEIGHTS.items()}
    found = reconcile_names({"fc.bias": plain["fc.bias"]}, outer)
    assert list(found) == ["net.fc.bias"]


def test_names_stay_where_no_prefix_fits_all():
    for names in (["net.fc.weight", "fc.bias"], ["net.fc.weight", "net.other"], ["net.fc.bias"]):
        observed = {name: torch.full((2, 2), 3.0 + i) for i, name in enumerate(names)}
        assert set(reconcile_names(observed, WEIGHTS)) == set(names)


def test_tied_weights_are_dropped_only_where_they_are_the_same():
    observed = {name: tensor + 1 for name, tensor in WEIGHTS.items()}
    tied = observed | {"head.weight": observed["embed.weight"].clone()}
    assert set(reconcile_names(tied, WEIGHTS)) == set(WEIGHTS)
    for other in (observed["embed.weight"] + 1, observed["embed.weight"].double()):
        found = reconcile_names(observed | {"head.weight": other}, WEIGHTS)
        assert set(found) == {*WEIGHTS, "head.weight"}


def test_equal_tensors_that_have_weights_stay():
    observed = {name: torch.zeros_like(tensor) for name, tensor in WEIGHTS.items()}
    assert set(reconcile_names(observed, WEIGHTS)) == set(WEIGHTS)


def test_many_unknown_names_are_no_tied_weights():
    copies = {f"copy{i}": WEIGHTS["fc.weight"].clone() for i in range(17)}
    assert set(reconcile_names(WEIGHTS | copies, WEIGHTS)) == {*WEIGHTS, *copies}
