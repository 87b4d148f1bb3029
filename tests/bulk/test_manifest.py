from __future__ import annotations

import json

import pytest

from gradaudit.bulk.manifest import COLUMNS, read_manifest
from gradaudit.errors import InputError


def read(folder, text, name="manifest.csv"):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return read_manifest(path)


def test_a_table_and_a_list_say_the_same(tmp_path):
    table = (
        "\ufeffupdate, weights,learning_rate,local_epochs,optimizer,noise\r\n"
        '"a, b.pt",sub/w.pt,0.1,2,sgd,\r\n\r\nsub/ü.pt,,,,,1e-3\r\n'
    )
    rows = [
        {
            "update": "a, b.pt",
            "weights": "sub/w.pt",
            "learning_rate": 0.1,
            "local_epochs": 2,
            "optimizer": "sgd",
            "noise": None,
        },
        {"update": "sub/ü.pt", "noise": 1e-3},
    ]
    expected = [
        (
            "a, b.pt",
            {
                "weights": str(tmp_path / "sub/w.pt"),
                "learning_rate": 0.1,
                "local_epochs": 2,
                "optimizer": "sgd",
            },
        ),
        ("sub/ü.pt", {"noise": 1e-3}),
    ]
    assert read(tmp_path, table) == expected
    assert read(tmp_path, json.dumps(rows), "manifest.json") == expected


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("m.csv", "update,batch\na.pt,3\n", "the unknown column 'batch'"),
        ("m.csv", "update,noise,noise\na.pt,1,1\n", "'noise' twice"),
        ("m.csv", "weights\nw.pt\n", "found no column 'update'"),
        ("m.csv", "weights,update\nw.pt,\n", "line 2: found no update"),
        ("m.csv", "a;b\n1;2\n", "found 2 faults (found the unknown column 'a' and"),
        ("m.csv", "update;noise\na.pt;0,1\n", "line 2: noise: found '0,1', expected a number"),
        ("m.csv", "update,noise\na.pt\n", "line 2: found 1 cells"),
        ("m.csv", "update,noise\na.pt,much\n", "line 2: noise: found 'much', expected a number"),
        ("m.csv", "update,noise\na.pt,nan\n", "a number"),
        ("m.csv", "update,local_epochs\na.pt,1.5\n", "a whole number"),
        ("m.csv", "update\n../a.pt\n", "below the manifest's folder"),
        ("m.csv", "update\n/etc/passwd\n", "below the manifest's folder"),
        ("m.csv", "update,weights\na.pt,b/../../w.pt\n", "below the manifest's folder"),
        ("m.csv", "update\na.pt\n./a.pt\n", "line 3: found 'a.pt' again"),
        ("m.csv", "update\n", "no row"),
        ("m.csv", 'update\n"a.pt\n', "CSV"),
        ("m.json", "[]", "no row"),
        ("m.json", "{", "no readable JSON"),
        ("m.json", "[" * 100_000, "no readable JSON"),
        ("m.json", "[3]", "a list of objects"),
        ("m.json", '{"update": "a.pt"}', "a list of objects"),
        ("m.json", '[{"update": "a.pt", "update": "b.pt"}]', "'update' twice"),
        ("m.json", '[{"update": "a.pt", "seed": 1}]', "unknown column 'seed'"),
        ("m.json", '[{"update": "a.pt", "noise": true}]', "row 1: noise: found True"),
        ("m.json", '[{"update": "a.pt", "noise": NaN}]', "a number"),
        ("m.json", '[{"update": 3}]', "text"),
        ("m.json", '[{"update": ""}]', "text"),
    ],
)
def test_what_is_wrong_is_one_line_that_says_where(name, text, words, tmp_path):
    with pytest.raises(InputError) as refused:
        read(tmp_path, text, name)
    assert words in str(refused.value)
    assert name in str(refused.value)


def test_all_faults_are_told_at_once_and_many_are_counted(tmp_path):
    table = "update,noise,seed\n../a.pt,much,1\nb.pt,0.1,1\nb.pt,0.1\n,1,1\nb.pt,,\n"
    with pytest.raises(InputError) as refused:
        read(tmp_path, table)
    text = str(refused.value)
    assert "\n" not in text
    assert text.startswith("manifest.csv: found 6 faults (")
    for words in ("unknown column 'seed'", "line 2: noise", "line 2: found the path '../a.pt'"):
        assert words in text, words
    for words in ("line 4: found 2 cells", "line 5: found no update", "line 6: found 'b.pt' again"):
        assert words in text, words
    wrong = [{"update": f"{number}.pt", "noise": "x" * 5000, "seed": 1} for number in range(50)]
    with pytest.raises(InputError) as refused:
        read(tmp_path, json.dumps(wrong), "manifest.json")
    text = str(refused.value)
    assert "found 51 faults" in text
    assert "and 41 more" in text
    assert "row 9: noise" in text
    assert len(text) < 1600


def test_semicolons_separate_as_commas_do(tmp_path):
    table = 'update;noise;weights\n"a;b.pt";0.1;w, x.pt\n'
    expected = [("a;b.pt", {"noise": 0.1, "weights": str(tmp_path / "w, x.pt")})]
    assert read(tmp_path, table) == expected


def test_other_encodings_are_refused(tmp_path):
    path = tmp_path / "m.csv"
    path.write_bytes("update\nä.pt\n".encode("latin-1"))
    with pytest.raises(InputError, match="UTF-8"):
        read_manifest(path)


def test_the_columns_are_fields_of_a_reading():
    from gradaudit.bulk import Reading

    assert set(COLUMNS) - {"update"} <= set(Reading.__dataclass_fields__)
