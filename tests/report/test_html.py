from __future__ import annotations

import dataclasses
import re
import socket

import numpy as np
import pytest
import torch

from gradaudit.errors import InputError
from gradaudit.evidence import LayerReport, RecordEvidence, Status
from gradaudit.preprocessing import Column, Preprocessing
from gradaudit.report import render_html, write_report
from gradaudit.report.records import MAX_CARDS
from gradaudit.result import AuditResult
from gradaudit.truth import Truth
from report.material import (
    COLOUR,
    approximate,
    every_status,
    inputs,
    patches,
    recovered,
    table,
    truth_of,
    without_records,
)
from report.pages import Page

RESULTS = every_status()
HOSTILE = (
    "<script>document.title='owned'</script>",
    '"><img src=x onerror="document.title=\'owned\'">',
    "</title></style></script><svg onload=alert(1)>",
    "{{ 7 * 7 }}{% raw %}",
    "javascript:alert(1)",
    "\u202egnp.exe\u2066",
    "𓀀👩‍⚕️" * 20,
    "x" * 10_000,
    "\x00\x1b[31m\ud800",
)


@pytest.fixture(autouse=True)
def _no_network(monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("a report must not use the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)


@pytest.fixture
def _no_pictures(monkeypatch):
    """Most of a page's time is spent on its pictures, which these tests say nothing about."""
    monkeypatch.setattr("gradaudit.report.html._pictures", lambda result: (None, None))


quick = pytest.mark.usefixtures("_no_pictures")


@pytest.mark.parametrize(
    ("name", "shown"),
    [(name, False) for name in RESULTS]
    + [(name, True) for name in RESULTS if RESULTS[name].records is not None],
)
def test_every_page_is_whole_accessible_and_self_contained(name, shown):
    result = RESULTS[name]
    text = render_html(result, show_records=shown)
    page = Page(text)
    assert text.startswith("<!doctype html>")
    assert page.all("html") == [{"lang": "en"}]
    # Nothing runs, and nothing is fetched.
    assert not page.all("script") + page.all("link") + page.all("iframe") + page.all("object")
    for tag, attributes in page.elements:
        assert not [key for key in attributes if key.startswith("on")], tag
        assert "style" not in attributes
        for key in ("src", "href", "srcset", "action"):
            assert (attributes.get(key) or "#").startswith(("#", "data:image/")), attributes
    outside_images = re.sub(r"base64,[A-Za-z0-9+/=]+", "", text)
    assert not re.search(r"https?:|//\w|@import|url\(", outside_images)
    (policy,) = [m for m in page.all("meta") if "http-equiv" in m]
    assert policy["http-equiv"] == "Content-Security-Policy"
    assert policy["content"].startswith("default-src 'none'; img-src data:;")
    # Everybody can read it.
    assert page.headings[0] == 1
    assert page.headings.count(1) == 1
    steps = np.diff(page.headings)
    assert (steps <= 1).all(), page.headings
    assert all(len(image["alt"]) > 10 for image in page.all("img"))
    assert all("scope" in header for header in page.all("th"))
    ids = [a["id"] for _, a in page.elements if "id" in a]
    assert len(ids) == len(set(ids))
    targets = [a["href"][1:] for a in page.all("a")]
    assert set(targets) <= set(ids)
    # It says what it must and promises nothing.
    assert not re.search(r"\bsafe(ty|ly)?\b", page.text, re.I)
    assert result.cause in page.text
    assert result.remedy in page.text
    assert ("leak" in page.text) or not result.status.leak_proven
    assert result.update_sha256 in page.text
    assert "1,284,096" in page.text
    assert all(assumption in page.text for assumption in result.assumptions)
    assert all(layer.reason in page.text for layer in result.layers)


def test_the_same_result_gives_the_same_page():
    assert render_html(recovered(3)) == render_html(recovered(3))


def test_empty_result_renders():
    page = Page(render_html(AuditResult(Status.NOT_APPLICABLE, "", "")))
    assert "Nothing was tested" in page.text
    assert "Why" not in page.text.split("Recovered records")[0]


# Redaction.


@quick
def test_redacted_images_hold_a_few_cells_and_nothing_else():
    result = recovered(16, 11)
    page = Page(render_html(result, truth=truth_of(result)))
    images = page.images()
    assert len(images) == 32
    assert all(image.shape == (4, 4, 3) for image in images)
    assert "Redacted." in page.text
    assert "show_records" in page.text
    assert "personal data" not in page.text
    assert "Class withheld" in page.text


@quick
def test_shown_images_are_the_recovered_ones():
    result = recovered(16)
    page = Page(render_html(result, show_records=True))
    expected = np.round(patches(16) * 255).astype(np.uint8).transpose(0, 2, 3, 1)
    np.testing.assert_array_equal(np.stack(page.images()), expected)
    assert "This report shows personal data." in page.text
    assert "Redacted." not in page.text


@quick
def test_redacted_tables_hold_no_value():
    column = (Column("diagnosis", ("zzsecretA", "zzsecretB")), Column("weight", mean=0, scale=1))
    preprocessing = Preprocessing(columns=column, class_names=("zzclassA", "zzclassB"))
    records = torch.tensor([[1.0, 0.0, 77713.5], [0.0, 1.0, 88813.5]], dtype=torch.float64)
    evidence = tuple(RecordEvidence(True, label=index) for index in range(2))
    result = recovered(2, records=records, preprocessing=preprocessing, evidence=evidence)
    truth = Truth(records.flip(0), torch.tensor([1, 0]), preprocessing)
    secrets = ("zzsecret", "zzclass", "77713", "77,713", "77,714", "88813", "88,814")
    redacted = render_html(result, truth=truth)
    assert not [secret for secret in secrets if secret in redacted]
    assert "diagnosis" in redacted
    assert "weight" in redacted
    shown = Page(render_html(result, truth=truth, show_records=True)).text
    assert "diagnosis zzsecretA zzsecretA weight 77,714 77,714" in shown
    assert "zzclassB" in shown
    vectors = dataclasses.replace(result, preprocessing=None)
    hidden = render_html(vectors, truth=Truth(records, torch.zeros(2)))
    assert not [secret for secret in secrets if secret in hidden]
    assert "3 numbers a record" in hidden
    assert "77,714" in Page(render_html(vectors, show_records=True)).text


def fingerprints(text: str) -> list[str]:
    return re.findall(r"Fingerprint</dt><dd><bdi>([0-9a-f]{12})<", text)


@quick
def test_fingerprints_compare_reports_without_showing():
    first = recovered(8)
    order = torch.tensor([3, 1, 0, 2, 7, 6, 5, 4])
    noise = 1e-6 * torch.randn(8, 3072, generator=torch.Generator().manual_seed(0))
    again = recovered(8, records=first.records[order] + noise)
    marks = fingerprints(render_html(first))
    assert len(set(marks)) == 8
    assert [marks[i] for i in order] == fingerprints(render_html(again))
    assert marks == fingerprints(render_html(first, show_records=True))
    other = dataclasses.replace(first, update_sha256="00" * 32)
    assert not set(marks) & set(fingerprints(render_html(other)))
    salted = fingerprints(render_html(first, salt="a secret"))
    assert not set(marks) & set(salted)
    assert salted == fingerprints(render_html(other, salt="a secret"))


@pytest.mark.parametrize("result", [table(5), recovered(5, preprocessing=None)])
@quick
def test_what_can_be_guessed_has_fingerprints_under_a_secret_only(result):
    assert fingerprints(render_html(result)) == []
    noisy = dataclasses.replace(result, records=result.records + 1e-9)
    marks = fingerprints(render_html(result, salt="s"))
    assert len(marks) == 5
    assert marks == fingerprints(render_html(noisy, salt="s"))


# Originals.


@quick
def test_originals_stand_beside_their_records():
    result = recovered(16, 11)
    page = Page(render_html(result, truth=truth_of(result), show_records=True))
    images = page.images()
    for found, original in zip(images[::2], images[1::2], strict=True):
        np.testing.assert_array_equal(found, original)
    assert page.text.count("PSNR 1") == 16
    with pytest.raises(InputError):
        render_html(result, truth=Truth(torch.zeros(2, 5), torch.zeros(2)))


# What is said about each record.


@quick
def test_records_that_are_not_certified_stand_apart_with_their_reason():
    evidence = recovered(6).evidence
    bad = RecordEvidence(False, reason="<b>contradicted</b> by 3 neurons")
    mixed = (bad, *evidence[:4], bad)
    text = render_html(recovered(6, 4, evidence=mixed), show_records=True)
    numbers = re.findall(r'class="card (\w+)">\s*<h4>Record (\d+)', text)
    assert numbers == [
        *[("certified", str(n)) for n in (2, 3, 4, 5)],
        ("uncertified", "1"),
        ("uncertified", "6"),
    ]
    assert text.count("Not certified: <bdi>&lt;b&gt;contradicted&lt;/b&gt; by 3 neurons") == 2
    assert "nothing should be concluded from them" in text


@quick
@pytest.mark.parametrize("certified", [0, 2])
def test_what_is_known_approximately_is_not_called_certified(certified):
    result = approximate(3, certified)
    page = Page(render_html(result))
    assert page.text.count("approximate Not certified: known approximately") == 3
    assert page.text.count(" certified Class withheld") == certified
    assert "to within 7% of its size" in page.text
    assert "not proven and not counted" in page.text
    assert all(image.shape == (4, 4, 3) for image in page.images())
    assert len(page.images()) == 3 + certified
    shown = Page(render_html(result, show_records=True))
    expected = np.round(patches(3 + certified) * 255).astype(np.uint8).transpose(0, 2, 3, 1)
    np.testing.assert_array_equal(np.stack(shown.images()), expected)


@quick
def test_labels_use_class_names_where_there_are_any():
    names = dataclasses.replace(COLOUR, class_names=("cat", "<dog>"))
    text = Page(render_html(recovered(3, preprocessing=names), show_records=True)).text
    assert "Class cat" in text
    assert "Class <dog>" in text
    assert "Class 2" in text


@quick
def test_unknown_scale_is_explained():
    result = recovered(3)
    units = result.records / result.records.norm(dim=1, keepdim=True)
    unit = dataclasses.replace(result, records=units, scale_identified=False)
    page = Page(render_html(unit, truth=truth_of(result), show_records=True))
    assert "Right up to a positive factor." in page.text
    assert "best factor" in page.text
    assert np.stack(page.images()[::2]).std() > 20
    text = Page(render_html(table(3, scale_identified=False), show_records=True)).text
    assert "age unknown scale" in text
    assert re.search(r"workclass (Private|State-gov|Self-emp)", text)


@quick
def test_records_of_an_inner_layer_are_vectors_and_it_says_why():
    result = recovered(2, records=torch.ones(2, 200, dtype=torch.float64))
    text = Page(render_html(result, show_records=True)).text
    assert "3,072 values, but these have 200" in text
    assert "Standard deviation 0" in text


@quick
def test_values_that_cannot_be_shown_are_declared():
    records = inputs(3)
    records[0, :7] = float("nan")
    records[1] = 1e300
    records[2, 0] = float("-inf")
    result = recovered(3, records=records)
    text = Page(render_html(result, truth=truth_of(recovered(3)), show_records=True)).text
    assert "7 values not finite" in text
    assert "1 value not finite" in text
    assert "100 % of the values lie beyond black or white" in text
    rows = table(2, records=torch.full((2, 8), float("nan"), dtype=torch.float64))
    assert "age not finite" in Page(render_html(rows, show_records=True)).text
    assert fingerprints(render_html(rows, salt="s"))
    bare = recovered(2, preprocessing=None, records=torch.full((2, 3), float("inf")))
    assert "3 values not finite" in Page(render_html(bare, show_records=True)).text


def test_one_record_and_five_hundred():
    one = Page(render_html(recovered(1)))
    assert len(one.images()) == 1
    assert "only distinct record" in one.text
    many = recovered(
        500,
        records=torch.rand(
            500, 64, dtype=torch.float64, generator=torch.Generator().manual_seed(0)
        ),
        preprocessing=Preprocessing(image_shape=(1, 8, 8)),
    )
    page = Page(render_html(many))
    assert len(page.images()) == MAX_CARDS
    assert f"500 records in all; {MAX_CARDS} are shown" in page.text
    assert "the first 100 of 500 records" in page.text


@quick
def test_records_left_out_are_said_to_be(tmp_path):
    recovered(3).save(tmp_path / "r.json", keep_records=False)
    text = Page(render_html(AuditResult.load(tmp_path / "r.json"))).text
    assert "left out of this result" in text
    assert "Evidence for each record" in text


def hostile_result() -> AuditResult:
    """Every text that can come from outside is hostile, everywhere."""
    columns = tuple(Column(f"{text}{i}", (text, "b")) for i, text in enumerate(HOSTILE))
    preprocessing = Preprocessing(columns=columns, class_names=HOSTILE)
    base = recovered(
        9,
        4,
        records=torch.eye(2 * len(HOSTILE), dtype=torch.float64)[:9],
        preprocessing=preprocessing,
        source=dict.fromkeys(HOSTILE, "0" * 64),
        assumptions=HOSTILE,
        layers=tuple(LayerReport(t, (3, 2), t, True, Status.PARTIAL, t, None) for t in HOSTILE),
    )
    script = HOSTILE[0]
    return dataclasses.replace(
        base,
        cause=script,
        remedy=HOSTILE[1],
        layer=HOSTILE[2],
        created=HOSTILE[1],
        update_sha256=script,
        evidence=tuple(
            dataclasses.replace(e, reason=t, label=i)
            for i, (e, t) in enumerate(zip(base.evidence, HOSTILE, strict=True))
        ),
        spectrum=dataclasses.replace(base.spectrum, explanation=script),
        certificate=dataclasses.replace(
            base.certificate,
            kind=script,
            statement=HOSTILE[1],
            checks=tuple(
                dataclasses.replace(base.certificate.checks[0], name=t, meaning=t) for t in HOSTILE
            ),
        ),
        search=dataclasses.replace(
            base.search,
            attack=script,
            reason=script,
            setting=script,
            device=script,
            observed_dtype=script,
            counters=dict.fromkeys(HOSTILE, 1.0),
            seconds=dict.fromkeys(HOSTILE, 1.0),
            versions=dict.fromkeys(HOSTILE, script),
        ),
    )


def test_hostile_text_stays_text(tmp_path):
    result = hostile_result()
    write_report(result, tmp_path / "r.html", show_records=True, title=HOSTILE[1])
    text = (tmp_path / "r.html").read_text("utf-8")
    page = Page(text)
    assert not page.all("script") + page.all("svg")
    assert all(image["src"].startswith("data:") for image in page.all("img"))
    assert not [a for _, a in page.elements if any(key.startswith("on") for key in a)]
    assert "7 * 7" in page.text
    assert not set("\u202e\u2066\x00\x1b") & set(text)
    assert "\\u202egnp.exe" in page.text
    assert "x" * 2000 not in text
    assert "(10,000 characters)" in page.text


@quick
def test_write_report_is_atomic(tmp_path, monkeypatch):
    path = tmp_path / "new" / "report.html"
    write_report(without_records(Status.NOT_RECOVERED), path, title="Größe")
    assert "<h1>Größe</h1>" in path.read_text("utf-8")
    before = path.read_bytes()

    def broken(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.write_text", broken)
    with pytest.raises(InputError, match="No space left"):
        write_report(recovered(2), path)
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == ["report.html"]


def test_a_record_that_may_stand_for_several_says_so():
    page = render_html(recovered(5))
    assert page.count("Stands for 2 records: identical ones, of which this is one, or ones") == 1
    assert "Stands for" not in render_html(recovered(2))
