"""``gradaudit audit --shards``: one update searched from several seeds at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradaudit.budget import Control
from gradaudit.bulk import AuditSettings, Reading
from gradaudit.cli.bulk import PLACES
from gradaudit.engine import open_engine
from gradaudit.errors import InputError
from gradaudit.result import AuditResult
from gradaudit.sharding import audit_shards


@dataclass(frozen=True)
class ShardedSearch:
    """How an update is searched, if in shards; called with a control, it searches.

    Attributes:
        update: Its file.
        settings: How each shard audits.
        reading: What is said about the file.
        shards: How many.
        places: Arguments of `gradaudit.engine.open_engine`.
    """

    update: Path
    settings: AuditSettings
    reading: Reading
    shards: int
    places: dict[str, Any]

    def __call__(self, control: Control) -> AuditResult:
        """Search, under the control's interruption."""
        with open_engine(*(self.places[name] for name in PLACES)) as engine:
            return audit_shards(
                self.update,
                self.shards,
                settings=self.settings,
                reading=self.reading,
                engine=engine,
                control=control,
            )


def sharded(
    bulk: dict[str, Any],
    update: Path,
    settings: Callable[[], AuditSettings],
    reading: Callable[[], Reading],
) -> ShardedSearch | None:
    """The search in shards that options ask for, if any; they are taken out.

    Args:
        bulk: The options for several updates and for shards.
        update: The file.
        settings: Makes how it is audited.
        reading: Makes how it is read.
    """
    shards = bulk.pop("shards")
    if shards is None:
        return None
    places = {name: bulk[name] for name in PLACES}
    bulk.update(dict.fromkeys(PLACES))
    return ShardedSearch(update, settings(), reading(), shards, places)


def refuse_shards(bulk: dict[str, Any]) -> None:
    """Refuse shards with several updates: these keep all workers busy by themselves.

    Raises:
        InputError: Shards were asked for.
    """
    shards = bulk.pop("shards")
    if shards is not None:
        raise InputError("--shards", f"{shards} with several updates", "one update")
