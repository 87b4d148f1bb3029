from __future__ import annotations

import csv
import json

import pytest

from gradaudit.bulk import Row, Summary

HOSTILE = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "=cmd|' /C calc'!A0"]


def rows(text, files):
    files[0].write_text(text, encoding="utf-8")
    with files[0].open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


@pytest.mark.parametrize("text", HOSTILE)
def test_no_cell_is_a_formula(text, tmp_path):
    summary = Summary((Row(text, "unreadable", text, text, layer=text),))
    (found,) = rows(summary.to_csv(), [tmp_path / "s.csv"])
    for column in ("name", "cause", "remedy", "layer"):
        assert found[column][0] == "'"
        assert found[column][1:].strip() == text.strip()


def test_a_row_is_a_line_whatever_is_in_it(tmp_path):
    summary = Summary((Row('a"\n,b\u2028', "recovered", "x\r\ny", records_recovered=3),))
    (found,) = rows(summary.to_csv(), [tmp_path / "s.csv"])
    assert found["name"] == 'a" ,b'
    assert found["leak_proven"] == "true"
    assert found["records_recovered"] == "3"
    assert summary.to_csv().count("\n") == 2


def test_the_sentence_never_reassures():
    rows = (Row("a", "not_recovered"), Row("b", "not_applicable"))
    assert "other attacks may do better" in Summary(rows).sentence()
    assert Summary((Row("a", "not_an_update"),)).sentence() == "No update was audited."
    rows = (Row("a", "failed"), Row("b", "not_done"), Row("c", "partial"))
    assert Summary(rows).sentence() == (
        "Proven leaks in 1 of 1 audited update. 1 failed by an error in gradaudit or a worker that "
        "died. 1 left to be audited."
    )


def test_the_files(tmp_path):
    odd = "\udcff.pt"  # A name that is no UTF-8, as Python has it.
    summary = Summary((Row(odd, "recovered", records_recovered=2),), {"seed": 3})
    summary.write(tmp_path)
    value = json.loads((tmp_path / "summary.json").read_text(encoding="utf-8"))
    assert value["rows"][0]["name"] == odd
    assert value["totals"] == {
        "updates": 1,
        "audited": 1,
        "leaks_proven": 1,
        "records_recovered": 2,
        "statuses": {"recovered": 1},
    }
    assert (tmp_path / "summary.csv").read_bytes().startswith(b"\xef\xbb\xbfname,")
