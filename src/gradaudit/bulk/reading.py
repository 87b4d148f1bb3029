"""How a captured file is to be read, in plain values that any process understands."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, cast, get_args

from gradaudit.capture.agreement import given_step
from gradaudit.capture.load import Contains, load_update
from gradaudit.errors import InputError
from gradaudit.models.fitting import check_input_shape
from gradaudit.preprocessing import Preprocessing
from gradaudit.update import LocalTraining, Update

_TRAINING = {
    "local_epochs": "epochs",
    "local_batch_size": "batch_size",
    "momentum": "momentum",
    "weight_decay": "weight_decay",
    "optimizer": "optimizer",
    "local_records": "records",
}


@dataclass(frozen=True)
class Reading:
    """What is said about a captured file beside its content; None where nothing is said.

    Attributes:
        weights: The file with the weights before, or None if the update's own file has them.
        contains: As `gradaudit.load_update` takes it.
        learning_rate: The client's.
        noise: Standard deviation of Gaussian noise in each observed entry.
        local_epochs: Passes of the client over its records.
        local_batch_size: Records in a batch of its local training.
        momentum: Of its local training.
        weight_decay: Of its local training.
        optimizer: Of its local training.
        local_records: Records that it trained on.
        preprocessing: How records became network inputs.

    Raises:
        InputError: A value is out of its range.

    Example:
        >>> Reading(learning_rate=0.1, local_epochs=2).training.epochs
        2
        >>> Reading(learning_rate=0.1).training
    """

    weights: str | None = None
    contains: str = "auto"
    learning_rate: float | None = None
    noise: float | None = None
    local_epochs: int | None = None
    local_batch_size: int | None = None
    momentum: float | None = None
    weight_decay: float | None = None
    optimizer: str | None = None
    local_records: int | None = None
    preprocessing: Preprocessing | None = None

    def __post_init__(self) -> None:
        if self.contains not in get_args(Contains):
            expected = "one of " + ", ".join(map(repr, get_args(Contains)))
            raise InputError("contains", repr(self.contains), expected)
        given_step(self.learning_rate, self.training)
        if self.noise is not None and not 0 <= self.noise < math.inf:
            raise InputError("noise", repr(self.noise), "a standard deviation, 0 or more")

    @property
    def training(self) -> LocalTraining | None:
        """The local training that is described; None where the update is one gradient."""
        given = {_TRAINING[name]: getattr(self, name) for name in _TRAINING}
        known: dict[str, Any] = {name: v for name, v in given.items() if v is not None}
        return LocalTraining(self.learning_rate, **known) if known else None

    def load(self, path: str) -> Update:
        """Read an update so.

        Args:
            path: Its file.

        Raises:
            InputError: It cannot be read, or is none, or contradicts what is said about it.
        """
        update = load_update(
            path,
            self.weights,
            contains=cast(Contains, self.contains),
            learning_rate=self.learning_rate,
            training=self.training,
            noise=self.noise,
            preprocessing=self.preprocessing,
        )
        known = self.preprocessing
        check_input_shape(update, None if known is None else known.image_shape)
        return update

    def to_json(self) -> dict[str, Any]:
        """What determines the update, beside the content of its files: all but the path."""
        value = asdict(self)
        del value["weights"]
        known = self.preprocessing
        return value | {"preprocessing": None if known is None else known.to_json()}
