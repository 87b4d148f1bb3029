"""One update of a run: where it is, how it is read, and what determines its result."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

from gradaudit.bulk.reading import Reading
from gradaudit.bulk.settings import AuditSettings
from gradaudit.version import __version__


@dataclass(frozen=True)
class Job:
    """An update to be audited.

    Attributes:
        name: For a person; of no other job in the run.
        stem: Of the files of its result.
        path: Of its file.
        reading: How the file is to be read.
        come_across: Whether it was found in a folder rather than named, so that it may be
            something else.
    """

    name: str
    stem: str
    path: str
    reading: Reading
    come_across: bool = False

    @property
    def files(self) -> list[str]:
        """Paths of its file, and of the weights'."""
        return [self.path, *([self.reading.weights] if self.reading.weights is not None else [])]


def key(files: Sequence[str], reading: Reading, settings: AuditSettings) -> str:
    """A digest of all that determines a result: another one means that it must be audited again.

    Args:
        files: Digests of the update's file, and of the weights'.
        reading: How they were read.
        settings: How the update was audited.
    """
    value = {
        "gradaudit": __version__,
        "files": list(files),
        "reading": reading.to_json(),
        "settings": settings.to_json(),
    }
    text = json.dumps(value, sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
