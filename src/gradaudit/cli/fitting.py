"""Whether what is said about records fits the update, before a search of minutes."""

from __future__ import annotations

from gradaudit.errors import InputError
from gradaudit.models.fitting import first_layer
from gradaudit.preprocessing import Preprocessing
from gradaudit.truth import Truth
from gradaudit.update import Update


def check_truth(update: Update, truth: Truth | None, path: object) -> None:
    """Check that the originals are as long as the records of the update.

    Args:
        update: What was observed.
        truth: The originals, if there are any.
        path: Their file, for the message.

    Raises:
        InputError: They are of another network.
    """
    first = first_layer(update)
    if truth is None or first is None or truth.inputs[0].numel() == first[1]:
        return
    raise InputError(
        "--truth",
        f"records of {truth.inputs[0].numel():,} values in {str(path)!r}",
        f"{first[1]:,} values, which layer {first[0]!r} takes",
        "give the truth that was written with this update",
    )


def given_preprocessing(
    shape: tuple[int, int, int] | None,
    mean: tuple[float, ...] | None,
    std: tuple[float, ...] | None,
) -> Preprocessing | None:
    """What --input-shape, --mean and --std say, or None where they say nothing.

    Args:
        shape: Channels, height, width.
        mean: A value a channel, or one for all.
        std: A value a channel, or one for all.

    Raises:
        InputError: They do not fit each other.
    """
    if shape is None:
        if mean is not None or std is not None:
            raise InputError(
                "--input-shape", "nothing", "the images' shape beside --mean and --std"
            )
        return None
    try:
        return Preprocessing(shape, _per_channel(mean, shape[0]), _per_channel(std, shape[0]))
    except InputError as error:
        part = error.argument.rpartition(".")[2].replace("image_shape", "input-shape")
        raise InputError(f"--{part}", error.found, error.expected) from error


def _per_channel(values: tuple[float, ...] | None, channels: int) -> tuple[float, ...]:
    """One value stands for all channels."""
    if values is None:
        return ()
    return values * channels if len(values) == 1 else values
