"""R-GAP on updates: the entry for users, one record an update."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import nn

from gradaudit.chain import Chain, chain_of
from gradaudit.errors import InputError
from gradaudit.models.loaded import LoadedModel, load_model
from gradaudit.models.losses import AUTO, usual_loss
from gradaudit.rgap.candidates import Candidate
from gradaudit.rgap.invert import invert_chain
from gradaudit.rgap.observed import observe
from gradaudit.update import Update

# Float64 numbers of gradients that are worked on at once: a quarter of a gigabyte.
BLOCK_ENTRIES = 1 << 25


def invert(
    model: nn.Module,
    update: Update,
    *,
    input_shape: Sequence[int] | None = None,
    loss: str = AUTO,
) -> tuple[Candidate, ...]:
    """Recover the record behind the gradient of a batch of one, layer by layer.

    By linear algebra alone, in well under a second for a small network. Nothing is proven here:
    `gradaudit.audit` with ``attack="rgap"`` judges what comes of it.

    Args:
        model: The network; its own weights do not matter. Its mode does: normalisation and dropout
            must be in evaluation mode.
        update: The gradient of one record, or a difference of weights.
        input_shape: Of the record, such as ``(3, 32, 32)``; by default the update's, if it knows.
        loss: The client's; only a last layer without a bias needs it. ``"auto"``:
            binary_cross_entropy for a single logit, else cross_entropy.

    Returns:
        The inputs that explain the gradient; several where the last layer allows for several.

    Raises:
        NotSolvableError: The network or the update is not of a kind that can be solved; says which
            layer, why, and what to do about it.
        InputError: An argument cannot be used.

    Source:
        R-GAP (arXiv 2010.07733), algorithm 1.

    Example:
        >>> from gradaudit.clients import FedSGD
        >>> from gradaudit.models import lenet
        >>> model = lenet((1, 28, 28), activation="leaky_relu", dtype="float64")
        >>> image = torch.rand(1, 1, 28, 28, generator=torch.Generator().manual_seed(0)).double()
        >>> update, _ = FedSGD(model, loss="binary_cross_entropy").update(image, torch.tensor([0]))
        >>> candidates = invert(model, update, input_shape=(1, 28, 28))
        >>> min(float((c.inputs - image[0]).abs().max()) for c in candidates) < 1e-6
        True
    """
    return invert_many(model, [update], input_shape=input_shape, loss=loss)[0]


def invert_many(
    model: nn.Module,
    updates: Sequence[Update],
    *,
    input_shape: Sequence[int] | None = None,
    loss: str = AUTO,
    stop: Callable[[], bool] = lambda: False,
) -> list[tuple[Candidate, ...]]:
    """`invert` for many updates of one model, each of its own record.

    Updates that started from the same weights are solved together.

    Args:
        model: As for `invert`.
        updates: One record each.
        input_shape: As for `invert`.
        loss: As for `invert`.
        stop: Asked during iterations; true ends them with what there is.

    Returns:
        The candidates of each, in order.

    Raises:
        NotSolvableError: As for `invert`; of the first update that it concerns.
        InputError: As for `invert`.

    Example:
        >>> invert_many(nn.Linear(2, 3), [])
        []
    """
    results: list[tuple[Candidate, ...]] = []
    at = 0
    while at < len(updates):
        loaded, chain = prepare(model, updates[at], input_shape)
        size = sum(t.numel() for t in loaded.observed.values())
        block = [updates[at]]
        while (
            at + len(block) < len(updates)
            and (len(block) + 1) * size <= BLOCK_ENTRIES
            and _same_weights(block[0], updates[at + len(block)])
        ):
            block.append(updates[at + len(block)])
        each = [loaded, *(load_model(model, update) for update in block[1:])]
        observed = observe(block, each)
        results += invert_chain(
            chain,
            observed.gradients,
            observed.noise,
            loss=usual_loss(math.prod(chain.output_shape)) if loss == AUTO else loss,
            scale_known=observed.scale_known,
            stop=stop,
        )
        at += len(block)
    return results


def prepare(
    model: nn.Module,
    update: Update,
    input_shape: Sequence[int] | None = None,
    device: torch.device | str = "cpu",
) -> tuple[LoadedModel, Chain]:
    """The model with an update's weights, and its chain.

    Args:
        model: As for `invert`.
        update: Whose weights to put in.
        input_shape: As for `invert`.
        device: Where to compute.

    Raises:
        InputError: The model is not the update's, or the shape is not known or does not fit.
    """
    loaded = load_model(model, update, device=device)
    module = loaded.module
    module.load_state_dict(loaded.tensors, strict=False)
    while isinstance(model, (nn.DataParallel, nn.parallel.DistributedDataParallel)):
        model = model.module
    for copy, original in zip(loaded.network.modules(), model.modules(), strict=True):
        copy.training = original.training
    try:
        chain = chain_of(module, input_shape or _shape_of(update, module))
    finally:
        module.eval()
    return loaded, chain


def _shape_of(update: Update, module: nn.Module) -> tuple[int, ...]:
    """The shape of a record as far as it is known without being told."""
    preprocessing = update.preprocessing
    if preprocessing is not None and preprocessing.image_shape is not None:
        return preprocessing.image_shape
    layers = [m for m in module.modules() if isinstance(m, nn.Linear | nn.Conv2d)]
    if layers and isinstance(layers[0], nn.Linear):
        return (layers[0].in_features,)
    raise InputError(
        "input_shape",
        "nothing",
        "the shape of a record, such as (3, 32, 32)",
        "give the update a preprocessing with the images' shape, or input_shape=C,H,W",
    )


def _same_weights(one: Update, other: Update) -> bool:
    if one.weights.keys() != other.weights.keys() or one.observed.keys() != other.observed.keys():
        return False
    pairs = ((one.weights[name], other.weights[name]) for name in one.weights)
    return all(mine is theirs or torch.equal(mine, theirs) for mine, theirs in pairs)
