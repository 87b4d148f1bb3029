"""The door for files: `load_update` turns one file, or a pair, into an `Update`."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from torch import Tensor

from gradaudit.capture.agreement import agreed, agreed_step, given_step
from gradaudit.capture.assemble import assemble
from gradaudit.capture.contents import Contents
from gradaudit.capture.layout import (
    check_is_no_other,
    is_own,
    read_noise,
    read_preprocessing,
    read_step,
)
from gradaudit.capture.mistakes import check_after
from gradaudit.capture.numpy_file import read_numpy
from gradaudit.capture.positional import is_positional, name_by_position
from gradaudit.capture.reconcile import reconcile_names
from gradaudit.capture.roles import UNSAID, WEIGHTS, WEIGHTS_AFTER, Parts, split_roles
from gradaudit.capture.safetensors_file import read_safetensors
from gradaudit.capture.sniff import Format, sniff
from gradaudit.capture.torch_file import read_torch
from gradaudit.errors import InputError
from gradaudit.preprocessing import Preprocessing
from gradaudit.tensorfile import sha256_of
from gradaudit.update import LocalTraining, Update, strip_wrappers

Contains = Literal["auto", "gradient", "delta", "weights_after"]

READERS = {
    Format.SAFETENSORS: read_safetensors,
    Format.TORCH: read_torch,
    Format.NUMPY: read_numpy,
}


@dataclass(frozen=True, eq=False)
class _File:
    contents: Contents
    parts: Parts
    sha256: str

    @property
    def path(self) -> str:
        return self.contents.path

    @property
    def observed(self) -> list[str]:
        """Roles in this file other than the weights before."""
        return [role for role in self.parts if role not in (WEIGHTS, UNSAID)]


def load_update(
    path: str | os.PathLike[str],
    weights: str | os.PathLike[str] | None = None,
    *,
    contains: Contains = "auto",
    learning_rate: float | None = None,
    training: LocalTraining | None = None,
    noise: float | None = None,
    preprocessing: Preprocessing | None = None,
) -> Update:
    """Read a captured update from one file that holds everything, or from a pair of files.

    Formats are told by content: safetensors (this package's own layout or plain), torch.save's
    archives, NumPy's .npz. Nothing in a file is executed. Unnamed tensors take the weights'
    names where their shapes settle it. See docs/formats.md.

    Args:
        path: The update; the weights too, unless ``weights`` is given.
        weights: The global weights before the step.
        contains: What ``path`` holds. ``"gradient"``; ``"delta"``, weights after minus before;
            ``"weights_after"``, from which the weights before are subtracted, in float32 or wider
            and without BatchNorm's buffers. ``"auto"``: what the file says; in a pair that does
            not say, the weights after if a learning rate or local training is given, else the
            gradient.
        learning_rate: The client's learning rate, positive; recovered records do not depend on
            it.
        training: The client's local training, where the update is not one gradient.
        noise: Standard deviation of Gaussian noise in each observed entry, in its units; of the
            difference, if the weights before are subtracted.
        preprocessing: How records became network inputs; takes the place of the file's own.

    Returns:
        The update, checked; ``source`` holds the files' names and SHA-256.

    Raises:
        InputError: A file cannot be read safely, or what it holds is no update; says which, why
            and what to do.

    Example:
        >>> import tempfile, torch
        >>> model = torch.nn.Linear(3, 2)
        >>> model(torch.ones(4, 3)).sum().backward()
        >>> gradient = {name: p.grad for name, p in model.named_parameters()}
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     torch.save({"weights": model.state_dict(), "gradient": gradient}, folder + "/u.pt")
        ...     load_update(folder + "/u.pt").observed_kind
        'gradient'
    """
    if contains not in get_args(Contains):
        raise InputError(
            "contains", repr(contains), "one of " + ", ".join(map(repr, get_args(Contains)))
        )
    if learning_rate is not None and type(learning_rate) not in (int, float):
        raise InputError("learning_rate", repr(learning_rate), "a positive number")
    step = given_step(learning_rate, training)
    trained = learning_rate is not None or training is not None
    update_file = _read("path", path)
    if weights is None:
        weights_file = update_file
        role = _single_role(update_file, contains)
    else:
        weights_file = _read("weights", weights)
        role = _pair_role(update_file, weights_file, contains)
    before = _weights_of(weights_file)
    kind = role
    if role in (UNSAID, WEIGHTS):
        kind = contains
        if contains == "auto":
            kind = WEIGHTS_AFTER if role == WEIGHTS or trained else "gradient"
    observed: dict[str, Tensor] = update_file.parts[role]
    if is_positional(observed):
        observed = name_by_position(
            update_file.path,
            observed,
            before,
            weights_keep_order=weights_file.contents.keeps_order,
        )
    before = strip_wrappers("weights", before)
    observed = reconcile_names(strip_wrappers(kind, observed), before)
    if role == UNSAID and contains == "auto" and kind == WEIGHTS_AFTER:
        check_after(update_file.path, observed, before)
    metadata = update_file.contents.metadata
    own = is_own(metadata)
    if own:
        where = update_file.path
        step = agreed_step(where, read_step(where, metadata), step)
        noise = agreed(where, "noise", read_noise(where, metadata), noise)
        preprocessing = preprocessing or read_preprocessing(metadata)
    return assemble(
        before,
        observed,
        kind,
        where=update_file.path,
        trusted=own,
        step=step,
        noise=noise,
        preprocessing=preprocessing,
        source=_source(update_file, weights_file),
    )


def _read(argument: str, path: object) -> _File:
    if not isinstance(path, str | os.PathLike):
        raise InputError(argument, type(path).__name__, "a path to a file")
    try:
        file = Path(os.fsdecode(path))
        contents = READERS[sniff(file)](file)
        check_is_no_other(contents.path, contents.metadata)
        digest = sha256_of(file)
    except OSError as error:
        # It was readable a moment ago: removed, or on a drive that fails.
        raise InputError(str(path), error.strerror or str(error), "a readable file") from error
    return _File(contents, split_roles(contents), digest)


def _single_role(file: _File, contains: str) -> str:
    if not file.observed:
        what = "weights" if WEIGHTS in file.parts else "tensors that do not say what they are"
        raise InputError(
            file.path,
            f"only {what}",
            "the weights and the gradient",
            "pass the weights before as weights=FILE, or save "
            "{'weights': state_dict, 'gradient': {...}}",
        )
    if WEIGHTS not in file.parts:
        raise InputError(
            file.path,
            f"a {file.observed[0]} without weights",
            "the weights before as well",
            "pass them as weights=FILE",
        )
    return _agreed_role(file, contains)


def _pair_role(file: _File, weights_file: _File, contains: str) -> str:
    if file.sha256 == weights_file.sha256:
        raise InputError(
            "weights",
            "the content of the update's own file",
            "the weights before the step, and what the client sent",
            "drop weights= if the file holds both",
        )
    if not file.observed:
        return WEIGHTS if WEIGHTS in file.parts else UNSAID
    if WEIGHTS in file.parts:
        raise InputError(
            "weights",
            f"weights in {Path(file.path).name!r} and in {Path(weights_file.path).name!r}",
            "weights in one place",
            "drop weights=",
        )
    return _agreed_role(file, contains)


def _agreed_role(file: _File, contains: str) -> str:
    """The one observed role of a file that says it, in agreement with the caller."""
    if len(file.observed) > 1:
        raise InputError(
            file.path, " and ".join(file.observed), "exactly one of them", "save only one"
        )
    role = file.observed[0]
    if contains not in ("auto", role):
        raise InputError(
            "contains", repr(contains), f"{role!r}, which is what the file says", "leave it out"
        )
    return role


def _weights_of(file: _File) -> dict[str, Tensor]:
    for role in (WEIGHTS, UNSAID):
        if role in file.parts:
            return file.parts[role]
    raise InputError(
        file.path,
        f"a {file.observed[0]}",
        "the weights before the step",
        "check which file is which",
    )


def _source(file: _File, weights_file: _File) -> dict[str, str]:
    """Names without folders: an audit's record must not tell where the auditor keeps files."""
    name, weights_name = Path(file.path).name, Path(weights_file.path).name
    if weights_file is not file and weights_name == name:
        weights_name += " (weights)"
    return {name: file.sha256, weights_name: weights_file.sha256}
