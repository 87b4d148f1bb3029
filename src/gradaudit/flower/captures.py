"""Clients' updates on disk, for an audit later and elsewhere: one file a client and round."""

from __future__ import annotations

from pathlib import Path

from gradaudit.errors import InputError
from gradaudit.update import Update

# An update may hold what its client wanted to keep: for the server's own user only.
PRIVATE = 0o700


def prepare_folder(path: str | Path) -> Path:
    """Make the folder for a run's captures, readable by nobody else.

    Args:
        path: A new or an empty folder; the one above it must exist.

    Raises:
        InputError: It holds something already, or cannot be made.
    """
    folder = Path(path)
    try:
        folder.mkdir(mode=PRIVATE, exist_ok=True)
        taken = any(folder.iterdir())
    except OSError as error:
        raise InputError(
            "capture_dir", f"{str(path)!r}: {error.strerror or error}", "a folder"
        ) from error
    if taken:
        raise InputError(
            "capture_dir",
            f"files in {str(path)!r}",
            "a new or an empty folder, so that no earlier run's captures are replaced",
        )
    return folder


def capture_path(folder: Path, server_round: int, node_id: int) -> Path:
    """Where one client's update of one round is kept.

    Example:
        >>> capture_path(Path("captures"), 3, 17).name
        'round-0003-node-17.safetensors'
    """
    return folder / f"round-{int(server_round):04d}-node-{int(node_id)}.safetensors"


def capture(
    update: Update, folder: Path, server_round: int, node_id: int, examples: int | None
) -> Path:
    """Save an update as `gradaudit.load_update` and ``gradaudit audit`` read it.

    Args:
        update: What the client sent.
        folder: From `prepare_folder`.
        server_round: Flower's round.
        node_id: Flower's identifier of the client's node.
        examples: How many records the client says it has.

    Returns:
        The file.

    Raises:
        InputError: It cannot be written.
    """
    path = capture_path(folder, server_round, node_id)
    notes = {"round": str(int(server_round)), "node": str(int(node_id))}
    if examples is not None:
        notes["examples"] = str(examples)
    update.save(path, notes=notes)
    return path
