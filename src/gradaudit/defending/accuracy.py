"""The accuracy of a model that is trained on what a defended client sends."""

from __future__ import annotations

from collections.abc import Sized

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from gradaudit.budget import Control
from gradaudit.data import Source
from gradaudit.defending.setting import Setting
from gradaudit.defending.simulation import make_client, make_network
from gradaudit.defending.training import Trained, Training
from gradaudit.errors import InputError
from gradaudit.options import floating_dtype


def records_of(source: Source) -> int | None:
    """How many records a source has; None where it has no end."""
    return len(source) if isinstance(source, Sized) else None


def train(
    source: Source,
    setting: Setting,
    training: Training,
    *,
    loss: str,
    dtype: str = "float32",
    seed: int = 0,
    control: Control | None = None,
) -> Trained | None:
    """Train with a setting's defences, and measure the accuracy on held-out records.

    In every round a client like the setting's takes ``batch_size`` records at random from those
    that are not held out, and sends what the setting says; the server takes it (a difference of
    weights with its sign turned) for the gradient of a step of Adam.

    Args:
        source: Where records come from.
        setting: The client and its defences.
        training: Rounds, learning rate and the split.
        loss: The client's, by name.
        dtype: What it computes in.
        seed: Of split, network, rounds and defences.
        control: Its interruption ends training.

    Returns:
        The accuracy; None if it was interrupted.

    Raises:
        InputError: There are fewer records than a batch and a held-out record.
    """
    size, held_out = training.split(records_of(source))
    if size < setting.batch_size:
        raise InputError(
            "training.records",
            f"{size:,} to train on, in batches of {setting.batch_size:,}",
            "as many as a batch has, or more",
        )
    generator = torch.Generator().manual_seed(seed)
    kind = floating_dtype("dtype", dtype, ("float64", "float32"))
    batch = source.batch(size + held_out, generator=generator, dtype=kind)
    network = make_network(setting, batch, source, loss, generator).to(kind)
    parameters = {name: p for name, p in network.named_parameters() if p.requires_grad}
    optimiser = torch.optim.Adam(parameters.values(), lr=training.learning_rate)
    for turn in range(training.rounds):
        if control is not None and control.interrupted:
            return None
        chosen = torch.randperm(size, generator=generator)[: setting.batch_size]
        client = make_client(
            network, setting, setting.parsed(), loss=loss, dtype=dtype, seed=seed + turn
        )
        update, _ = client.update(batch.inputs[chosen], batch.labels[chosen])
        sign = 1.0 if update.observed_kind == "gradient" else -1.0
        for name, parameter in parameters.items():
            parameter.grad = sign * update.observed[name]
        optimiser.step()
    right = _right(network, batch.inputs[size:], batch.labels[size:])
    return Trained(right / held_out, held_out)


def _right(network: nn.Module, inputs: Float[Tensor, "b ..."], labels: Shaped[Tensor, " b"]) -> int:
    with torch.no_grad():
        outputs = network.eval()(inputs).flatten(1)
    found = (outputs[:, 0] > 0).long() if outputs.shape[1] == 1 else outputs.argmax(1)
    return int((found == labels).sum())
