"""Whether gradients of a network can be matched, and what is needed to do it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor, nn

from gradaudit.errors import InputError
from gradaudit.gradient_matching.knowledge import Knowledge
from gradaudit.gradient_matching.target import Target, UnsuitedError
from gradaudit.models.loaded import load_model
from gradaudit.models.losses import Loss, get_loss
from gradaudit.preprocessing import Preprocessing
from gradaudit.update import Update

# Standard deviation of the random inputs on which a network is tried out; inputs are usually
# normalised to about one.
PROBE_DEVIATION = 1.0
# Bends smaller than this part of the slope are rounding: the network is linear in pieces.
BEND_ROUNDINGS = 1e3


def make_target(
    model: nn.Module,
    update: Update,
    loss: str | Loss | Callable[[Tensor, Tensor], Tensor],
    knowledge: Knowledge,
    *,
    device: torch.device | str = "cpu",
) -> Target:
    """Bring model and update together, and see whether gradients can be matched at all.

    Args:
        model: The network; its own weights do not matter, its modules' modes do.
        update: What was observed.
        loss: The client's.
        knowledge: For the input's shape.
        device: Where to compute.

    Returns:
        The target, in float64.

    Raises:
        InputError: The model or the input's shape is not this update's.
        UnsuitedError: The network's gradient is not a function of each record that could be
            differentiated.
    """
    _check_modes(model)
    loaded = load_model(model, update, device=device)
    scale = update.gradient_scale
    known = scale is not None
    # A difference of weights has at least the sign of a step downhill.
    factor = 1.0 / scale if scale is not None else -1.0
    parameters = dict(loaded.module.named_parameters())
    gradient = {
        name: factor * change.to(torch.float64)
        for name, change in loaded.observed.items()
        if name in parameters
    }
    if not any(bool(change.any()) for change in gradient.values()):
        raise UnsuitedError(
            "The update is zero in every entry.", "Check that it belongs to these weights."
        )
    shape = _input_shape(update, knowledge)
    draft = Target(
        gradient,
        get_loss(loss),
        shape,
        0,
        _box(update.preprocessing, shape, device),
        known,
        max(torch.finfo(change.dtype).eps for change in loaded.observed.values()),
        loaded,
    )
    outputs = _try(draft)
    return replace(draft, outputs=outputs)


def _check_modes(model: nn.Module) -> None:
    for name, module in model.named_modules():
        batch_norm = isinstance(module, nn.modules.batchnorm._BatchNorm)
        if batch_norm and (module.training or module.running_mean is None):
            raise UnsuitedError(
                f"Layer {name!r} is a BatchNorm in training mode, whose statistics mix the records "
                "of a batch.",
                "If the client used running statistics, pass the model after model.eval(); batch "
                "statistics are not supported.",
            )
        if isinstance(module, nn.modules.dropout._DropoutNd) and module.training and module.p > 0:
            raise UnsuitedError(
                f"Layer {name!r} is a dropout in training mode: the client's mask is unknown.",
                "If the client used none, pass the model after model.eval().",
            )


def _input_shape(update: Update, knowledge: Knowledge) -> tuple[int, ...]:
    if knowledge.input_shape is not None:
        return knowledge.input_shape
    known = update.preprocessing
    if known is not None and known.image_shape is not None:
        return known.image_shape
    if known is not None and known.features is not None:
        return (known.features,)
    first = next((w for name, w in update.weights.items() if name.endswith("weight")), None)
    if first is not None and first.ndim == 2:
        return (first.shape[1],)
    raise InputError(
        "input shape",
        "nothing that tells the shape of a network input",
        "it, as the first layer is not fully connected",
        "give the update's preprocessing, or the shape",
    )


def _box(
    known: Preprocessing | None, shape: tuple[int, ...], device: torch.device | str
) -> tuple[Tensor, Tensor] | None:
    bounds = None if known is None else known.input_range(shape)
    if bounds is None:
        return None
    low, high = (torch.as_tensor(bound, dtype=torch.float64, device=device) for bound in bounds)
    return low, high


def _probe(target: Target) -> Tensor:
    generator = torch.Generator(target.device).manual_seed(0)
    return PROBE_DEVIATION * torch.randn(
        (1, *target.input_shape), generator=generator, dtype=target.dtype, device=target.device
    )


def _try(target: Target) -> int:
    """Run the network once forward and twice backward; its number of outputs."""
    inputs = _probe(target)
    try:
        outputs = target.predict(inputs)
    except Exception as error:  # the user's forward may raise anything on a wrong shape
        raise InputError(
            "model",
            f"a network that does not take inputs of shape {target.input_shape} ({error})",
            "the network of these inputs",
            "give the input's shape",
        ) from error
    if not isinstance(outputs, Tensor) or outputs.ndim != 2 or len(outputs) != 1:
        raise UnsuitedError(
            "The network does not give one row of outputs a record.",
            "Wrap it so that it returns one (batch, outputs) tensor.",
        )
    labels = torch.zeros(1, dtype=torch.int64, device=target.device)
    try:
        target.loss.check_labels(outputs, labels)
        inputs = inputs[None].requires_grad_()
        found = target.gradients(inputs, labels[None])
        total = torch.stack([part.square().sum() for part in found.values()]).sum()
        slope = torch.autograd.grad(total, inputs, allow_unused=True)[0]
    except InputError:
        raise
    except Exception as error:  # whatever a caller's network or loss may raise
        words = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise UnsuitedError(
            f"The network's gradient cannot be differentiated ({words}).",
            "Gradient matching needs operations with a second derivative, and no control flow that "
            "depends on values.",
        ) from error
    if not bool(slope.any()):
        raise UnsuitedError(
            "The network's gradient does not change with its input, as far as it can be "
            "differentiated.",
            "Check that no operation between input and loss cuts the derivative (rounding, "
            "comparison, detach).",
        )
    return outputs.shape[1]


def is_piecewise_linear(target: Target) -> bool:
    """Whether the network has no curvature where it can be differentiated, as with ReLU.

    Args:
        target: Its network is asked at one random input.
    """
    inputs = _probe(target).requires_grad_()
    outputs = target.predict(inputs)
    mix = torch.linspace(1.0, 2.0, target.outputs, dtype=target.dtype, device=target.device)
    slope = torch.autograd.grad((outputs * mix).sum(), inputs, create_graph=True)[0]
    if not slope.requires_grad:
        return True
    bend = torch.autograd.grad(slope.square().sum(), inputs, materialize_grads=True)[0]
    limit = BEND_ROUNDINGS * torch.finfo(target.dtype).eps * slope.detach().square().sum()
    return bool(bend.abs().max() <= limit)
