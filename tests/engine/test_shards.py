"""A search in shards gives the same on every engine, bit for bit."""

from __future__ import annotations

import pytest
import torch
from sharding.material import EASY, HARD, SETTINGS, WINNER, save

from gradaudit.bulk import AuditSettings
from gradaudit.engine import InProcess
from gradaudit.sharding import audit_shards, shard_seed

SHARDS = {EASY: 2, HARD: 4}


@pytest.fixture(scope="module")
def updates(tmp_path_factory):
    folder = tmp_path_factory.mktemp("updates")
    return {case: save(folder / f"{case[0]}.safetensors", *case) for case in (EASY, HARD)}


@pytest.fixture(scope="module")
def expected(updates):
    """In this process, one shard after another."""
    return {
        case: audit_shards(path, SHARDS[case], settings=settings_of(case))
        for case, path in updates.items()
    }


def settings_of(case):
    return SETTINGS if case == HARD else AuditSettings(seed=5)


@pytest.mark.parametrize("case", [EASY, HARD], ids=["every shard", "some shards"])
def test_the_same_on_every_engine(engine, updates, expected, case):
    if isinstance(engine, InProcess):
        pytest.skip("the others are compared with it")
    found = audit_shards(updates[case], SHARDS[case], settings=settings_of(case), engine=engine)
    wanted = expected[case]
    assert found.search.counters == wanted.search.counters
    assert found.search.seed == wanted.search.seed
    assert torch.equal(found.records, wanted.records)
    assert torch.equal(found.activation_gradients, wanted.activation_gradients)
    assert found.evidence == wanted.evidence
    if case == HARD:
        assert found.search.counters["shard"] == WINNER
        assert found.search.seed == shard_seed(SETTINGS.seed, WINNER)
    assert found.records_recovered == case[0]
