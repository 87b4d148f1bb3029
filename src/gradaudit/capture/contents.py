"""What a reader hands on: named entries as they lie in the file, not yet understood."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, eq=False)
class Contents:
    """The entries of one file.

    Attributes:
        path: The file, for messages.
        entries: Whatever the file held at its top: a mapping or a sequence, of tensors or of more
            of the same. Nothing in it is trusted.
        metadata: Text beside the tensors (safetensors only).
        keeps_order: Whether the entries lie in the order in which they were saved. A safetensors
            file sorts them.
        file_bytes: Size of the file.
    """

    path: str
    entries: object
    file_bytes: int
    metadata: Mapping[str, str] = field(default_factory=dict)
    keeps_order: bool = True
