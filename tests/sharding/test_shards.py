"""Which shard is taken, and what ends the others."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from gradaudit import audit, load_update
from gradaudit.budget import Budget, Control
from gradaudit.bulk import AuditSettings
from gradaudit.engine import InProcess
from gradaudit.errors import GradauditError, InputError
from gradaudit.evidence import Status
from gradaudit.sharding import audit_shards, shard_seed
from sharding.material import HARD, SETTINGS, WINNER, save


class Backwards(InProcess):
    """The last shard first; and it notes what every one of them gave."""

    def __init__(self):
        super().__init__()
        self.values = {}

    def run(self, units, control):
        for done in super().run(units[::-1], control):
            self.values[int(done.key)] = done.value
            yield done


@pytest.fixture(scope="module")
def update(tmp_path_factory):
    return save(tmp_path_factory.mktemp("update") / "update.safetensors", *HARD)


def test_the_least_arithmetic_wins_and_the_others_stop_there(update):
    engine = Backwards()
    settings = replace(SETTINGS, submatrices=500_000)
    found = audit_shards(update, 4, settings=settings, engine=engine)
    values = engine.values
    assert found.status is Status.RECOVERED
    assert found.search.counters["shard"] == WINNER
    # The last one came first, and completed the batch too, with more.
    assert values[3].complete
    assert all(values[shard].spent > values[WINNER].spent for shard in (0, 1, 3))
    stopped = values[0]
    assert not stopped.complete
    assert "arithmetic" in stopped.result().cause
    assert stopped.result().search.counters["submatrices"] < 50_000


def test_the_result_is_that_of_the_shard_s_seed_alone(update):
    found = audit_shards(update, 3, settings=SETTINGS)
    alone = audit(
        load_update(update),
        attack="spear",
        budget=Budget(None, SETTINGS.submatrices),
        seed=shard_seed(0, WINNER),
    )
    assert torch.equal(found.records, alone.records)
    counters = dict(found.search.counters)
    assert (counters.pop("shards"), counters.pop("shard")) == (3, WINNER)
    assert counters == alone.search.counters


def test_where_none_completes_it_the_one_with_most_records_is_taken(update):
    engine = Backwards()
    found = audit_shards(update, 2, settings=SETTINGS, engine=engine)
    assert found.status is not Status.RECOVERED
    proved = {shard: value.records for shard, value in engine.values.items()}
    assert found.search.counters["shard"] == min(proved, key=lambda s: (-proved[s], s))


def test_seeds_of_shards_differ():
    seeds = {shard_seed(seed, shard) for seed in range(20) for shard in range(20)}
    assert len(seeds) == 400
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert [shard_seed(seed, 0) for seed in (0, 9)] == [0, 9]


def test_what_cannot_be_sharded_is_refused(update, tmp_path):
    with pytest.raises(InputError, match="shards: found 0, expected a whole number"):
        audit_shards(update, 0)
    with pytest.raises(InputError, match="shards: found 2 with the attack rgap"):
        audit_shards(update, 2, settings=AuditSettings(attack="rgap", model="lenet"))
    with pytest.raises(GradauditError, match="nowhere"):
        audit_shards(tmp_path / "nowhere.pt", 2)


def test_an_interruption_before_any_shard_ended_is_a_result(update):
    control = Control()
    control.interrupt()
    found = audit_shards(update, 2, control=control)
    assert found.status is Status.BUDGET_EXHAUSTED
    assert "interrupted" in found.cause
