"""The update of one point, as the client sends it, and how far its defence moved it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from gradaudit.clients import FedAvg, FedSGD
from gradaudit.data import Batch, Source
from gradaudit.defending.setting import Setting
from gradaudit.defenses import Defense
from gradaudit.models import mlp, parse_model
from gradaudit.options import floating_dtype
from gradaudit.truth import Truth
from gradaudit.update import Update


@dataclass(frozen=True, eq=False)
class Simulation:
    """One simulated round of one client.

    Attributes:
        network: What the client was given.
        update: What it sent.
        truth: What it used.
        distortion: See `distortion`.
    """

    network: nn.Module
    update: Update
    truth: Truth
    distortion: float


def simulate(
    source: Source, setting: Setting, seed: int, *, loss: str, dtype: str = "float32"
) -> Simulation:
    """Draw a batch, make a network, and compute what the client sends.

    The seed gives the same batch and network to every defence, and the same update as
    ``gradaudit simulate --seed``.

    Args:
        source: Where records come from.
        setting: The client and its defences.
        seed: Of everything that is drawn.
        loss: The client's, by name.
        dtype: What it computes in.

    Raises:
        InputError: Source, network, loss and setting do not fit each other.
    """
    generator = torch.Generator().manual_seed(seed)
    kind = floating_dtype("dtype", dtype, ("float64", "float32"))
    batch = source.batch(setting.batch_size, generator=generator, dtype=kind)
    network = make_network(setting, batch, source, loss, generator)

    def send(defenses: Sequence[Defense]) -> tuple[Update, Truth]:
        client = make_client(network, setting, defenses, loss=loss, dtype=dtype, seed=seed)
        return client.update(batch.inputs, batch.labels, batch.preprocessing)

    update, truth = send(setting.parsed())
    moved = distortion(update.observed, send(())[0].observed) if setting.defenses else 0.0
    return Simulation(network, update, truth, moved)


def make_network(
    setting: Setting, batch: Batch, source: Source, loss: str, generator: torch.Generator
) -> nn.Module:
    """The setting's model, or two hidden layers that fit the data.

    Args:
        setting: With a model, or with a width.
        batch: Records of the source.
        source: Says how many classes there are.
        loss: A single logit is for ``"binary_cross_entropy"``, which takes no other.
        generator: Of the weights.

    Raises:
        InputError: The model cannot be made.
    """
    if setting.model is not None or setting.width is None:
        return parse_model(str(setting.model), generator=generator)
    outputs = 1 if loss == "binary_cross_entropy" else max(2, source.classes)
    widths = (setting.width, setting.width)
    return mlp(batch.inputs[0].numel(), widths, outputs, generator=generator)


def make_client(
    network: nn.Module,
    setting: Setting,
    defenses: Sequence[Defense],
    *,
    loss: str,
    dtype: str,
    seed: int,
) -> FedSGD | FedAvg:
    """The client of a setting, with these defences.

    Raises:
        InputError: Its training lacks a learning rate, or is not SGD.
    """
    if setting.training is None:
        return FedSGD(network, loss, dtype=dtype, defenses=defenses, seed=seed)
    return FedAvg(
        network, loss, training=setting.training, dtype=dtype, defenses=defenses, seed=seed
    )


def distortion(sent: Mapping[str, Tensor], plain: Mapping[str, Tensor]) -> float:
    """The sine of the angle between what is sent and what would be sent without a defence.

    The share of what is sent that no multiple of the undefended update explains: 0 for a defence
    that changes the length alone, nearly 1 where noise is all there is. A learning rate makes up
    for a length, and for nothing else.

    Args:
        sent: By parameter.
        plain: The same parameters.

    Returns:
        From 0 to 1; 1 where nothing is sent at all.

    Example:
        >>> plain = {"w": torch.tensor([3.0, 0.0])}
        >>> distortion({"w": torch.tensor([5.0, 0.0])}, plain)
        0.0
        >>> round(distortion({"w": torch.tensor([3.0, 3.0])}, plain), 4)
        0.7071
    """
    one, other = (
        torch.cat([tensors[name].detach().double().flatten() for name in plain])
        for tensors in (sent, plain)
    )
    length, square = torch.linalg.vector_norm(one), other.square().sum()
    if length == 0 or square == 0:
        return float(length != square)
    rest = one - (one @ other / square) * other
    return float((torch.linalg.vector_norm(rest) / length).clamp(max=1.0))
