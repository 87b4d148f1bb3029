from __future__ import annotations

from pathlib import Path

import pytest

from gradaudit.bulk import Row, Summary
from gradaudit.report.bulk import pages, render_summary, write_summary_page
from report.test_browser import CHROMIUM, browse

HOSTILE = "<script>alert(1)</script>\"'&\u202e\x1b[31m" + "x" * 5000


def test_hostile_names_are_text():
    rows = (
        Row(HOSTILE, "unreadable", HOSTILE, HOSTILE),
        Row("a", "recovered", HOSTILE, layer=HOSTILE, attack=HOSTILE, result="results/a.json"),
    )
    page = render_summary(Summary(rows, {HOSTILE: HOSTILE}, ended=HOSTILE))
    assert "<script" not in page
    assert "\u202e" not in page
    assert "\x1b" not in page
    assert "&lt;script&gt;" in page
    assert len(page) < 60_000


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
def test_nothing_runs_in_a_browser(tmp_path):
    image = "\"'><img src=x onerror=\"document.title='owned'\"><svg onload=document.title='owned'>"
    rows = (
        Row(image, "unreadable", image),
        Row("b", "recovered", image, layer=image, result=f"results/{image}.json"),
    )
    summary = Summary(rows, {image: image}, ended=image)
    page = tmp_path / "summary.html"
    write_summary_page(summary, page, pages=pages(summary, show_records=False), title="A title")
    dom = browse(tmp_path, page.as_uri(), "--dump-dom")
    assert "<title>A title</title>" in dom
    assert "<img" not in dom
    assert "<svg" not in dom


def test_links_lead_to_results_and_to_nothing_else():
    rows = (Row("a", "recovered", result="results/javascript:ä#?.json"),)
    summary = Summary(rows)
    shown = render_summary(summary, pages=pages(summary, show_records=False))
    assert 'href="./results/javascript%3A%C3%A4%23%3F.json"' in shown
    assert 'href="./results/javascript%3A%C3%A4%23%3F.html"' in shown
    assert "report</a>" not in render_summary(summary)
    assert pages(summary, show_records=True)["a"][1].endswith("+records.html")


def test_the_page_says_what_came_of_each(tmp_path: Path):
    rows = (
        Row(
            "a", "partial", "Why.", records_recovered=3, batch_size=20, layer="fc1", attack="x+y++"
        ),
        Row("b", "not_recovered", "Because.", batch_size=None),
        Row("c", "unreadable", "Cut."),
        Row("d", "not_done", "Ended."),
    )
    write_summary_page(Summary(rows, {"seed": 3}, ended="interrupted"), tmp_path / "s.html")
    page = (tmp_path / "s.html").read_text(encoding="utf-8")
    for words in (
        "Proven leaks in 1 of 2 audited updates.",
        "Not complete.",
        "3 of 20",
        "0 of unknown",
        ">x + y++<",
        "some records recovered",
        "not readable",
        "not audited yet",
        "Seed",
    ):
        assert words in page, words
    assert render_summary(Summary(rows)) == render_summary(Summary(rows))


def test_names_are_broken_between_words_alone():
    rows = (Row("round_1/client.2+a<b.pt", "unreadable"),)
    assert ">round_<wbr>1/<wbr>client.<wbr>2+<wbr>a&lt;b.<wbr>pt<" in render_summary(Summary(rows))


def test_what_is_no_update_is_counted():
    rows = (Row("a", "not_an_update"), Row("b", "not_an_update"), Row("c", "recovered"))
    page = render_summary(Summary(rows))
    assert "<dt>Not an update</dt><dd><bdi>2</bdi></dd>" in page
    assert "<dt>Updates</dt><dd><bdi>1</bdi></dd>" in page


def test_an_empty_verdict_is_not_reassuring():
    page = render_summary(Summary((Row("b", "not_recovered"),)))
    assert "proves nothing about other attacks" in page
    assert 'class="verdict open"' in page
