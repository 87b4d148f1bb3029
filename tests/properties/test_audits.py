"""Any small setting: an audit never raises anything but a refusal, and never certifies wrongly."""

from __future__ import annotations

import torch
from certify.settings import valid
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from properties.clients import ATTACKS, audit_client, clients

from gradaudit.auditing import audit
from gradaudit.budget import Budget
from gradaudit.errors import InputError
from gradaudit.update import Update


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(clients(), st.booleans(), st.sampled_from(ATTACKS))
def test_any_client(client, with_model, attack):
    try:
        found = audit_client(client, with_model=with_model, attack=attack, seconds=0.1)
    except InputError:
        # In one line, as where 16 bits overflow or nothing tells the shape of an image.
        return
    valid(found.result)
    assert found.outcome != "false", found.trial.describe()


@settings(max_examples=25, suppress_health_check=list(HealthCheck))
@given(
    shapes=st.lists(
        st.tuples(st.integers(0, 5), st.integers(0, 5)) | st.tuples(st.integers(0, 5)),
        min_size=1,
        max_size=4,
    ),
    values=st.sampled_from([0.0, 1.0, 1e300, 1e-320, -1.0]),
    seed=st.integers(0, 100),
)
def test_any_tensors(shapes, values, seed):
    """Tensors that are no network's: a status or a refusal."""
    generator = torch.Generator().manual_seed(seed)
    names = [f"{'abcd'[i]}.{'weight' if len(s) == 2 else 'bias'}" for i, s in enumerate(shapes)]
    weights = {n: torch.randn(s, generator=generator) for n, s in zip(names, shapes, strict=True)}
    gradient = {
        n: torch.randn(s, generator=generator, dtype=torch.float64) * values
        for n, s in zip(names, shapes, strict=True)
    }
    try:
        update = Update(weights, gradient)
        result = audit(update, budget=Budget(seconds=0.1))
    except InputError:
        return
    assert not result.status.leak_proven
