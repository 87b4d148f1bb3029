from __future__ import annotations

import dataclasses
import re

import pytest

from gradaudit.evidence import Status
from gradaudit.report.wording import KINDS, OUTCOMES, limits, verdict
from report.material import every_status, recovered, without_records

RESULTS = every_status()


@pytest.mark.parametrize("name", RESULTS)
def test_no_verdict_reassures(name):
    result = RESULTS[name]
    said = verdict(result)
    texts = [said.tag, said.sentence, said.consequence, *limits(result)]
    assert not [text for text in texts if re.search(r"\bsafe(ty|ly)?\b|secure", text, re.I)]
    assert (said.tone == "open") != result.status.leak_proven
    assert all(text.endswith(".") for text in texts[1:])


def test_every_status_has_a_verdict_and_an_outcome():
    for status in Status:
        result = dataclasses.replace(without_records(Status.NOT_RECOVERED), status=status)
        assert verdict(result).sentence
        assert OUTCOMES[status]


def test_every_certificate_has_words():
    for kind in ("full_gradient", "activation_gradient", "layer"):
        assert "_" not in KINDS[kind]


def test_counts_are_spelled_out():
    assert "all 16 distinct records" in verdict(recovered(16)).sentence
    assert "the only distinct record" in verdict(recovered(1)).sentence
    assert "11 of the 16 distinct records" in verdict(recovered(16, 11)).sentence
    assert "1 record of" in verdict(recovered(16, 1, batch_size=None)).sentence
    assert "compute this record " in verdict(recovered(16, 1)).consequence
    assert "1,200" in verdict(recovered(3, 2, batch_size=1200)).sentence


def test_limits_follow_the_result():
    def text(result):
        return " ".join(limits(result))

    assert "positive factor" in text(recovered(2, scale_identified=False))
    assert "positive factor" not in text(recovered(2))
    assert "order of the records" not in text(without_records(Status.NOT_RECOVERED))
    unclear = dataclasses.replace(RESULTS["recovered"].spectrum, has_gap=False)
    assert "no clear gap" in text(recovered(2, spectrum=unclear))
    unknown = tuple(dataclasses.replace(e, copies=None) for e in recovered(2).evidence)
    assert "more than once" in text(recovered(2, evidence=unknown))
