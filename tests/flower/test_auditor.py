"""One reply under an audit's settings: whatever it is, there is a result."""

from __future__ import annotations

import pytest

pytest.importorskip("flwr", reason="needs the extra gradaudit[flower]")

from flwr.app import ArrayRecord, ConfigRecord, MetricRecord, RecordDict
from torch import nn

from flower.material import (
    RECORDS,
    SETTINGS,
    is_recovered,
    make_model,
    reply_content,
    sent_content,
)
from gradaudit import LocalTraining
from gradaudit.errors import InputError
from gradaudit.evidence import Status
from gradaudit.flower import Auditor


def test_a_reply_is_inverted():
    examined = Auditor(model=make_model(), **SETTINGS).examine(sent_content(), reply_content(2))
    assert examined.error is None
    assert examined.result.status is Status.RECOVERED
    assert examined.result.batch_size == RECORDS
    assert examined.result.update_sha256 == examined.update.sha256()
    assert is_recovered(examined.result.records, partition=2)


def test_a_masked_reply_has_no_single_update():
    masked = RecordDict({"secaggplus_configs": ConfigRecord({"masked_params": [b"1"]})})
    examined = Auditor().examine(sent_content(), masked)
    assert examined.result.status is Status.NOT_APPLICABLE
    assert "Secure aggregation" in examined.result.cause
    assert "sum" in examined.result.remedy
    assert (examined.update, examined.error) == (None, None)


def test_a_reply_without_arrays_has_no_update():
    metrics = {"metrics": MetricRecord({"num-examples": 3})}
    for reply in (RecordDict(metrics), RecordDict({**metrics, "arrays": ArrayRecord()})):
        examined = Auditor().examine(sent_content(), reply)
        assert examined.result.status is Status.NOT_APPLICABLE
        assert "no arrays" in examined.result.cause
        assert (examined.update, examined.error) == (None, None)


def test_an_unreadable_reply_is_a_result_with_its_reason():
    other = RecordDict({"arrays": ArrayRecord(nn.Linear(3, 2).state_dict())})
    examined = Auditor().examine(sent_content(), other)
    assert examined.result.status is Status.NOT_APPLICABLE
    assert str(examined.error) in examined.result.cause
    assert examined.update is None


def test_a_wrong_setting_is_a_result_with_its_reason():
    examined = Auditor(layer="fc9").examine(sent_content(), reply_content(0))
    assert examined.error.argument == "layer"
    assert examined.update is not None


def test_clients_say_how_many_records_they_have():
    training = LocalTraining(0.1, epochs=2, batch_size=2)
    update = Auditor(step=training).read(sent_content(), reply_content(0))
    assert update.step.records == RECORDS
    assert update.step.steps() == 4
    given = LocalTraining(0.1, records=7)
    assert Auditor(step=given).read(sent_content(), reply_content(0)).step == given
    uncounted = reply_content(0)
    uncounted["metrics"] = MetricRecord({"loss": 1.0})
    assert Auditor(step=training).read(sent_content(), uncounted).step == training


@pytest.mark.wrong_types
@pytest.mark.parametrize("setting", [{"attack": "magic"}, {"contains": "weights"}])
def test_settings_are_checked_at_once(setting):
    with pytest.raises(InputError, match=next(iter(setting))):
        Auditor(**setting)
