"""From the arguments of an audit to a request that a file can hold, and back."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from gradaudit.budget import Budget
from gradaudit.errors import InputError
from gradaudit.gradient_matching import METHODS, Knowledge, Method
from gradaudit.models.losses import LOSSES, Loss
from gradaudit.result.request import (
    CapturedFile,
    CaptureRequest,
    KnowledgeRequest,
    MethodRequest,
    ModelRequest,
    Request,
)
from gradaudit.update import Update, step_to_text

# How a name is told from another one's in `Update.source`, where two files have one name.
_SAME_NAME = " (weights)"
_DTYPES = {"float64": torch.float64, "float32": torch.float32}


@dataclass(frozen=True)
class Network:
    """The network that an audit was given.

    Attributes:
        module: The network itself.
        spec: The text it was made from, or None.
    """

    module: nn.Module
    spec: str | None = None


def structure_of(module: nn.Module) -> str:
    """SHA-256 of a network's modules, their settings, and its tensors' names, shapes and types.

    Example:
        >>> structure_of(nn.Linear(3, 2)) == structure_of(nn.Linear(3, 2))
        True
        >>> structure_of(nn.Linear(3, 2)) == structure_of(nn.Linear(3, 4))
        False
    """
    digest = hashlib.sha256()
    for name, part in module.named_modules():
        # Some settings print themselves with their address in memory.
        settings = re.sub(r" at 0x[0-9a-f]+", "", part.extra_repr())
        digest.update(f"{name}: {type(part).__qualname__}({settings})\n".encode())
    for name, tensor in module.state_dict().items():
        if isinstance(tensor, Tensor):
            digest.update(f"{name}: {tensor.dtype} {tuple(tensor.shape)}\n".encode())
    return digest.hexdigest()


def note_request(
    update: Update,
    *,
    network: Network | None,
    loss: str | Loss | Callable[[Tensor, Tensor], Tensor],
    layer: str,
    attack: str,
    knowledge: Knowledge | None,
    method: Method | None,
    invert_features: bool,
    budget: Budget,
    seed: int,
    device: str,
) -> Request:
    """Write down what an audit was asked; the arguments are those of `gradaudit.audit`."""
    return Request(
        attack=attack,
        layer=layer,
        loss=_loss_name(loss),
        seed=seed,
        device=device,
        seconds=None if budget.seconds is None else float(budget.seconds),
        submatrices=budget.submatrices,
        memory=budget.memory,
        invert_features=invert_features,
        model=None if network is None else note_model(network),
        knowledge=None if knowledge is None else KnowledgeRequest(**asdict(knowledge)),
        method=None if method is None else _note_method(method),
        capture=_note_capture(update),
    )


def note_model(network: Network) -> ModelRequest:
    """Write down which network it is."""
    module = network.module
    return ModelRequest(network.spec, type(module).__name__, structure_of(module))


def _loss_name(loss: str | Loss | Callable[[Tensor, Tensor], Tensor]) -> str | None:
    if isinstance(loss, str):
        return loss
    # A function of somebody else's may bear the name of ours.
    named = isinstance(loss, Loss) and LOSSES.get(loss.name) is loss
    return loss.name if named and isinstance(loss, Loss) else None


def _note_method(method: Method) -> MethodRequest:
    fields: dict[str, Any] = {name: getattr(method, name) for name in method.__dataclass_fields__}
    return MethodRequest(**fields | {"dtype": str(method.dtype).removeprefix("torch.")})


def _note_capture(update: Update) -> CaptureRequest:
    files = [CapturedFile(name, sha256) for name, sha256 in update.source.items()]
    weights = files[1] if len(files) > 1 else None
    if weights is not None and weights.name == files[0].name + _SAME_NAME:
        weights = CapturedFile(files[0].name, weights.sha256)
    return CaptureRequest(
        update=files[0] if files else None,
        weights=weights,
        contains=update.contains,
        step=step_to_text(update.step),
        noise=None if update.noise is None else float(update.noise),
        preprocessing=update.preprocessing,
    )


def matching_of(request: Request) -> tuple[Knowledge | None, Method | None]:
    """The knowledge and the method that a request holds, checked.

    Raises:
        InputError: They are none that an audit could have had.
    """
    knowledge, method = request.knowledge, request.method
    known = None if knowledge is None else Knowledge(**vars(knowledge))
    if method is None:
        return known, None
    if method.name not in METHODS:
        raise InputError("request.method", repr(method.name), "one of " + ", ".join(METHODS))
    if method.dtype not in _DTYPES:
        raise InputError("request.method", repr(method.dtype), " or ".join(_DTYPES))
    return known, Method(**vars(method) | {"dtype": _DTYPES[method.dtype]})
