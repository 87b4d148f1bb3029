"""How an update came about: one gradient, or local training."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from typing import Any

from gradaudit.decoding import decode
from gradaudit.errors import InputError


@dataclass(frozen=True)
class GradientStep:
    """The update is one gradient of one batch (FedSGD).

    Attributes:
        learning_rate: What the gradient was multiplied by when the update is a difference of
            weights; None when unknown. Recovered records do not depend on it.
    """

    learning_rate: float | None = None

    def __post_init__(self) -> None:
        check_learning_rate(self.learning_rate)


@dataclass(frozen=True)
class LocalTraining:
    """The update is what local training changed (FedAvg): ``epochs`` passes in mini-batches.

    Terms, which papers mix up: a *record* is one example; a *batch* is what one gradient is taken
    of; a *step* is one change of the weights, by one batch; an *epoch* is one pass over all the
    client's records. A *round* ends when the client sends the difference of weights after its
    last step and before its first one.

    With SGD and a constant learning rate, that difference is a linear combination of the steps'
    gradients and, under weight decay, of the weights before: see `combination`. The gradient of a
    fully connected first layer lies in the span of the records, whatever the weights, and so does
    any combination. Other optimisers (Adam, RMSprop, Adagrad) divide each entry by a running
    scale of its own, after which it does not; an audit refuses these.

    Attributes:
        learning_rate: Of every step; None when unknown.
        epochs: Passes over the client's records.
        batch_size: Records in a batch, the last one of an epoch being what is left; None: all
            records in one batch.
        optimizer: ``"sgd"``, or the name of another one.
        momentum: mu, below 1.
        weight_decay: lambda, added to the gradient as lambda times the weights (torch's
            ``weight_decay``).
        nesterov: Whether momentum is Nesterov's; needs momentum and no dampening.
        dampening: Of momentum: later gradients enter it times 1 - dampening.
        records: How many the client trained on, if it says so (FedAvg weights its average by
            it; Flower's ``num-examples``); None when unknown.

    Raises:
        InputError: A value is out of its range.

    Example:
        >>> training = LocalTraining(learning_rate=0.1, epochs=3, batch_size=5)
        >>> training.steps(records=12), training.steps()
        (9, None)
    """

    learning_rate: float | None = None
    epochs: int = 1
    batch_size: int | None = None
    optimizer: str = "sgd"
    momentum: float = 0.0
    weight_decay: float = 0.0
    nesterov: bool = False
    dampening: float = 0.0
    records: int | None = None

    def __post_init__(self) -> None:
        check_learning_rate(self.learning_rate)
        _check_count("epochs", self.epochs)
        for name in ("batch_size", "records"):
            if getattr(self, name) is not None:
                _check_count(name, getattr(self, name))
        if not isinstance(self.optimizer, str) or not self.optimizer.strip():
            raise InputError("optimizer", repr(self.optimizer), "its name, such as 'sgd'")
        object.__setattr__(self, "optimizer", self.optimizer.strip().lower())
        _check_range("momentum", self.momentum, 0 <= self.momentum < 1, "0 or more, below 1")
        _check_range("weight_decay", self.weight_decay, self.weight_decay >= 0, "0 or more")
        _check_range("dampening", self.dampening, 0 <= self.dampening <= 1, "0 to 1")
        if self.nesterov and (self.momentum == 0 or self.dampening != 0):
            raise InputError(
                "nesterov", "True", "False without momentum or with dampening, as torch's SGD has"
            )

    @property
    def is_linear(self) -> bool:
        """Whether the difference is a linear combination of gradients and weights."""
        return self.optimizer == "sgd"

    def steps(self, records: int | None = None) -> int | None:
        """Number of steps: ``epochs * ceil(records / batch_size)``; None when unknown.

        Args:
            records: The client's, where the training does not say.
        """
        if self.batch_size is None:
            return self.epochs
        records = records if self.records is None else self.records
        return None if records is None else self.epochs * math.ceil(records / self.batch_size)


Step = GradientStep | LocalTraining

_KINDS: dict[str, type[Step]] = {"gradient": GradientStep, "local_training": LocalTraining}


def step_to_text(step: Step) -> str:
    """A step as JSON.

    Example:
        >>> step_to_text(GradientStep(0.1))
        '{"kind": "gradient", "learning_rate": 0.1}'
    """
    (kind,) = (name for name, made in _KINDS.items() if isinstance(step, made))
    return json.dumps({"kind": kind, **asdict(step)})


def step_from_text(text: str, where: str) -> Step:
    """Read what `step_to_text` wrote, strictly.

    Args:
        text: The JSON.
        where: What it is, for the error.

    Raises:
        InputError: It is something else, or a value is out of its range.

    Example:
        >>> step_from_text('{"kind": "gradient", "learning_rate": 0.1}', "step")
        GradientStep(learning_rate=0.1)
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(where, "no readable JSON", "what Update.save writes") from error
    kind = value.pop("kind", None) if isinstance(value, dict) else None
    if not isinstance(kind, str) or kind not in _KINDS:
        expected = "one of the kinds " + ", ".join(map(repr, _KINDS))
        raise InputError(where, "an unknown kind of step", expected)
    return decode(_KINDS[kind], value, where, null_is_infinite=False)


def check_learning_rate(rate: Any) -> None:
    """Refuse what is no learning rate; None stands for an unknown one.

    Raises:
        InputError: It is not a positive number.
    """
    if rate is not None and not (_is_number(rate) and 0 < rate < math.inf):
        raise InputError("learning_rate", repr(rate), "a positive number")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _check_count(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InputError(name, repr(value), "a whole number, 1 or more")


def _check_range(name: str, value: Any, within: bool, expected: str) -> None:
    if not _is_number(value) or not math.isfinite(value) or not within:
        raise InputError(name, repr(value), f"a number, {expected}")
