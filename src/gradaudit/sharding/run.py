"""Running the shards of a search until one has completed it with the least arithmetic."""

from __future__ import annotations

import os
from dataclasses import replace

from gradaudit.applicability import NETWORK_ATTACKS
from gradaudit.budget import Budget, Control, Progress
from gradaudit.bulk import AuditSettings, Reading
from gradaudit.engine import Engine, InProcess, Unit
from gradaudit.errors import GradauditError, InputError
from gradaudit.result import AuditResult
from gradaudit.sharding.seeds import shard_seed
from gradaudit.sharding.work import Found, search_shard


def audit_shards(
    update: str | os.PathLike[str],
    shards: int,
    *,
    settings: AuditSettings | None = None,
    reading: Reading | None = None,
    engine: Engine | None = None,
    control: Control | None = None,
) -> AuditResult:
    """Search for one update's batch from several seeds, and take what is complete first.

    First is what took the least arithmetic, which is counted, not what was there first by the
    clock: a shard that completes the batch ends the others once they have done as much. So the
    same seed and number of shards give the same result on every engine, bit for bit, unless the
    time runs out. Where none completes it, the one that proved the most records is taken. The
    result is that of `gradaudit.audit` with the seed of that shard, `shard_seed`, alone.

    Args:
        update: The file.
        shards: How many searches; of use up to what the engine does at a time.
        settings: How each of them audits; the budget is of each.
        reading: What is said about the file.
        engine: Where they run, open; by default, one after another in this process.
        control: To watch and interrupt all; its budget is not looked at.

    Returns:
        The result of one shard; ``search.counters`` has its number and how many there were.

    Raises:
        InputError: The number, the file or a setting cannot be used.
        GradauditError: No shard could be run.

    Example:
        >>> import tempfile, torch
        >>> from gradaudit.clients import FedSGD
        >>> from gradaudit.models import mlp
        >>> inputs = torch.randn(4, 30, generator=torch.Generator().manual_seed(1)).double()
        >>> client = FedSGD(mlp(30, [60, 60], 3, dtype=torch.float64))
        >>> captured, _ = client.update(inputs, torch.tensor([0, 1, 2, 0]))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     captured.save(f"{folder}/update.safetensors")
        ...     result = audit_shards(f"{folder}/update.safetensors", 2)
        >>> result.records_recovered, result.search.counters["shards"]
        (4, 2.0)
    """
    if isinstance(shards, bool) or not isinstance(shards, int) or shards < 1:
        raise InputError("shards", repr(shards), "a whole number from 1 on")
    settings, reading = settings or AuditSettings(), reading or Reading()
    settings.check()
    if reading.weights is not None:
        # Workers need not be in this folder.
        reading = replace(reading, weights=os.path.abspath(reading.weights))
    if settings.attack in NETWORK_ATTACKS and shards > 1:
        raise InputError(
            "shards",
            f"{shards} with the attack {settings.attack}",
            "1, or an attack that searches through one layer",
        )
    control = control or Control()
    watched = control.fresh(Budget(None, None))
    path = os.path.abspath(update)
    units = [
        Unit(
            str(shard),
            search_shard,
            {
                "path": path,
                "reading": reading,
                "settings": replace(settings, seed=shard_seed(settings.seed, shard)),
                "shard": shard,
            },
            controlled=True,
            limited=True,
        )
        for shard in range(shards)
    ]
    ended: list[Found] = []
    failures: list[str] = []
    for done in (engine or InProcess()).run(units, watched):
        if done.failure:
            failures.append(done.failure)
        else:
            ended.append(done.value)
        ceiling = watched.effort.ceiling
        ceiling.value = min([f.spent for f in ended if f.complete], default=ceiling.value)
        if control.listener is not None:
            phase = f"{len(ended) + len(failures)} of {shards} shards ended"
            control.listener(Progress(phase, elapsed_seconds=control.elapsed_seconds))
    if not ended and failures:
        raise GradauditError(failures[0])
    if not ended:
        # Interrupted: an audit that is so from the start says it as any other does.
        return settings.audit(reading.load(path), watched.fresh(settings.budget))
    return _marked(min(ended, key=_order), shards)


def _order(found: Found) -> tuple[bool, float, int]:
    """Complete ones by their arithmetic, then the others by what they proved; the first is best."""
    by = found.spent if found.complete else -float(found.records)
    return not found.complete, by, found.shard


def _marked(found: Found, shards: int) -> AuditResult:
    result = found.result()
    counters = {**result.search.counters, "shards": float(shards), "shard": float(found.shard)}
    return replace(result, search=replace(result.search, counters=counters))
