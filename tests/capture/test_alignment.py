"""Where tensors of a file begin in memory does not show in a result."""

from __future__ import annotations

import torch

from gradaudit.capture import alignment, load_update
from gradaudit.capture.alignment import ALIGNMENT, aligned
from gradaudit.update import Update


def test_only_what_lies_elsewhere_is_copied(monkeypatch):
    values = torch.arange(40.0)
    assert aligned(values) is values
    moved = aligned(values[1:])
    assert moved.data_ptr() % ALIGNMENT == 0
    assert torch.equal(moved, values[1:])
    # A large one of a narrow type stays where it is; float64 is summed as it lies.
    monkeypatch.setattr(alignment, "_LARGEST", 8)
    assert aligned(values[1:]).data_ptr() == values[1:].data_ptr()
    assert aligned(values.double()[1:]).data_ptr() % ALIGNMENT == 0


def test_tensors_of_every_format_begin_where_torchs_own_do(tmp_path):
    import numpy as np

    weights = {f"{'x' * n}.weight": torch.randn(3, 5).double() for n in range(1, 6)}
    gradient = {name: torch.randn(3, 5).double() for name in weights}
    Update(weights, gradient).save(tmp_path / "u.safetensors")
    np.savez(
        tmp_path / "u.npz",
        **{f"weights/{n}": w.numpy() for n, w in weights.items()},
        **{f"gradient/{n}": g.numpy() for n, g in gradient.items()},
    )
    for name in ("u.safetensors", "u.npz"):
        update = load_update(tmp_path / name)
        for tensor in (*update.weights.values(), *update.observed.values()):
            assert tensor.data_ptr() % ALIGNMENT == 0
