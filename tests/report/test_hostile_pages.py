"""Every page with hostile text wherever text from outside is shown, in a real browser."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from defending.material import make_curve, make_point, make_run

from gradaudit.bulk import Row, Summary
from gradaudit.defending import Setting
from gradaudit.evidence import Status
from gradaudit.planning import plan
from gradaudit.report import render_html
from gradaudit.report.bulk import render_summary
from gradaudit.report.defend import render_defense_curve
from gradaudit.report.plan import render_plan
from gradaudit.result import AuditResult
from report.test_browser import CHROMIUM, browse
from report.test_html import hostile_result

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")

OWN = "parent.owned.push(location.pathname)"
HOSTILE = (
    f"<script>{OWN}</script>",
    f"</script><script>{OWN}</script>",
    f"</style></title></svg><script>{OWN}</script>",
    f"\"'><img src=x onerror=\"{OWN}\"><svg onload='{OWN}'>",
    f"'\"onmouseover={OWN} autofocus onfocus={OWN} x='",
    "{{ 7 * 7 }}{% include '/etc/passwd' %}{# x #}",
    f"javascript:{OWN}",
    "\u202egnp.exe\u2066\u200b\ufeff\u2028",
    "W" * 100_000,
    "e" + "\u0301" * 5_000,
    "\x00\x1b[31m\x07\ud800\r\n",
    "&lt;script&gt;&#x3c;&colon;",
    "-->]]><!--",
)
WIDTHS = (420, 1400)
# What the page around them finds in the frames, put into its title.
HOST = """<!doctype html><title>loading</title><script>var owned = []; onload = () => {
const found = {};
for (const frame of document.querySelectorAll("iframe")) {
  const page = frame.contentDocument, root = page.documentElement;
  found[frame.id] = [page.title, root.scrollWidth - root.clientWidth,
    page.querySelectorAll("script, iframe, object, svg, [onerror], [onload], [onfocus]").length,
    page.body.innerText.length];
}
document.title = JSON.stringify({owned, found});
};</script>%s"""


def hostile_pages() -> dict[str, str]:
    """Pages of every kind, as text; the hostile texts go wherever there is room for one."""
    many = "".join(HOSTILE)
    curve = make_curve(make_point(runs=(make_run(2, 1),)))
    points = tuple(
        replace(curve.points[0], setting=Setting(4, model=text)) for text in (*HOSTILE, many)
    )
    planned = plan(widths=(24, 80, 4), batch_size=4, calibrate=False)
    expected = tuple(
        replace(each, reason=text)
        for each, text in zip(planned.expectations, (*HOSTILE, *HOSTILE), strict=False)
    )
    rows = tuple(
        Row(f"{i}{text}", "partial", text, text, layer=text, attack=text, result=f"r/{i}.json")
        for i, text in enumerate(HOSTILE)
    )
    links = {row.name: (row.result, f"results/{HOSTILE[3]}.html") for row in rows}
    summary = Summary(rows, dict.fromkeys(HOSTILE, many), ended=many)
    empty = AuditResult(Status.NOT_APPLICABLE, many, many, source=dict.fromkeys(HOSTILE, many))
    return {
        "audit": render_html(hostile_result(), title=many),
        "audit-shown": render_html(hostile_result(), show_records=True, title=many),
        "audit-empty": render_html(empty, title=many),
        "defend": render_defense_curve(
            replace(curve, points=points, source=many, loss=many, attack=many, notes=HOSTILE),
            title=many,
        ),
        "plan": render_plan(replace(planned, expectations=expected), title=many),
        "summary": render_summary(summary, pages=links, title=many),
    }


@pytest.fixture
def served() -> Iterator[tuple[dict[str, bytes], str, list[str]]]:
    """A server of pages by path, and what was asked of it."""
    pages: dict[str, bytes] = {}
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200 if self.path in pages else 404)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(pages.get(self.path, b""))

        def log_message(self, *args: object) -> None:
            pass

    listener = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=listener.serve_forever)
    thread.start()
    yield pages, f"http://127.0.0.1:{listener.server_port}", asked
    listener.shutdown()
    thread.join()
    listener.server_close()


def test_every_page_is_inert_and_keeps_its_width(tmp_path, served):
    pages, address, asked = served
    texts = hostile_pages()
    # Without escaping and without a policy: so that the test can fail.
    texts["naked"] = f"<title>naked</title>{HOSTILE[3]}<p>{HOSTILE[8]}"
    pages.update({f"/{name}": text.encode("utf-8") for name, text in texts.items()})
    frames = "".join(
        f'<iframe id="{name}-{width}" src="/{name}" width="{width}" height="600"></iframe>'
        for name in texts
        for width in WIDTHS
    )
    pages["/"] = (HOST % frames).encode()
    dom = browse(tmp_path, f"{address}/", "--dump-dom", "--virtual-time-budget=20000")
    title = re.search(r"<title>(\{.*?\})</title>", dom)
    assert title is not None, dom[:300]
    seen = json.loads(title[1].replace("&amp;", "&").replace("&lt;", "<").replace("&gt;", ">"))
    assert set(seen["owned"]) == {"/naked"}
    for frame, (heading, overflow, active, letters) in seen["found"].items():
        if frame.startswith("naked"):
            assert (overflow > 0, active) == (True, 2)
            continue
        assert heading.startswith("<script>"), frame
        assert active == 0, frame
        assert overflow <= 0, frame
        # Names are cut, not poured out.
        assert letters < 100_000, frame
    paths = {f"/{name}" for name in texts} | {"/", "/x", "/favicon.ico"}
    assert set(asked) <= paths
