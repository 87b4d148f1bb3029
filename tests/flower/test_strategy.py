"""A wrapped strategy gets what it would have got, and every client's reply is audited."""

from __future__ import annotations

import logging

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs the extra gradaudit[flower]")

from flwr.app import ArrayRecord, ConfigRecord, Error, Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import (
    DifferentialPrivacyServerSideFixedClipping,
    FedAvg,
    Strategy,
)

from flower.material import (
    CLASSES,
    FEATURES,
    RECORDS,
    SETTINGS,
    WIDTH,
    is_recovered,
    make_grid,
    make_model,
    reply_content,
    sent_content,
)
from gradaudit import load_update
from gradaudit.errors import InputError
from gradaudit.evidence import Status
from gradaudit.flower import AuditingStrategy
from gradaudit.models import mlp


def fed_avg() -> FedAvg:
    return FedAvg(fraction_evaluate=0.0)


def start(strategy, grid=None, rounds=1):
    arrays = ArrayRecord(make_model().state_dict())
    return strategy.start(grid or make_grid(), arrays, num_rounds=rounds)


class Listening(FedAvg):
    """Keeps what it is asked to aggregate."""

    def __init__(self, **settings):
        super().__init__(**settings)
        self.heard = []

    def aggregate_train(self, server_round, replies):
        self.heard.append(list(replies))
        return super().aggregate_train(server_round, self.heard[-1])


def test_each_clients_records_are_recovered():
    strategy = AuditingStrategy(fed_avg(), model=make_model(), **SETTINGS)
    result = start(strategy)
    audits = strategy.results
    assert sorted((a.server_round, a.node_id, a.num_examples) for a in audits) == [
        (1, 1, RECORDS),
        (1, 2, RECORDS),
    ]
    for audit in audits:
        assert audit.result.status is Status.RECOVERED
        assert is_recovered(audit.result.records, partition=audit.node_id - 1)
        assert not is_recovered(audit.result.records, partition=2 - audit.node_id)
        assert (audit.capture, audit.dropped) == (None, False)
    metrics = dict(result.train_metrics_clientapp[1])
    assert metrics == {
        "loss": 0.5,
        "audited-clients": 2,
        "leaking-clients": 2,
        "recovered-records": 2 * RECORDS,
    }


def test_training_is_that_of_the_wrapped_strategy():
    plain, audited = start(fed_avg(), rounds=2), start(AuditingStrategy(fed_avg()), rounds=2)
    for name, array in plain.arrays.items():
        # Clients are drawn in random order, in which float32 sums differ.
        np.testing.assert_allclose(array.numpy(), audited.arrays[name].numpy(), atol=1e-6)


def test_replies_are_handed_on_as_they_came():
    strategy = AuditingStrategy(Listening(fraction_evaluate=0.0))
    configured(strategy)
    replies = [reply_from(1), reply_from(2, error=True)]
    # Whatever can be read only once is read once.
    strategy.aggregate_train(1, iter(replies))
    assert all(a is b for a, b in zip(strategy.heard[0], replies, strict=True))
    assert [audit.node_id for audit in strategy.results] == [1]


def configured(strategy, nodes=2) -> list[Message]:
    arrays = sent_content()["arrays"]
    return list(strategy.configure_train(1, arrays, ConfigRecord(), make_grid(nodes=nodes)))


def reply_from(node_id: int, *, content: RecordDict | None = None, error: bool = False) -> Message:
    asked = Message(RecordDict(), node_id, "train")
    if error:
        return Message(Error(0, "lost"), reply_to=asked)
    return Message(content or reply_content(node_id - 1), reply_to=asked)


def test_what_each_node_was_sent_is_its_own():
    class Personal(FedAvg):
        """Sends each node another model."""

        def configure_train(self, server_round, arrays, config, grid):
            for node_id in grid.get_node_ids():
                own = mlp(FEATURES, [WIDTH], CLASSES, seed=10 + node_id)
                content = {"arrays": ArrayRecord(own.state_dict())}
                yield Message(RecordDict(content), node_id, "train")

    strategy = AuditingStrategy(Personal(fraction_evaluate=0.0), **SETTINGS)
    start(strategy)
    assert [audit.result.status for audit in strategy.results] == [Status.RECOVERED] * 2


def test_clients_may_empty_what_they_are_sent():
    # In one process a client that reads without keeping would empty the server's own arrays.
    alone = FedAvg(fraction_evaluate=0.0, min_train_nodes=1, min_available_nodes=1)
    strategy = AuditingStrategy(alone, **SETTINGS)
    (message,) = configured(strategy, nodes=1)
    message.content["arrays"].to_torch_state_dict(keep_input=False)
    strategy.aggregate_train(1, [reply_from(1)])
    assert strategy.results[0].result.status is Status.RECOVERED


def test_leaking_replies_can_be_dropped():
    strategy = AuditingStrategy(Listening(), on_leak="drop", **SETTINGS)
    configured(strategy)
    # A client that adds one to every bias hides nothing, but breaks the gradient.
    quiet = sent_content()
    quiet["arrays"] = ArrayRecord([array.numpy() + 1 for array in quiet["arrays"].values()])
    quiet["metrics"] = MetricRecord({"num-examples": RECORDS})
    replies = [reply_from(1), reply_from(2, content=quiet)]
    arrays, metrics = strategy.aggregate_train(1, replies)
    assert [audit.dropped for audit in strategy.results] == [True, False]
    assert strategy.heard == [[replies[1]]]
    assert metrics["leaking-clients"] == 1
    assert arrays["0"].numpy().shape == (WIDTH, FEATURES)


def test_nothing_is_left_when_every_client_leaks():
    strategy = AuditingStrategy(fed_avg(), on_leak="drop", **SETTINGS)
    result = start(strategy)
    assert not result.arrays
    assert result.train_metrics_clientapp[1]["audited-clients"] == 2


def test_updates_are_captured(tmp_path):
    strategy = AuditingStrategy(fed_avg(), capture_dir=tmp_path / "captures", **SETTINGS)
    start(strategy, rounds=2)
    paths = [audit.capture for audit in strategy.results]
    assert sorted(paths) == sorted((tmp_path / "captures").iterdir())
    assert len(paths) == 4
    for audit in strategy.results:
        assert load_update(audit.capture).sha256() == audit.result.update_sha256


def test_what_cannot_be_audited_does_not_stop_training(caplog):
    strategy = AuditingStrategy(fed_avg(), layer="fc9")
    with caplog.at_level(logging.WARNING, logger="gradaudit"):
        assert start(strategy).arrays
    assert {audit.result.status for audit in strategy.results} == {Status.NOT_APPLICABLE}
    assert "fc9" in strategy.results[0].result.cause
    assert "Round 1, node 1: " in caplog.text


def test_a_node_that_was_sent_nothing_is_not_audited():
    strategy = AuditingStrategy(fed_avg())
    configured(strategy, nodes=2)
    strategy.aggregate_train(1, [reply_from(3)])
    assert "no record of arrays" in strategy.results[0].result.cause


def test_inside_and_outside_another_wrapper():
    privacy = {"noise_multiplier": 0.0, "clipping_norm": 1e6, "num_sampled_clients": 2}
    inside = AuditingStrategy(fed_avg(), **SETTINGS)
    start(DifferentialPrivacyServerSideFixedClipping(inside, **privacy))
    outside = AuditingStrategy(
        DifferentialPrivacyServerSideFixedClipping(fed_avg(), **privacy), **SETTINGS
    )
    start(outside)
    for strategy in (inside, outside):
        assert [audit.result.status for audit in strategy.results] == [Status.RECOVERED] * 2


def test_a_loop_of_its_own_is_run_and_audited():
    class Looping(FedAvg):
        def start(self, grid, initial_arrays, **settings):
            self.looped = True
            return super().start(grid, initial_arrays, **settings)

    inner = Looping(fraction_evaluate=0.0)
    strategy = AuditingStrategy(inner, **SETTINGS)
    start(strategy)
    assert inner.looped
    assert len(strategy.results) == 2
    # The wrapped strategy is itself again, and audits nothing.
    start(inner)
    assert len(strategy.results) == 2


def test_everything_else_is_the_wrapped_strategys():
    strategy = AuditingStrategy(FedAvg(), **SETTINGS)
    assert isinstance(strategy, Strategy)
    assert strategy.weighted_by_key == "num-examples"
    with pytest.raises(AttributeError, match="no_such_thing"):
        _ = strategy.no_such_thing
    result = start(strategy)
    assert 1 in result.evaluate_metrics_clientapp
    strategy.summary()


@pytest.mark.wrong_types
def test_what_to_do_with_a_leak_is_checked():
    with pytest.raises(InputError, match="'record' or 'drop'"):
        AuditingStrategy(FedAvg(), on_leak="ignore")
