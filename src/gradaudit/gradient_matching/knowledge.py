"""What an attacker knows besides the update and the network."""

from __future__ import annotations

from dataclasses import dataclass

from gradaudit.errors import InputError


@dataclass(frozen=True)
class Knowledge:
    """Facts about the batch that an attacker is assumed to have.

    Attributes:
        batch_size: Records in the batch; None to read it off a fully connected layer's rank.
        labels: The records' classes in any order; None to infer them or to search for them.
        input_shape: Of one network input; None for the preprocessing's, or for the inputs of a
            fully connected first layer.

    Raises:
        InputError: The parts contradict each other.

    Example:
        >>> Knowledge(labels=(3, 5)).records
        2
    """

    batch_size: int | None = None
    labels: tuple[int, ...] | None = None
    input_shape: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        size = self.batch_size
        if size is not None and (isinstance(size, bool) or not isinstance(size, int) or size < 1):
            raise InputError("batch_size", repr(size), "a whole number of 1 or more")
        if self.labels is not None and (not self.labels or min(self.labels) < 0):
            raise InputError("labels", repr(self.labels), "one class a record, 0 or more")
        if size is not None and self.labels is not None and size != len(self.labels):
            raise InputError(
                "labels", f"{len(self.labels)} for a batch of {size}", "one class a record"
            )
        if self.input_shape is not None and (not self.input_shape or min(self.input_shape) < 1):
            raise InputError("input_shape", repr(self.input_shape), "positive whole numbers")

    @property
    def records(self) -> int | None:
        """The batch size as far as it is known."""
        return len(self.labels) if self.labels is not None else self.batch_size
