from __future__ import annotations

import contextlib
import io

import pytest
import torch

from gradaudit.cli.records import record_blocks
from gradaudit.cli.terminal import output
from gradaudit.cli.verdict import (
    compare_with,
    print_comparison,
    print_estimates,
    print_records,
    print_verdict,
)
from gradaudit.errors import InputError
from gradaudit.evidence import (
    ApproximateEvidence,
    Certificate,
    RecordEvidence,
    SearchReport,
    Status,
)
from gradaudit.preprocessing import Column, Preprocessing
from gradaudit.result import AuditResult
from gradaudit.truth import Truth

ROWS = torch.tensor([[0.5, 1.0, 0.0], [-1.0, 0.0, 1.0], [2.0, 1.0, 0.0]], dtype=torch.float64)
TABLE = Preprocessing(
    columns=(Column("age", mean=40.0, scale=10.0), Column("job", ("baker", "[red]nurse[/red]"))),
    class_names=("poor", "rich"),
)


def test_labels_are_not_cut():
    name = "not estimated, as the scale of records is unknown"
    search = SearchReport("spear", counters={name: 7.0})
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        print_verdict(output(), result(search=search))
    (line,) = [each for each in shown.getvalue().splitlines() if each.startswith("Not estimated")]
    assert line.split() == [*name.capitalize().split(), "7"]


def result(status: Status = Status.PARTIAL, certified: int = 2, **changes: object) -> AuditResult:
    values = {
        "cause": "The time budget of 5 seconds is used up.",
        "remedy": "Aggregate securely.",
        "layer": "fc1",
        "batch_size": 4,
        "records": ROWS,
        "evidence": tuple(
            RecordEvidence(
                index < certified, label=index % 2, reason="" if index < certified else "mixture"
            )
            for index in range(3)
        ),
        "certificate": Certificate("layer", "The layer's gradient is explained."),
        "search": SearchReport(
            "spear",
            counters={"submatrices": 12000.0},
            seconds={"propose": 3.0},
            observed_dtype="float32",
        ),
        "preprocessing": TABLE,
        **changes,
    }
    return AuditResult(status, **values)


def printed(show, *arguments, width: int | None = None) -> str:
    stream = io.StringIO()
    with contextlib.redirect_stdout(stream):
        console = output()
        console.width = width or console.width
        show(console, *arguments)
    return stream.getvalue()


def test_the_verdict_has_its_parts_and_no_record():
    text = printed(print_verdict, result())
    lines = text.splitlines()
    assert lines[0] == result().summary()
    for words in ("fc1", "4 distinct records", "spear", "12,000", "3 s", "used up", "explained"):
        assert words in text
    assert lines[-1] == "What to do: Aggregate securely."
    assert "baker" not in text
    assert "45" not in text


def test_a_total_is_not_counted_twice():
    search = SearchReport("spear", seconds={"propose": 3.0, "total": 5.0})
    assert "5 s" in printed(print_verdict, result(search=search))


def test_hostile_names_stay_text():
    text = printed(print_verdict, result(layer="[red]fc\x1b[2J\u202e[/", cause="[/nope]"))
    assert "[red]fc\\x1b[2J\\u202e[/" in text
    assert "\x1b" not in text


@pytest.mark.parametrize("status", [s for s in Status if not s.leak_proven])
def test_no_leak_is_never_called_safe(status):
    text = printed(print_verdict, AuditResult(status, "The cause.", "The remedy."))
    assert "The cause." in text
    assert "The remedy." in text
    assert "Proof" not in text
    assert "safe" not in text.lower()


def test_a_narrow_terminal_loses_nothing():
    text = printed(print_verdict, result(layer="a.very.long.name." * 5), width=40)
    assert ("a.very.long.name." * 5)[:70] in text.replace("\n", "").replace(" ", "").replace(
        "Batchsize", ""
    )


def test_comparison_is_of_certified_records():
    truth = Truth(ROWS[[1, 2, 0]].float(), torch.tensor([1, 0, 0]), TABLE)
    comparison = compare_with(result(), truth)
    assert comparison.exact_records == 2
    assert comparison.unmatched_truth == (1,)
    text = printed(print_comparison, result(), comparison)
    assert "2 certified, 3 originals" in text
    assert "2 within 0.001 of an original" in text
    assert "2 of 2" in text


def test_comparison_without_certified_records_says_so():
    truth = Truth(ROWS + 0.5, torch.tensor([0, 1, 0]))
    found = result(Status.NOT_RECOVERED, certified=0)
    text = printed(print_comparison, found, compare_with(found, truth))
    assert "3 reconstructed, not certified" in text
    assert "0 within" in text


def test_what_is_known_approximately_is_said_and_compared():
    estimates = ROWS[:2] + 0.1
    found = result(
        Status.BUDGET_EXHAUSTED,
        records=None,
        evidence=(),
        approximate_records=estimates,
        approximate_evidence=(ApproximateEvidence(0.1, 0.05), ApproximateEvidence(0.05, 0.08)),
    )
    text = printed(print_verdict, found)
    assert "Known approximately  2 records, to within 8%" in text
    assert "Records certified    0" in text
    truth = Truth(ROWS, torch.tensor([0, 1, 0]), preprocessing=TABLE)
    compared = printed(print_estimates, found, truth)
    assert "1 to 2 times the expected ones" in compared
    assert not printed(print_estimates, result(), truth)
    titles = [title for title, _ in record_blocks(found)]
    assert titles[0] == "Record 1 (not certified: known approximately, to within 5% of its size)"


def test_comparison_of_nothing_and_of_strangers():
    empty = AuditResult(Status.NOT_RECOVERED, "None.", "None.")
    truth = Truth(ROWS, torch.zeros(3, dtype=torch.long))
    assert compare_with(empty, truth) is None
    assert "nothing was recovered" in printed(print_comparison, empty, None)
    broken = result(certified=0, status=Status.NOT_RECOVERED, records=ROWS * float("nan"))
    assert compare_with(broken, truth) is None
    with pytest.raises(InputError, match="features"):
        compare_with(result(), Truth(torch.ones(3, 5), torch.zeros(3)))


def test_records_of_a_table_are_in_original_columns():
    truth = Truth(ROWS, torch.tensor([0, 1, 0]), TABLE)
    text = printed(print_records, result(), truth)
    blocks = text.split("Record ")[1:]
    assert len(blocks) == 3
    assert blocks[0].startswith("1 (certified)\n")
    assert "45 (original: 45)" in blocks[0]
    assert "baker (original: baker)" in blocks[0]
    assert "[red]nurse[/red]" in blocks[1]
    assert "rich" in blocks[1]
    assert "not certified: mixture" in blocks[2]
    assert "original" not in printed(print_records, result(), None)


def test_vectors_are_numbers_and_images_are_not_printed():
    text = printed(print_records, result(preprocessing=None), None)
    assert "0.5, 1, 0" in text
    image = result(preprocessing=Preprocessing(image_shape=(3, 1, 1)))
    ((title, rows),) = record_blocks(image)
    assert "--report" in title
    assert rows == []
    long = result(records=torch.arange(300.0).reshape(3, 100), preprocessing=None)
    values = dict(next(iter(record_blocks(long)))[1])["Values"]
    assert values.endswith("31, ... (100 in all)")


def test_a_record_that_may_stand_for_several_says_so():
    evidence = (RecordEvidence(True, copies=3), RecordEvidence(True, copies=1))
    twins = result(Status.RECOVERED, records=ROWS[:2], evidence=evidence, batch_size=2)
    text = printed(print_verdict, twins)
    assert "Found several times" in text
    assert "1; each may be the mean of records that the network cannot tell apart" in text
    (_, first), (_, second) = record_blocks(twins)
    assert any("Stands for 3 records" in value for _, value in first)
    assert not any("Stands for" in value for _, value in second)
    assert "several times" not in printed(print_verdict, result())
