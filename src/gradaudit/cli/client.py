"""A simulated client from the words of a command line."""

from __future__ import annotations

from collections.abc import Sequence, Sized

import torch
from torch import nn

from gradaudit.cli.memory import check_network, check_records
from gradaudit.clients import FedAvg, FedSGD
from gradaudit.data import Batch, Source
from gradaudit.defenses import Defense
from gradaudit.models import mlp, parse_model
from gradaudit.options import floating_dtype
from gradaudit.report.text import count, plain
from gradaudit.truth import Truth
from gradaudit.update import LocalTraining, Update

DEFAULT_WIDTHS = (400, 400)


def simulated_update(
    source: Source,
    *,
    batch_size: int,
    model: str | None = None,
    widths: tuple[int, ...] = DEFAULT_WIDTHS,
    seed: int = 0,
    label: int | None = None,
    loss: str = "cross_entropy",
    dtype: str = "float32",
    observe: str = "gradient",
    learning_rate: float | None = None,
    training: LocalTraining | None = None,
    defenses: Sequence[Defense] = (),
    gradient_dtype: str | None = None,
) -> tuple[Update, Truth, str]:
    """Draw a batch, make a network, and compute what the client sends.

    The batch is drawn before the network, so that one seed gives the same records to every
    network.

    Args:
        source: Where records come from.
        batch_size: Records.
        model: The network's specification; by default one that fits the data.
        widths: Hidden layers of the default network.
        seed: Of batch and network.
        label: Records of this class only.
        loss: The client's loss.
        dtype: What the client computes in.
        observe: ``"gradient"`` or ``"delta"``.
        learning_rate: Of the step, for a delta.
        training: Local training instead of one gradient; ``observe`` and ``learning_rate`` are
            then not looked at.
        defenses: What the client does before it sends anything, in this order.
        gradient_dtype: What is sent is rounded to this type.

    Returns:
        The update, the truth, and what was simulated in one sentence.

    Raises:
        InputError: The words do not fit each other, or the machine's memory.

    Example:
        >>> from gradaudit.data import load_source
        >>> simulated_update(load_source("patches?size=8"), batch_size=2, widths=(9,))[2]
        "2 records of patches (all) through layers 'fc1' (9 x 192), 'fc2' (10 x 9)."
    """
    generator = torch.Generator().manual_seed(seed)
    kind = floating_dtype("dtype", dtype, ("float64", "float32"))
    # More than there are, the source itself refuses.
    drawn = min(batch_size, len(source)) if isinstance(source, Sized) else batch_size
    check_records(drawn, source.preprocessing.features)
    batch = source.batch(batch_size, generator=generator, label=label, dtype=kind)
    if model is None:
        network = _fitting(batch, source, widths, loss, generator)
    else:
        network = parse_model(model, generator=generator)
    check_network(network, batch_size, kind.itemsize)
    client: FedSGD | FedAvg
    if training is None:
        client = FedSGD(
            network,
            loss,
            dtype=dtype,
            observe=observe,
            learning_rate=learning_rate,
            gradient_dtype=gradient_dtype,
            defenses=defenses,
            seed=seed,
        )
    else:
        client = FedAvg(
            network,
            loss,
            training=training,
            dtype=dtype,
            gradient_dtype=gradient_dtype,
            defenses=defenses,
            seed=seed,
        )
    update, truth = client.update(batch.inputs, batch.labels, batch.preprocessing)
    layers = ", ".join(
        f"{plain(layer.name, 60)!r} ({layer.shape[0]} x {layer.shape[1]})"
        for layer in update.linear_layers()
    )
    records = f"{count(batch_size, 'record')} of {plain(source.name, 200)}"
    steps = "" if training is None else f", {count(training.steps(batch_size) or 0, 'local step')}"
    return update, truth, f"{records} through layers {layers or 'of other kinds'}{steps}."


def _fitting(
    batch: Batch, source: Source, widths: tuple[int, ...], loss: str, generator: torch.Generator
) -> nn.Module:
    # A single logit for the loss that takes no other; two classes at least for the others.
    outputs = 1 if loss == "binary_cross_entropy" else max(2, source.classes)
    return mlp(batch.inputs[0].numel(), widths, outputs, generator=generator)
