"""What the metadata of this package's own files says about an update."""

from __future__ import annotations

import json
from collections.abc import Mapping

from gradaudit.decoding import decode
from gradaudit.errors import InputError
from gradaudit.preprocessing import Preprocessing
from gradaudit.update import FORMAT, FORMAT_VERSION, Step, step_from_text

# What else this package writes as safetensors, by the metadata's "format".
_NO_UPDATES = {
    "gradaudit.truth": "the truth of a simulated client, the records themselves",
    "gradaudit.audit-result": "the records that an audit recovered",
}


def check_is_no_other(where: str, metadata: Mapping[str, str]) -> None:
    """Refuse this package's files of records, which are no updates.

    Args:
        where: The file, for the message.
        metadata: The file's text metadata.

    Raises:
        InputError: It is one.
    """
    what = _NO_UPDATES.get(metadata.get("format", "").partition(" ")[0])
    if what is not None:
        raise InputError(
            where,
            what,
            "an update, or the weights before it",
            "give the update that they are the records of",
        )


def is_own(metadata: Mapping[str, str]) -> bool:
    """Whether a file says that this package wrote it.

    Example:
        >>> is_own({"format": "gradaudit.update"}), is_own({"format": "pt"})
        (True, False)
    """
    return metadata.get("format") == FORMAT


def read_step(where: str, metadata: Mapping[str, str]) -> Step:
    """How the update came about, as the metadata says.

    Args:
        where: The file, for messages.
        metadata: The file's text metadata.

    Raises:
        InputError: The version or the step is not one that is known.
    """
    version = metadata.get("version")
    if version != FORMAT_VERSION:
        raise InputError(
            where,
            f"layout version {version!r:.40}",
            repr(FORMAT_VERSION),
            "read it with the version of gradaudit that wrote it",
        )
    return step_from_text(metadata.get("step", ""), f"{where}: step")


def read_noise(where: str, metadata: Mapping[str, str]) -> float | None:
    """The noise in each observed entry, as the metadata says, or None.

    Args:
        where: The file, for messages.
        metadata: The file's text metadata.

    Raises:
        InputError: It is no standard deviation.
    """
    if "noise" not in metadata:
        return None
    try:
        noise = json.loads(metadata["noise"])
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: noise", "no number", "what Update.save writes") from error
    return decode(float, noise, f"{where}: noise", null_is_infinite=False)


def read_preprocessing(metadata: Mapping[str, str]) -> Preprocessing | None:
    """The preprocessing in the metadata, or None.

    Raises:
        InputError: It is not what ``Preprocessing.to_text`` writes.
    """
    text = metadata.get("preprocessing")
    return None if text is None else Preprocessing.from_json(text)
