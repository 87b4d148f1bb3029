"""A hook on the optimizer of Opacus that records each step of DP-SGD."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any

from torch import nn

from gradaudit.errors import InputError
from gradaudit.opacus.mechanism import check_optimizer
from gradaudit.opacus.step import PrivateStep, read_step
from gradaudit.preprocessing import Preprocessing


class Recorder:
    """Records what a client sends at each step of DP-SGD, while it trains as before.

    Used as a context manager, or by `attach` and `detach`. A hook that is already attached, such
    as the privacy accountant's, runs first and goes on running. Steps that a ``BatchMemoryManager``
    skips are no steps of their own: their gradients are in the step that ends the batch.

    Each recorded step keeps three copies of the model: weights, gradient sent, gradient before the
    noise.

    Args:
        optimizer: The optimizer that ``PrivacyEngine.make_private`` returned.
        model: The model that it returned, or the one inside; names are those of the one inside.
        limit: Record the first so many steps, 1 or more; `steps_seen` counts the others too.
        folder: Also write each step's sent update here, as ``step-00001.safetensors``, with notes
            on the noise; the folder is made if need be. What was before the noise is not written:
            save it with ``step.before_noise.save(path)``.
        preprocessing: How records became network inputs, to put into the updates.

    Attributes:
        steps: The recorded steps, in order.
        steps_seen: Steps since the recorder was attached.

    Raises:
        InputError: The optimizer is none that can be recorded, or not this model's.
        MissingExtraError: Opacus is not installed.

    Source:
        Written for Opacus 1.6: ``DPOptimizer.attach_step_hook``, ``step_hook``, ``params``, and
        ``clip_and_accumulate``, which is counted to know how many records were drawn.

    Example:
        See docs/opacus.md for a whole run.

        >>> Recorder(None, nn.Linear(2, 1), limit=0)
        Traceback (most recent call last):
        gradaudit.errors.InputError: limit: found 0, expected a whole number of 1 or more
    """

    def __init__(
        self,
        optimizer: Any,
        model: nn.Module,
        *,
        limit: int = 10,
        folder: str | Path | None = None,
        preprocessing: Preprocessing | None = None,
    ) -> None:
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
            raise InputError("limit", repr(limit), "a whole number of 1 or more")
        check_optimizer(optimizer)
        self.steps: list[PrivateStep] = []
        self.steps_seen = 0
        self._optimizer = optimizer
        self._model = model
        self._limit = limit
        self._folder = None if folder is None else Path(folder)
        self._preprocessing = preprocessing
        self._names = _names(optimizer, model)
        # One object: a bound method is a new one at each look, and could not be recognised.
        self._hook = self._record
        self._earlier_hook: Any = None
        # None until something is counted: ghost clipping keeps nothing to count.
        self._records: int | None = None

    def attach(self) -> None:
        """Begin to record.

        Raises:
            InputError: A recorder is attached already.
        """
        if isinstance(getattr(self._optimizer.step_hook, "__self__", None), Recorder):
            raise InputError("optimizer", "a recorder that is attached", "one at a time")
        self._earlier_hook = self._optimizer.step_hook
        self._optimizer.attach_step_hook(self._hook)
        clip = self._optimizer.clip_and_accumulate

        def counted() -> None:
            gradients = self._optimizer.params[0].grad_sample
            batches = gradients if isinstance(gradients, list) else [gradients]
            self._records = (self._records or 0) + sum(len(batch) for batch in batches)
            clip()

        self._optimizer.clip_and_accumulate = counted

    def detach(self) -> None:
        """Stop recording, and put the earlier hook back.

        Raises:
            InputError: Another hook has taken the recorder's place, so that steps are missing.
        """
        del self._optimizer.clip_and_accumulate
        if self._optimizer.step_hook is not self._hook:
            raise InputError(
                "optimizer",
                "another step hook in the recorder's place",
                "the recorder's own",
                "attach other hooks before the recorder, which goes on calling them",
            )
        self._optimizer.step_hook = self._earlier_hook

    def __enter__(self) -> Recorder:
        self.attach()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self.detach()
        except InputError:
            # What went wrong inside says more.
            if error is None:
                raise

    def _record(self, optimizer: Any) -> None:
        if self._earlier_hook is not None:
            self._earlier_hook(optimizer)
        self.steps_seen += 1
        records, self._records = self._records, None
        if len(self.steps) == self._limit:
            return
        step = read_step(
            optimizer,
            self._model.state_dict(),
            self._names,
            number=self.steps_seen,
            batch_size=records,
            preprocessing=self._preprocessing,
        )
        self.steps.append(step)
        if self._folder is not None:
            path = self._folder / f"step-{step.number:05}.safetensors"
            step.sent.save(path, notes=step.mechanism.notes())


def _names(optimizer: Any, model: nn.Module) -> dict[int, str]:
    """The trained parameters' names by their ``id``."""
    if not isinstance(model, nn.Module):
        raise InputError("model", type(model).__name__, "a torch.nn.Module")
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    trained = [id(parameter) for parameter in optimizer.params]
    if not trained or not set(trained) <= names.keys():
        raise InputError(
            "model",
            "a model without the parameters that the optimizer trains",
            "the model that PrivacyEngine.make_private returned with the optimizer",
        )
    return names
