"""What an audit was asked, written down: with the files that it names, enough to ask it again."""

from __future__ import annotations

from dataclasses import dataclass

from gradaudit.decoding import Count
from gradaudit.preprocessing import Preprocessing


@dataclass(frozen=True)
class CapturedFile:
    """A file that the update was read from.

    Attributes:
        name: Without its folder: a result does not tell where the auditor keeps files.
        sha256: Of its content.
    """

    name: str
    sha256: str


@dataclass(frozen=True)
class CaptureRequest:
    """How the update was read, and what was said about it.

    Attributes:
        update: The file with what was observed; None for an update that no file holds.
        weights: The file with the weights before; None where it is the same.
        contains: What the first one holds: ``"gradient"``, ``"delta"`` or ``"weights_after"``;
            empty without a file.
        step: How the update came about, as `gradaudit.update.step_to_text` writes it.
        noise: Standard deviation of Gaussian noise in each observed entry; None when unknown.
        preprocessing: How records became network inputs, or None.
    """

    update: CapturedFile | None
    weights: CapturedFile | None
    contains: str
    step: str
    noise: float | None
    preprocessing: Preprocessing | None


@dataclass(frozen=True)
class ModelRequest:
    """The network that was given.

    Attributes:
        spec: The text that names it, for `gradaudit.models.parse_model`; None for a module made
            by the caller's own code.
        name: Its class, for a person.
        structure_sha256: Of its modules, their settings, and its parameters' names, shapes and
            types; an audit uses nothing else of a network but its code.
    """

    spec: str | None
    name: str
    structure_sha256: str


@dataclass(frozen=True)
class KnowledgeRequest:
    """What the attacker was assumed to know; see `gradaudit.gradient_matching.Knowledge`.

    Attributes:
        batch_size: Records in the batch, or None.
        labels: The records' classes, or None.
        input_shape: Of one network input, or None.
    """

    batch_size: Count | None
    labels: tuple[Count, ...] | None
    input_shape: tuple[Count, ...] | None


@dataclass(frozen=True)
class MethodRequest:
    """Settings of gradient matching; see `gradaudit.gradient_matching.Method`.

    Attributes:
        name: As an audit calls it.
        distance: Between gradients.
        optimiser: Of the search.
        iterations: Steps of each restart.
        restarts: Random starts.
        learning_rate: The optimiser's.
        total_variation: Its weight.
        boxed: Whether candidates are kept where pixels can be.
        soft_labels: Whether labels are searched for together with the records.
        largest_batch: Records at most, or None.
        dtype: In which the search computes, such as ``"float64"``.
    """

    name: str
    distance: str
    optimiser: str
    iterations: Count
    restarts: Count
    learning_rate: float
    total_variation: float
    boxed: bool
    soft_labels: bool
    largest_batch: Count | None
    dtype: str


@dataclass(frozen=True)
class Request:
    """What an audit was asked: the arguments of `gradaudit.audit`, in plain values.

    Attributes:
        attack: The attack's name.
        layer: Module path, or ``"auto"``.
        loss: The client's loss by name, or ``"auto"``; None where it was a function, which no
            file can hold.
        seed: Of every random choice.
        device: As asked for, such as ``"auto"``; `SearchReport` has where it ran.
        seconds: The budget's; None for no limit.
        submatrices: The budget's; None for no limit.
        memory: The budget's, in bytes; None for the default.
        invert_features: Whether inputs were to be searched for behind recovered features.
        model: The network that was given, or None.
        knowledge: What the attacker was assumed to know, or None.
        method: Settings of gradient matching that were given, or None.
        capture: How the update was read.
    """

    attack: str
    layer: str
    loss: str | None
    seed: Count
    device: str
    seconds: float | None
    submatrices: Count | None
    memory: Count | None
    invert_features: bool
    model: ModelRequest | None
    knowledge: KnowledgeRequest | None
    method: MethodRequest | None
    capture: CaptureRequest
