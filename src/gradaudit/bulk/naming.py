"""Names of result files: from the updates' names, harmless and each its own."""

from __future__ import annotations

import hashlib
import unicodedata
from collections import Counter
from collections.abc import Iterable
from pathlib import PurePosixPath

# A file name may have 255 bytes; suffixes, and the beginning and end of a temporary file's name,
# need some of them.
MAX_BYTES = 160
_DIGITS = 10


def stems(names: Iterable[str]) -> list[str]:
    """A file name without suffix for each update's name.

    Letters and digits of every script stay; a folder's separator becomes a hyphen, anything else an
    underscore. A name that this changes, or that another one's would be taken for on some file
    system, gets a digest of the whole name, so that it does not depend on the order.

    Args:
        names: Different ones, with ``/`` between folders.

    Example:
        >>> stems(["round-1.safetensors", "übung/ä.pt"])
        ['round-1', 'übung-ä']
        >>> stems(["../a?.pt"])
        ['a_-b035554bb0']
        >>> [name[:2] for name in stems(["a.pt", "A.npz"])]
        ['a-', 'A-']
    """
    names = list(names)
    found = [_clean(name) for name in names]
    alike = Counter(_folded(stem) for stem, _ in found)
    return [
        stem if same and alike[_folded(stem)] == 1 else f"{stem}-{_digest(name)}"
        for name, (stem, same) in zip(names, found, strict=True)
    ]


def _clean(name: str) -> tuple[str, bool]:
    """A harmless name, and whether it says the same."""
    path = PurePosixPath(name)
    joined = str(path.with_suffix("")).replace("/", "-") if path.name else ""
    text = unicodedata.normalize("NFC", joined)
    text = "".join(c if c.isalnum() or c in "-_." or _is_mark(c) else "_" for c in text)
    # Neither hidden nor a folder's own name, nor an option of some program.
    text = text.lstrip("._-")
    while len(text.encode("utf-8")) > MAX_BYTES:
        text = text[:-1]
    text = text.rstrip(".")
    return text or "update", bool(text) and text == joined


def _is_mark(character: str) -> bool:
    """Whether it belongs to the letter before it, as vowels of many scripts do."""
    return unicodedata.category(character) in ("Mn", "Mc")


def _folded(stem: str) -> str:
    """As a file system without case sees it."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", stem).casefold())


def _digest(name: str) -> str:
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
