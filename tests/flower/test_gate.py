"""What is proven to leak does not leave the client; everything else does."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs the extra gradaudit[flower]")

from flwr.app import Array, ArrayRecord, ConfigRecord, Error, Message, RecordDict
from flwr.common.constant import ErrorCode
from flwr.serverapp.strategy import FedAvg

from flower.local_grid import make_context
from flower.material import (
    RATE,
    SETTINGS,
    answer,
    make_grid,
    make_model,
    reply_content,
    sent_content,
)
from gradaudit.defenses import ClipPerRecord, ClipUpdate, GaussianNoise, Prune
from gradaudit.errors import InputError
from gradaudit.flower import AuditingStrategy, leakage_gate_mod
from gradaudit.flower.gate import MOD_FAILED_PRECONDITION


def passing(gate, content, *, kind="train", sent=None) -> Message:
    """What a gate makes of a client's reply."""
    make_grid()
    message = Message(sent or sent_content(), 1, kind)
    return gate(message, make_context(1, {}), lambda asked, _: Message(content, reply_to=asked))


def quiet_content() -> RecordDict:
    """Each weight moves by a random amount: of no batch's gradient."""
    model = make_model()
    generator = np.random.default_rng(0)
    content = answer(model)
    content["arrays"] = ArrayRecord(
        {
            name: Array(array.numpy() + generator.normal(size=array.shape).astype(np.float32))
            for name, array in content["arrays"].items()
        }
    )
    return content


def test_a_proven_leak_is_kept_back():
    reply = passing(leakage_gate_mod(**SETTINGS), reply_content(0))
    assert not reply.has_content()
    assert reply.error.code == MOD_FAILED_PRECONDITION == ErrorCode.MOD_FAILED_PRECONDITION
    assert reply.error.reason.startswith("gradaudit kept this update back. Proven leak: all 4")
    assert reply.metadata.src_node_id == 1


def test_what_is_not_proven_to_leak_passes_as_it_is():
    reply = passing(leakage_gate_mod(**SETTINGS), quiet_content())
    note = reply.content["gradaudit"]
    assert note["status"] != "recovered"
    assert note["defended"] is False
    assert reply.content["arrays"] == quiet_content()["arrays"]
    assert reply.content["metrics"]["num-examples"] == 4


@pytest.mark.parametrize("kind", ["evaluate", "query"])
def test_other_messages_are_not_looked_at(kind):
    content = reply_content(0)
    reply = passing(leakage_gate_mod(**SETTINGS), content, kind=kind)
    assert reply.content is content


def test_errors_pass():
    make_grid()
    message = Message(sent_content(), 1, "train")
    lost = Message(Error(0, "lost"), reply_to=message)
    assert leakage_gate_mod(**SETTINGS)(message, make_context(1, {}), lambda *_: lost) is lost


def test_a_gate_that_cannot_see_does_not_open():
    reply = passing(leakage_gate_mod(layer="fc9", **SETTINGS), quiet_content())
    assert "fc9" in reply.error.reason


def test_behind_it_a_client_may_empty_what_it_was_sent():
    make_grid()
    message = Message(sent_content(), 1, "train")

    def train(asked, _):
        asked.content["arrays"].to_torch_state_dict(keep_input=False)
        return Message(reply_content(0), reply_to=asked)

    assert leakage_gate_mod(**SETTINGS)(message, make_context(1, {}), train).has_error()


def test_masked_replies_pass():
    masked = RecordDict({"secaggplus_configs": ConfigRecord({"masked_params": [b"1"]})})
    reply = passing(leakage_gate_mod(), masked)
    assert reply.content["gradaudit"]["status"] == "not_applicable"


def change_of(content: RecordDict) -> np.ndarray:
    weight = "fc1.weight"
    return content["arrays"][weight].numpy() - sent_content()["arrays"][weight].numpy()


def test_a_defence_that_helps_lets_the_update_pass():
    # Noise of a hundred times the largest entry of the change.
    change = change_of(reply_content(0))
    deviation = 100 * float(np.abs(change).max())
    gate = leakage_gate_mod(on_leak=[GaussianNoise(deviation)], **SETTINGS)
    replies = [passing(gate, reply_content(0)) for _ in range(2)]
    for reply in replies:
        assert reply.content["gradaudit"]["defended"] is True
        # The deviation of 2,400 draws is within a tenth of the distribution's but for 1e-11.
        assert change_of(reply.content).std() == pytest.approx(deviation, rel=0.1)
    # A server that could repeat the noise would subtract it.
    assert not np.array_equal(change_of(replies[0].content), change_of(replies[1].content))


def test_a_defence_that_does_not_help_is_no_excuse():
    gate = leakage_gate_mod(on_leak=[ClipUpdate(0.1 * RATE)], **SETTINGS)
    reply = passing(gate, reply_content(0))
    assert reply.error.reason.endswith("The defence did not help.")


def test_a_defence_that_cannot_be_applied_is_no_excuse():
    unnamed = RecordDict(
        {**reply_content(0), "arrays": ArrayRecord(reply_content(0)["arrays"].to_numpy_ndarrays())}
    )
    gate = leakage_gate_mod(on_leak=[Prune(0.9)], **SETTINGS)
    assert "The defence failed" in passing(gate, unnamed).error.reason


@pytest.mark.wrong_types
@pytest.mark.parametrize("on_leak", ["forgive", [ClipPerRecord(1.0)], [print]])
def test_what_is_no_defence_of_an_update_is_refused(on_leak):
    with pytest.raises(InputError):
        leakage_gate_mod(on_leak=on_leak)


def test_the_server_goes_on_with_the_others():
    gate = leakage_gate_mod(**SETTINGS)

    def of_one_client(message, context, call_next):
        if context.node_config["partition-id"] == 0:
            return gate(message, context, call_next)
        return call_next(message, context)

    strategy = AuditingStrategy(FedAvg(fraction_evaluate=0.0), **SETTINGS)
    arrays = sent_content()["arrays"]
    result = strategy.start(make_grid([of_one_client]), arrays, num_rounds=1)
    assert [audit.node_id for audit in strategy.results] == [2]
    expected = reply_content(1)["arrays"]["fc1.weight"].numpy()
    np.testing.assert_allclose(result.arrays["fc1.weight"].numpy(), expected, atol=1e-7)


def test_nothing_of_any_client_arrives_when_all_have_a_gate():
    strategy = AuditingStrategy(FedAvg(fraction_evaluate=0.0), **SETTINGS)
    grid = make_grid([leakage_gate_mod(**SETTINGS)])
    strategy.start(grid, sent_content()["arrays"], num_rounds=1)
    assert strategy.results == []
