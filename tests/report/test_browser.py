"""The pages in a real browser: what runs, what is fetched, what is seen."""

from __future__ import annotations

import re
import shutil
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import numpy as np
import pytest
from PIL import Image

from gradaudit.evidence import SearchReport
from gradaudit.report import render_html
from report.material import recovered
from report.test_html import HOSTILE, hostile_result

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--virtual-time-budget=1000",
)


def browse(folder, address, *flags) -> str:
    command = [CHROMIUM, *FLAGS, f"--user-data-dir={folder / 'profile'}", *flags, address]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def server():
    """Serves one page, and remembers every path that was asked for."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        page = b""

        def do_GET(self):
            asked.append(self.path)
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(self.page if self.path == "/report" else b"")

        def log_message(self, *args):
            pass

    listener = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=listener.serve_forever)
    thread.start()
    yield Handler, f"http://127.0.0.1:{listener.server_port}/report", asked
    listener.shutdown()
    thread.join()
    listener.server_close()


def test_nothing_runs_and_nothing_is_fetched(tmp_path, server):
    handler, address, asked = server
    page = render_html(hostile_result(), show_records=True, title="A title")
    handler.page = page.encode("utf-8")
    dom = browse(tmp_path, address, "--dump-dom")
    assert "<title>A title</title>" in dom
    assert "<script" not in dom
    assert dom.count("&lt;script&gt;document.title='owned'&lt;/script&gt;") > 10
    # The browser itself asks for the icon that every page may have.
    assert set(asked) <= {"/report", "/favicon.ico"}


def test_the_policy_stops_what_escaping_would_miss(tmp_path, server):
    handler, address, asked = server
    page = render_html(recovered(1), title="A title")
    smuggled = HOSTILE[0] + HOSTILE[1][2:] + '<img src="/beacon"><link rel=stylesheet href=/css>'
    handler.page = page.replace("</main>", smuggled + "</main>").encode("utf-8")
    dom = browse(tmp_path, address, "--dump-dom")
    assert "<title>A title</title>" in dom
    assert set(asked) <= {"/report", "/favicon.ico"}
    # Without the policy the same page is taken over: the test can fail.
    naked = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", handler.page.decode())
    handler.page = naked.encode()
    assert "<title>owned</title>" in browse(tmp_path, address, "--dump-dom")
    assert "/beacon" in asked


@pytest.mark.parametrize(("width", "scheme"), [(1400, "light"), (420, "dark")])
def test_the_page_is_seen(tmp_path, width, scheme):
    path = tmp_path / "report.html"
    path.write_text(render_html(recovered(8), show_records=True), encoding="utf-8")
    setting = f"--blink-settings=preferredColorScheme={int(scheme == 'light')}"
    shot = tmp_path / "shot.png"
    browse(tmp_path, path.as_uri(), setting, f"--window-size={width},1600", f"--screenshot={shot}")
    with Image.open(shot) as image:
        pixels = np.asarray(image.convert("RGB")).astype(int)
    assert pixels.shape == (1600, width, 3)
    corner = pixels[0, 0].mean()
    assert (corner > 200) if scheme == "light" else (corner < 60)
    # Text, colours of the photos, and nothing cut off at the right edge.
    # As one number each: rows are sorted ten times as slowly.
    assert len(np.unique(pixels @ (65_536, 256, 1))) > 1000
    assert (pixels[:, -4:] == pixels[0, 0]).all()


# Puts the words of the facts that take more than one line into the page's title.
MEASURE = """<script>
const broken = [];
for (const cell of document.querySelectorAll(".facts dt, .facts dd bdi")) {
  for (const word of cell.firstChild.data.matchAll(/\\S+/g)) {
    const range = document.createRange();
    range.setStart(cell.firstChild, word.index);
    range.setEnd(cell.firstChild, word.index + word[0].length);
    if (range.getClientRects().length > 1) broken.push(word[0]);
  }
}
document.title = "broken: " + broken.join(" ");
</script>"""


def test_no_word_of_the_facts_is_broken(tmp_path):
    search = SearchReport("halfspace+spear", seconds={"total": 75.0})
    page = render_html(recovered(16, search=search, created="2024-01-02T03:04:05+00:00"))
    naked = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page)
    for name, text in {"as-it-is": naked, "broken": naked.replace(" + ", "+")}.items():
        path = tmp_path / f"{name}.html"
        path.write_text(text.replace("</main>", f"</main>{MEASURE}"), encoding="utf-8")
    for width in (420, 700, 960, 1400):
        size = f"--window-size={width},1000"
        dom = browse(tmp_path, (tmp_path / "as-it-is.html").as_uri(), size, "--dump-dom")
        assert "<title>broken: </title>" in dom, width
    # As it used to be: the measure sees it.
    dom = browse(tmp_path, (tmp_path / "broken.html").as_uri(), size, "--dump-dom")
    assert "<title>broken: halfspace+spear</title>" in dom
