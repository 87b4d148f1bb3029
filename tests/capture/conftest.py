"""One small model's weights and gradient, and one-line checks on refusals."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from gradaudit.capture import load_update
from gradaudit.errors import InputError

Named = dict[str, Tensor]


@pytest.fixture
def weights() -> Named:
    generator = torch.Generator().manual_seed(1)
    return {
        "fc1.weight": torch.randn(6, 4, generator=generator),
        "fc1.bias": torch.randn(6, generator=generator),
        "fc2.weight": torch.randn(3, 6, generator=generator),
        "fc2.bias": torch.randn(3, generator=generator),
    }


@pytest.fixture
def gradient(weights: Named) -> Named:
    generator = torch.Generator().manual_seed(2)
    return {k: torch.randn(t.shape, generator=generator) for k, t in weights.items()}


@pytest.fixture
def after(weights: Named, gradient: Named) -> Named:
    return {k: weights[k] - 0.01 * gradient[k] for k in weights}


@pytest.fixture
def refusal() -> Callable[..., str]:
    """Load what must be refused; return the one line that says so."""

    def refuse(path: object, weights: object = None, **options: object) -> str:
        with pytest.raises(InputError) as caught:
            load_update(path, weights, **options)  # type: ignore[arg-type]
        text = str(caught.value)
        assert "\n" not in text
        assert text.isprintable()
        assert len(text) < 700
        return text

    return refuse


@pytest.fixture
def save(tmp_path: Path) -> Callable[[str, object], Path]:
    """Save with torch and return the path."""

    def write(name: str, value: object) -> Path:
        torch.save(value, tmp_path / name)
        return tmp_path / name

    return write
