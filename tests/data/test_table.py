import csv
import gzip
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gradaudit.data import csv_table, table
from gradaudit.errors import InputError

DATA = Path(os.environ.get("GRADAUDIT_DATA", "/nonexistent"))

SMALL = """age, job ,constant,city,income
30,clerk,5,?,low
40,?,5,,high
50,smith,5,Rome,low
"""


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def test_columns_are_encoded_as_documented(tmp_path):
    source = csv_table(write(tmp_path / "a.csv", SMALL))
    age, job, constant, city = source.preprocessing.columns
    assert (age.mean, age.scale) == (40, pytest.approx(np.std([30, 40, 50])))
    assert job.categories == ("?", "clerk", "smith")
    assert (constant.mean, constant.scale) == (5, 1)
    assert city.categories == ("", "?", "Rome")
    assert source.preprocessing.class_names == ("high", "low")
    batch = source.batch(1, label=0)
    expected = [[0, 1, 0, 0, 0, 1, 0, 0]]
    assert batch.inputs.tolist() == expected
    assert source.preprocessing.to_rows(batch.inputs.numpy()) == [
        {"age": 40.0, "job": "?", "constant": 5.0, "city": ""}
    ]


def test_options(tmp_path):
    path = write(tmp_path / "a.csv", SMALL.replace(",", ";"))
    source = csv_table(
        path, label_column="income", drop=["city", "job"], categorical=["age"], delimiter=";",
        normalise="unit",
    )  # fmt: skip
    with pytest.raises(InputError, match="no label"):
        csv_table(path, label_column="city", delimiter=";")
    assert [c.name for c in source.preprocessing.columns] == ["age", "constant"]
    assert source.preprocessing.columns[0].categories == ("30", "40", "50")
    assert source.preprocessing.columns[1].mean == 0


def test_numeric_classes_are_in_numerical_order(tmp_path):
    source = csv_table(write(tmp_path / "a.csv", "x,y\n1,10\n2,9\n3,-1\n"))
    assert source.preprocessing.class_names == ("-1", "9", "10")


def test_gzip_bom_quotes_blank_lines_and_one_row(tmp_path):
    path = tmp_path / "a.csv.gz"
    with gzip.open(path, "wb") as stream:
        stream.write(b'\xef\xbb\xbfa,,y\r\n\r\n"1,5 ""x""",-2.5e1,no\r\n\r\n')
    source = csv_table(path)
    batch = source.batch(1)
    assert source.preprocessing.to_rows(batch.inputs.numpy()) == [
        {"a": '1,5 "x"', "column 2": -25.0}
    ]
    assert source.classes == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a,y\n", "at least one row"),
        ("\n", "at least one row"),
        ("a,y\n1,2\n3\n", "line 3"),
        ("a,y\n1,2\n3,4,5\n", "line 3"),
        ("a,a,y\n1,2,3\n", "'a' twice"),
        ('a,y\n"1,2\n', "line"),
        ('a,y\n"1"x,2\n', "line 2"),
        ("a,y\n1,x\n?,x\n", r"'a' line 3: found a missing value"),
        ("a,y\n1,x\n\n,x\n", r"'a' line 4: found a missing value"),
        ("a,y\n1,x\nnan,x\n", r"'a' line 3: found 'nan'"),
        ("a,y\n1,x\n1e999,x\n", r"'a' line 3: found '1e999'"),
        ("a,y\n1e308,x\n-1e308,x\n", "too large"),
        ("a,y\n1,x\n1,\n", r"'y' line 3: found no label"),
        ("y\n1\n", "no column beside the label"),
    ],
)
def test_bad_tables_are_one_line(tmp_path, text, expected):
    with pytest.raises(InputError, match=expected) as caught:
        csv_table(write(tmp_path / "a.csv", text))
    assert "\n" not in str(caught.value)


def test_bad_files_and_arguments(tmp_path, monkeypatch):
    path = tmp_path / "a.csv"
    path.write_bytes(b"a,y\n\xff,1\n")
    with pytest.raises(InputError, match="not UTF-8 at 4"):
        csv_table(path)
    path.write_bytes(b"")
    with pytest.raises(InputError, match="empty"):
        csv_table(path)
    (tmp_path / "b.csv.gz").write_bytes(b"a,y\n1,2\n")
    with pytest.raises(InputError, match="unreadable"):
        csv_table(tmp_path / "b.csv.gz")
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(b"a,y\n1,2\n" * 99)[:20])
    with pytest.raises(InputError, match="unreadable"):
        csv_table(tmp_path / "b.csv.gz")
    write(path, SMALL)
    for wrong in (
        {"label_column": "wage"},
        {"drop": ["wage"]},
        {"categorical": ["wage"]},
        {"drop": ["income"]},
        {"delimiter": ",,"},
        {"normalise": "no"},
    ):
        with pytest.raises(InputError):
            csv_table(path, **wrong)
    write(path, "a,y\n" + "".join(f"name{i},x\n" for i in range(1001)))
    with pytest.raises(InputError, match="drop=a"):
        csv_table(path)
    monkeypatch.setattr(table, "MAX_BYTES", 100)
    bomb = tmp_path / "c.csv.gz"
    bomb.write_bytes(gzip.compress(b"0" * 10_000))
    for big in (path, bomb):
        with pytest.raises(InputError, match="at most 100 bytes"):
            csv_table(big)


words = st.text(st.characters(codec="utf-8", categories=["L", "N", "P"]), min_size=1, max_size=6)


@settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(
        st.tuples(st.floats(-1e9, 1e9, allow_nan=False), words, st.sampled_from(["u", "v", "?"])),
        min_size=1,
        max_size=8,
    )
)
def test_any_table_comes_back(tmp_path, rows):
    path = tmp_path / "any.csv"
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["number", "word", "flag", "label"])
        writer.writerows(
            [repr(n), f"w{word}", flag, str(i)] for i, (n, word, flag) in enumerate(rows)
        )
    source = csv_table(path)
    batch = source.batch(len(rows))
    back = source.preprocessing.to_rows(batch.inputs.numpy())
    for row, label in zip(back, batch.labels.tolist(), strict=True):
        number, word, flag = rows[int(source.preprocessing.class_names[label])]
        assert row["number"] == pytest.approx(number, rel=1e-9, abs=1e-6)
        assert (row["word"], row["flag"]) == (f"w{word}", flag)


def test_real_table():
    path = DATA / "adult_4000.csv.gz"
    if not path.is_file():
        pytest.skip("GRADAUDIT_DATA has no adult_4000.csv.gz")
    source = csv_table(path)
    columns = source.preprocessing.columns
    assert len(columns) == 14
    assert sum(not column.categories for column in columns) == 6
    assert source.classes == 2
    batch = source.batch(4000, seed=1)
    numeric = [i for i, c in enumerate(_widths(columns)) if c == "number"]
    torch.testing.assert_close(
        batch.inputs[:, numeric].std(dim=0, correction=0), torch.ones(6, dtype=torch.float64)
    )
    with gzip.open(path, "rt", encoding="utf-8", newline="") as stream:
        originals = sorted(tuple(row.values()) for row in csv.DictReader(stream))
    found = []
    rows = source.preprocessing.to_rows(batch.inputs.numpy())
    for row, label in zip(rows, batch.labels.tolist(), strict=True):
        values = [v if isinstance(v, str) else str(round(v)) for v in row.values()]
        assert all(abs(v - round(v)) < 1e-6 for v in row.values() if not isinstance(v, str))
        found.append((*values, source.preprocessing.class_names[label]))
    assert sorted(found) == originals


def _widths(columns):
    return [
        kind for c in columns for kind in (["category"] * c.width if c.categories else ["number"])
    ]
