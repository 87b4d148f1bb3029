"""Audits that are done, in a folder, so that a search can go on where it ended."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar, cast

from gradaudit.decoding import decode
from gradaudit.errors import InputError
from gradaudit.result.file import plain
from gradaudit.tensorfile import check_file, replacing

T = TypeVar("T")
FOLDER = "runs"


class Store:
    """Small results by what determined them.

    Args:
        folder: Where to keep them, in a folder ``runs`` that is made when needed; None keeps
            nothing.

    Example:
        >>> Store(None).read(int, {"seed": 1})
    """

    def __init__(self, folder: str | Path | None) -> None:
        self._folder = None if folder is None else Path(folder) / FOLDER

    def read(self, kind: type[T], determined_by: dict[str, Any]) -> T | None:
        """A result of this kind, if there is one.

        Args:
            kind: A dataclass, as `gradaudit.decoding.decode` takes it.
            determined_by: Everything that determines it, as JSON values.

        Raises:
            InputError: The file is not one that `write` wrote.
        """
        path = self._path(determined_by)
        if path is None or not path.is_file():
            return None
        try:
            check_file(path)
            value = json.loads(path.read_text(encoding="utf-8"))
            return cast(T, decode(kind, value["result"], str(path)))
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            remedy = "delete it, and it is made anew"
            raise InputError(str(path), f"{error}", "a result as it was written", remedy) from error

    def write(self, result: Any, determined_by: dict[str, Any]) -> None:
        """Keep a result; nothing half written is ever seen.

        Args:
            result: A dataclass's instance.
            determined_by: As for `read`.

        Raises:
            InputError: The folder cannot be written to.
        """
        path = self._path(determined_by)
        if path is None:
            return
        text = json.dumps(plain({"of": determined_by, "result": asdict(result)}), indent=1)
        with replacing(path) as temporary:
            temporary.write_text(text + "\n", encoding="utf-8")

    def _path(self, determined_by: dict[str, Any]) -> Path | None:
        if self._folder is None:
            return None
        text = json.dumps(determined_by, sort_keys=True, allow_nan=False)
        return self._folder / f"{hashlib.sha256(text.encode()).hexdigest()[:24]}.json"
