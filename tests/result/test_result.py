from __future__ import annotations

import copy
import dataclasses
import json
import math
from importlib import resources

import hypothesis.strategies as st
import jsonschema
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from report.material import approximate, every_status, recovered, spectrum, table, without_records

from gradaudit import evidence as evidence_module
from gradaudit import preprocessing as preprocessing_module
from gradaudit.errors import InputError
from gradaudit.evidence import Certificate, Check, RecordEvidence, SearchReport, Status
from gradaudit.preprocessing import Preprocessing
from gradaudit.result import AuditResult
from gradaudit.result import file as file_module
from gradaudit.result import request as request_module
from gradaudit.tensorfile import sha256_of, write_tensors
from gradaudit.update import LocalTraining, step_to_text

SCHEMA = json.loads(
    resources.files("gradaudit").joinpath("schema/audit_result.schema.json").read_text("utf-8")
)
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
RESULTS = every_status()


def asked() -> request_module.Request:
    """A request with every part that there can be."""
    capture = request_module.CaptureRequest(
        request_module.CapturedFile("after.pt", "0" * 64),
        request_module.CapturedFile("before.pt", "1" * 64),
        "weights_after",
        step_to_text(LocalTraining(0.1, epochs=2)),
        1e-3,
        Preprocessing((1, 2, 2), (0.5,), (0.25,)),
    )
    return request_module.Request(
        attack="dlg",
        layer="auto",
        loss="mse",
        seed=3,
        device="cpu",
        seconds=60.0,
        submatrices=1000,
        memory=2**30,
        invert_features=False,
        model=request_module.ModelRequest("mlp:4-3-2", "Sequential", "2" * 64),
        knowledge=request_module.KnowledgeRequest(2, (0, 1), (4,)),
        method=request_module.MethodRequest(
            "dlg", "squared", "lbfgs", 10, 1, 1.0, 0.0, False, True, None, "float64"
        ),
        capture=capture,
    )


def as_version_1(value: dict) -> dict:
    """A result's JSON as the first schema version had it."""
    value = copy.deepcopy(value) | {"schema_version": "1"}
    del value["request"]
    for key in ("machine", "threads", "hurried"):
        del value["search"][key]
    return value


def test_schema_is_itself_valid_and_closed_everywhere():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)

    def closed(node):
        if isinstance(node, dict):
            if node.get("type") == "object":
                assert "additionalProperties" in node, node
                assert node["additionalProperties"] is False or "properties" not in node
            for child in node.values():
                closed(child)
        elif isinstance(node, list):
            for child in node:
                closed(child)

    closed(SCHEMA)


@pytest.mark.parametrize(
    ("definition", "kind"),
    [
        ("spectrum", evidence_module.Spectrum),
        ("record_evidence", evidence_module.RecordEvidence),
        ("approximate_evidence", evidence_module.ApproximateEvidence),
        ("certificate", evidence_module.Certificate),
        ("check", evidence_module.Check),
        ("layer", evidence_module.LayerReport),
        ("search", evidence_module.SearchReport),
        ("preprocessing", preprocessing_module.Preprocessing),
        ("column", preprocessing_module.Column),
        ("request", request_module.Request),
        ("model_request", request_module.ModelRequest),
        ("knowledge_request", request_module.KnowledgeRequest),
        ("method_request", request_module.MethodRequest),
        ("capture_request", request_module.CaptureRequest),
        ("captured_file", request_module.CapturedFile),
    ],
)
def test_schema_has_the_fields_of_the_dataclass(definition, kind):
    names = [field.name for field in dataclasses.fields(kind)]
    assert SCHEMA["$defs"][definition]["required"] == names
    assert list(SCHEMA["$defs"][definition]["properties"]) == names


def test_schema_has_the_statuses():
    assert SCHEMA["properties"]["status"]["enum"] == [status.value for status in Status]


@pytest.mark.parametrize("name", RESULTS)
def test_every_result_is_valid_and_survives_saving(name, tmp_path):
    result = RESULTS[name]
    path = tmp_path / "results" / "a.json"
    result.save(path)
    VALIDATOR.validate(result.to_json())
    VALIDATOR.validate(json.loads(path.read_text("utf-8")))
    loaded = AuditResult.load(path)
    assert loaded.to_json() == result.to_json()
    for array in ("records", "activation_gradients"):
        ours, theirs = getattr(result, array), getattr(loaded, array)
        assert (ours is None) == (theirs is None)
        assert ours is None or torch.equal(ours, theirs)
    loaded.save(tmp_path / "results" / "b.json", keep_records=False)
    again = AuditResult.load(tmp_path / "results" / "b.json")
    assert again.records is None
    assert again.to_json() == result.to_json()
    assert not (tmp_path / "results" / "b.safetensors").exists()


@pytest.mark.parametrize("status", Status)
def test_no_status_reassures(status):
    assert "safe" not in status.meaning.lower()


def test_numbers_that_json_cannot_hold_become_null(tmp_path):
    checks = (Check("residual", math.inf, 1e-5, False, ""), Check("x", math.nan, 1.0, False, ""))
    records = (RecordEvidence(False, activation_gradient_residual=math.nan),)
    result = without_records(
        Status.NOT_RECOVERED,
        evidence=records,
        certificate=Certificate("layer", "", checks),
        spectrum=dataclasses.replace(spectrum(3), gap_ratio=math.inf, noise_level=math.nan),
        search=SearchReport(counters={"rate": math.nan}),
    )
    value = result.to_json()
    assert [check["value"] for check in value["certificate"]["checks"]] == [None, None]
    assert value["evidence"][0]["activation_gradient_residual"] is None
    assert value["spectrum"]["gap_ratio"] is None
    assert value["search"]["counters"] == {"rate": None}
    VALIDATOR.validate(value)
    result.save(tmp_path / "r.json")
    loaded = AuditResult.load(tmp_path / "r.json")
    # What was infinite must not come back as a small, passing number.
    assert [check.value for check in loaded.certificate.checks] == [math.inf, math.inf]
    assert loaded.evidence[0].activation_gradient_residual is None
    assert loaded.to_json() == value


@pytest.mark.wrong_types
def test_numpy_scalars_are_written_as_numbers(tmp_path):
    import numpy as np

    record = RecordEvidence(np.bool_(True), np.int64(9), label=np.int64(3))
    result = recovered(1, evidence=(record,))
    result.save(tmp_path / "r.json")
    assert AuditResult.load(tmp_path / "r.json").labels == (3,)


def test_foreign_text_survives(tmp_path):
    names = ['a"b<script>', "\u202eevil", "日本語", "\ud800", "\x00\n"]
    result = without_records(
        Status.NOT_RECOVERED, source=dict.fromkeys(names, "0"), cause="ü\udc80"
    )
    result.save(tmp_path / "ä.json")
    assert AuditResult.load(tmp_path / "ä.json").to_json() == result.to_json()


@pytest.mark.wrong_types
def test_records_evidence_and_gradients_must_match():
    good = recovered(4)
    for changes in (
        {"evidence": good.evidence[:3]},
        {"activation_gradients": good.activation_gradients[:, :2]},
        {"records": good.records[0]},
    ):
        with pytest.raises(InputError, match="one of each"):
            dataclasses.replace(good, **changes)


@pytest.mark.parametrize("certified", [0, 2])
def test_what_is_known_approximately_is_kept_apart(certified, tmp_path):
    result = approximate(3, certified)
    assert result.records_recovered == certified
    assert result.status.leak_proven == bool(certified)
    value = result.to_json()
    VALIDATOR.validate(value)
    relative = [item["relative_error"] for item in value["approximate_evidence"]]
    assert relative == pytest.approx([0.07, 0.08, 0.09])
    result.save(tmp_path / "result.json")
    loaded = AuditResult.load(tmp_path / "result.json")
    assert torch.equal(loaded.approximate_records, result.approximate_records)
    assert loaded.approximate_evidence == result.approximate_evidence
    assert loaded.to_json() == value
    result.save(tmp_path / "bare.json", keep_records=False)
    bare = AuditResult.load(tmp_path / "bare.json")
    assert bare.approximate_records is None
    assert len(bare.approximate_evidence) == 3
    with pytest.raises(InputError, match="approximate"):
        dataclasses.replace(result, approximate_evidence=())


def test_shaped_records_and_summary():
    assert recovered(4).shaped_records().shape == (4, 3, 32, 32)
    assert table(4).shaped_records().shape == (4, 8)
    assert (
        recovered(4, preprocessing=Preprocessing(image_shape=(1, 2, 2))).shaped_records().ndim == 2
    )
    assert "all 4 distinct" in recovered(4).summary()
    assert "3 of 4" in recovered(4, 3).summary()
    assert without_records(Status.NOT_APPLICABLE).summary().startswith("The attack does not apply")


def test_a_request_survives_saving(tmp_path):
    result = recovered(2, request=asked())
    result.save(tmp_path / "r.json")
    VALIDATOR.validate(result.to_json())
    assert AuditResult.load(tmp_path / "r.json").request == asked()


def test_results_of_schema_version_1_are_read(saved):
    value = json.loads(saved.read_text("utf-8"))
    saved.write_text(json.dumps(as_version_1(value)), "utf-8")
    loaded = AuditResult.load(saved)
    assert loaded.request is None
    assert (loaded.search.machine, loaded.search.threads, loaded.search.hurried) == ({}, 0, None)
    # Nothing else is changed by it, and what is written is of today's version.
    unknown = {"machine": {}, "threads": 0, "hurried": None}
    expected = value | {"request": None, "arrays": None, "search": value["search"] | unknown}
    assert loaded.to_json() == expected


def test_version_1_may_not_have_what_version_2_brought(saved):
    value = as_version_1(json.loads(saved.read_text("utf-8"))) | {"request": None}
    saved.write_text(json.dumps(value), "utf-8")
    assert "found the key 'request', expected none" in one_line(saved)


# Bad files: one line, and it says where.


def one_line(path) -> str:
    with pytest.raises(InputError) as caught:
        AuditResult.load(path)
    text = str(caught.value)
    assert "\n" not in text
    assert len(text) < 1500
    return text


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "result.json"
    recovered(3).save(path)
    return path


def test_tampered_arrays_are_noticed(saved):
    arrays = saved.with_suffix(".safetensors")
    content = bytearray(arrays.read_bytes())
    content[-1] ^= 1
    arrays.write_bytes(content)
    assert "arrays of another run" in one_line(saved)
    arrays.unlink()
    assert "no such file" in one_line(saved)


def test_arrays_of_another_run_are_noticed(saved, tmp_path):
    recovered(3, records=recovered(3).records + 1).save(tmp_path / "other.json")
    (tmp_path / "other.safetensors").replace(saved.with_suffix(".safetensors"))
    assert "arrays of another run" in one_line(saved)


@pytest.mark.parametrize(
    "tensors",
    [
        {"records": torch.zeros(3)},
        {"records": torch.zeros(3, 4, dtype=torch.int64)},
        {"records": torch.zeros(3, 4), "extra": torch.zeros(3, 4)},
        {"records": torch.zeros(2, 4)},
    ],
)
def test_wrong_arrays_with_the_right_digest(saved, tensors):
    arrays = saved.with_suffix(".safetensors")
    write_tensors(arrays, tensors, {})
    value = json.loads(saved.read_text("utf-8"))
    value["arrays"]["sha256"] = sha256_of(arrays)
    saved.write_text(json.dumps(value), "utf-8")
    one_line(saved)


@pytest.mark.parametrize("name", ["../x.safetensors", "/etc/passwd", "..", "", ".", "a\x00b", "x/"])
def test_arrays_elsewhere_are_not_read(saved, name):
    value = json.loads(saved.read_text("utf-8"))
    value["arrays"]["file"] = name
    saved.write_text(json.dumps(value), "utf-8")
    one_line(saved)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema_version": "3"}, "run the audit again"),
        ({"schema_version": 1}, "schema version 1, expected schema version '1' or '2'"),
        ({"schema_version": "1"}, "search: found the key 'machine', expected none"),
        ({"request": {"attack": "auto"}}, "request: found no 'layer'"),
        ({"schema": "other"}, "no audit result"),
        ({"status": "safe"}, "status: found 'safe', expected one of 'recovered'"),
        ({"status": None}, "status: found None"),
        ({"cause": 3}, "cause: found 3, expected text"),
        ({"evidence": {}}, "evidence: found {}, expected a list"),
        ({"evidence": [3]}, r"evidence[0]: found 3, expected an object"),
        ({"layers": None}, "layers: found None"),
        ({"batch_size": 3.0}, "batch_size: found 3.0, expected a whole number"),
        ({"batch_size": True}, "batch_size: found True"),
        ({"batch_size": -1}, "at least 0"),
        ({"scale_identified": "no"}, "scale_identified: found 'no', expected true or false"),
        ({"source": {"a": 1}}, "source.a: found 1, expected text"),
        ({"assumptions": "abc"}, "assumptions: found 'abc', expected a list"),
        ({"preprocessing": {"mean": []}}, "preprocessing: found no 'image_shape'"),
        ({"arrays": "x"}, "arrays: found 'x', expected an object"),
        ({"arrays": {"file": "x"}}, "arrays: found no 'sha256'"),
        ({"records_recovered": 2}, "records_recovered: found 2, expected 3"),
        ({"leak_proven": False}, "leak_proven: found False, expected True"),
        ({"extra": 1}, "the unknown key 'extra'"),
        ({"extra" * 10_000: 1}, "the unknown key"),
        ({"cause": "\x1b[31m" * 5000 + "x", "remedy": 1}, "remedy: found 1"),
    ],
)
def test_wrong_values_say_where(saved, change, message):
    value = json.loads(saved.read_text("utf-8")) | change
    saved.write_text(json.dumps(value), "utf-8")
    assert message in one_line(saved)


@pytest.mark.parametrize("key", json.loads(json.dumps(SCHEMA["required"])))
def test_missing_keys(saved, key):
    value = json.loads(saved.read_text("utf-8"))
    del value[key]
    saved.write_text(json.dumps(value), "utf-8")
    line = one_line(saved)
    assert key in line or key in ("schema", "schema_version")
    if key not in ("schema", "schema_version"):
        assert line.endswith("if another version wrote it, run the audit again with this one")


@pytest.mark.parametrize(
    ("path", "wrong"),
    [
        (("evidence", 1, "vanishing_entries"), "many"),
        (("evidence", 1, "recovered"), 1),
        (("spectrum", "singular_values", 0), "1.0"),
        (("certificate", "checks", 0, "passed"), "yes"),
        (("layers", 0, "shape", 1), -4),
        (("layers", 0, "outcome"), "won"),
        (("search", "counters", "submatrices"), [1]),
        (("preprocessing", "std", 0), 0.0),
        (("preprocessing", "mean", 0), None),
        (("preprocessing", "image_shape"), [3, 32]),
    ],
)
def test_wrong_values_inside_say_where(saved, path, wrong):
    value = json.loads(saved.read_text("utf-8"))
    inner = value
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = wrong
    saved.write_text(json.dumps(value), "utf-8")
    text = one_line(saved)
    assert str([k for k in path if isinstance(k, str)][1]) in text


def test_leak_without_a_certified_record(saved):
    value = json.loads(saved.read_text("utf-8"))
    value |= {"evidence": [], "records_recovered": 0, "arrays": None}
    saved.write_text(json.dumps(value), "utf-8")
    assert "without a certified record" in one_line(saved)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"null",
        b"[]",
        b'"text"',
        b"{",
        b'{"schema": NaN',
        b"\xff\xfe\x00",
        b"[" * 200_000,
        b'{"a":' * 200_000,
        b"9" * 10_000,
        b'{"schema": "gradaudit.audit-result", "schema_version": "1"}',
        b'{"schema": "gradaudit.audit-result", "schema_version": "2"}',
        b"\x89PNG\r\n\x1a\n",
    ],
)
def test_no_result_at_all(tmp_path, content):
    path = tmp_path / "bad.json"
    path.write_bytes(content)
    one_line(path)


def test_truncated_anywhere(saved):
    content = saved.read_bytes()
    for end in range(1, len(content) - 2, 997):
        saved.write_bytes(content[:end])
        one_line(saved)


def test_numbers_too_large_for_a_double(saved):
    text = saved.read_text("utf-8").replace('"tolerance": 1e-05', '"tolerance": 1e999', 1)
    assert "1e999" in text
    saved.write_text(text, "utf-8")
    assert "tolerance: found inf" in one_line(saved)
    saved.write_text(text.replace("1e999", "1" + "0" * 400), "utf-8")
    assert "tolerance: found" in one_line(saved)


def test_huge_files_are_refused_unread(saved, monkeypatch):
    monkeypatch.setattr(file_module, "MAX_JSON_BYTES", 100)
    assert "too large" in one_line(saved)


def test_missing_file_and_folder(tmp_path):
    assert "no such file" in one_line(tmp_path / "absent.json")
    assert "not a regular file" in one_line(tmp_path)


def test_json_and_arrays_may_not_be_one_file(tmp_path):
    with pytest.raises(InputError, match=r"end it in \.json"):
        recovered(2).save(tmp_path / "x.safetensors")


def test_failed_save_leaves_the_old_result(saved, monkeypatch):
    before = saved.read_bytes()

    def broken(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.write_bytes", broken)
    with pytest.raises(InputError, match="No space left"):
        recovered(4).save(saved)
    monkeypatch.undo()
    assert saved.read_bytes() == before
    # The new arrays have not taken the place of the old ones.
    assert AuditResult.load(saved).records_recovered > 0
    assert sorted(p.name for p in saved.parent.iterdir()) == ["result.json", "result.safetensors"]


def test_the_same_result_gives_the_same_files(tmp_path):
    digests = set()
    for number in range(4):
        path = tmp_path / str(number) / "r.json"
        recovered(3).save(path)
        digests.add((sha256_of(path), sha256_of(path.with_suffix(".safetensors"))))
    assert len(digests) == 1


# The loader and the schema say the same: whatever the loader takes, the schema allows.

VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=3),
    st.lists(st.integers(0, 2), max_size=2),
    st.dictionaries(st.text(max_size=2), st.integers(), max_size=1),
)
BASES = [
    result.to_json()
    for result in (
        recovered(2),
        table(2),
        without_records(Status.NOT_RECOVERED),
        without_records(Status.NOT_RECOVERED, request=asked()),
    )
]


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_whatever_loads_is_valid(data, tmp_path_factory):
    value = copy.deepcopy(data.draw(st.sampled_from(BASES)))
    node = value
    while True:
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        key = data.draw(st.sampled_from(keys))
        if isinstance(node[key], dict | list) and node[key] and data.draw(st.integers(0, 3)):
            node = node[key]
            continue
        if isinstance(node, dict) and data.draw(st.integers(0, 9)) == 0:
            del node[key]
        else:
            node[key] = data.draw(VALUES)
        break
    path = tmp_path_factory.getbasetemp() / "mutated.json"
    path.write_text(json.dumps(value), "utf-8")
    try:
        loaded = AuditResult.load(path)
    except InputError:
        return
    VALIDATOR.validate(value)
    assert loaded.to_json() == value | {"summary": loaded.summary()}


def test_the_summary_is_grammatical_for_one_record():
    only = AuditResult(Status.RECOVERED, "", "", layer="fc1", batch_size=1).summary()
    assert "the only distinct record of the batch was recovered from layer 'fc1'" in only
    one_of_three = AuditResult(
        Status.PARTIAL, "", "", layer="fc1", batch_size=3, evidence=(RecordEvidence(True),)
    )
    assert "1 of 3 records was recovered" in one_of_three.summary()


def test_files_of_another_kind_say_so(tmp_path):
    path = tmp_path / "update.safetensors"
    write_tensors(path, {"a": torch.ones(2)}, {})
    assert "found a safetensors file, expected the JSON that an audit writes" in one_line(path)
    path.write_bytes(b"\x89PNG\r\n\x1a\n")
    assert "found no readable JSON (no text)" in one_line(path)
