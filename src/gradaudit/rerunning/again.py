"""An audit again, from its result: the same files, the same question, and what came of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import torch
from torch import Tensor, nn

from gradaudit.auditing import audit
from gradaudit.budget import Budget, Control
from gradaudit.errors import InputError
from gradaudit.models.losses import Loss
from gradaudit.rerunning.files import find_update
from gradaudit.rerunning.network import find_network
from gradaudit.result import AuditResult, Repetition, Request, compare_results
from gradaudit.session.request import matching_of

Place = str | PathLike[str]


@dataclass(frozen=True, eq=False)
class Rerun:
    """What came of an audit that was asked for again.

    Attributes:
        before: The result that it began with.
        result: The result of today.
        repetition: How alike they are.
    """

    before: AuditResult
    result: AuditResult
    repetition: Repetition


def rerun(
    path: Place,
    *,
    update: Place | None = None,
    weights: Place | None = None,
    model: nn.Module | str | None = None,
    loss: Loss | Callable[[Tensor, Tensor], Tensor] | None = None,
    device: str | None = None,
    budget: Budget | None = None,
    control: Control | None = None,
) -> Rerun:
    """Ask again what an earlier audit was asked, of the same files, and compare the results.

    A result names its files without folders. They are looked for beside it and in the current
    folder, under just these names, and used only if their SHA-256 is the recorded one. Nothing
    that the result says is executed: a network of somebody's own code must be given again. The
    number of threads is that of the earlier audit, as far as there are so many cores.

    Args:
        path: The result's JSON.
        update: The file with what was observed, if it lies elsewhere or is called otherwise.
        weights: The file with the weights before, likewise.
        model: The network, where the result does not name one of `gradaudit.models`.
        loss: The loss, where it was a function.
        device: By default, where the earlier audit ran.
        budget: By default, the earlier audit's. More time changes nothing about a search that
            ended by itself.
        control: To watch or stop the search from outside; brings its own budget.

    Returns:
        Both results, and how alike they are.

    Raises:
        InputError: The result does not say how it was made, or the files, the network or the loss
            are missing or are others.

    Example:
        >>> import tempfile
        >>> from gradaudit.capture import load_update
        >>> from gradaudit.clients import FedSGD
        >>> from gradaudit.models import mlp
        >>> inputs = torch.randn(4, 30, generator=torch.Generator().manual_seed(1)).double()
        >>> client = FedSGD(mlp(30, [60, 60], 3, dtype=torch.float64))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     client.update(inputs, torch.tensor([0, 1, 2, 0]))[0].save(folder + "/u.safetensors")
        ...     audit(load_update(folder + "/u.safetensors")).save(folder + "/result.json")
        ...     rerun(folder + "/result.json").repetition.statement()
        'The same result, bit for bit: 4 certified records, evidence and verdict.'
    """
    place = Path(path)
    before = AuditResult.load(place)
    request = request_of(before, place)
    observed = find_update(before, request.capture, place.parent, update, weights)
    # A name that the result holds is what was asked; a function that is given stands for none.
    asked = loss if request.loss is None else request.loss
    if asked is None:
        raise InputError(
            "loss", "a function, which no file holds", "the same function", "pass it as loss="
        )
    knowledge, method = matching_of(request)
    network = find_network(request, model, observed)
    if control is None:
        control = Control(budget or budget_of(request))
    with _threads(before.search.threads):
        result = audit(
            observed,
            model=network,
            loss=asked,
            layer=request.layer,
            attack=request.attack,
            knowledge=knowledge,
            method=method,
            invert_features=request.invert_features,
            seed=request.seed,
            device=device or _device(before, request),
            control=control,
        )
    return Rerun(before, result, compare_results(before, result))


def request_of(result: AuditResult, path: Place) -> Request:
    """What an audit was asked.

    Args:
        result: Its result.
        path: The result's file, for the message.

    Raises:
        InputError: The result does not say it.
    """
    if result.request is None:
        raise InputError(
            str(path),
            "a result that does not say what was asked",
            "one of schema version 2 or later, written by an audit",
            "run the audit itself again",
        )
    return result.request


def budget_of(request: Request) -> Budget:
    """The budget of an audit.

    Raises:
        InputError: It is none.
    """
    return Budget(request.seconds, request.submatrices, request.memory)


def _device(before: AuditResult, request: Request) -> str:
    """Where the earlier audit ran; where it left the choice, a place that there is."""
    place = before.search.device
    absent = place.startswith("cuda") and not torch.cuda.is_available()
    return request.device if absent else place


@contextmanager
def _threads(number: int) -> Iterator[None]:
    """Compute with so many threads, on which rounding depends, as far as there are cores."""
    usual = torch.get_num_threads()
    wanted = min(number, os.cpu_count() or 1) or usual
    torch.set_num_threads(wanted)
    try:
        yield
    finally:
        torch.set_num_threads(usual)
