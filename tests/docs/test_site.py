"""The site builds without warnings and network, and holds every page and every public name."""

from __future__ import annotations

import re
import subprocess
import sys
from inspect import ismodule
from pathlib import Path

import pytest

import gradaudit

DOCS = Path(__file__).parents[2] / "docs"
# Fails any attempt to reach another machine, whatever makes it.
BUILD = """
import sys

def refuse(event, arguments):
    if event in ("socket.getaddrinfo", "socket.connect"):
        raise SystemExit(f"the build wants the network: {event} {arguments}")

sys.addaudithook(refuse)
from sphinx.cmd.build import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.slow
def test_site_builds_without_warnings(tmp_path):
    for name in ("sphinx", "myst_parser", "furo", "latex2mathml"):
        pytest.importorskip(name, reason="needs the extra gradaudit[docs]")
    site = tmp_path / "site"
    command = [sys.executable, "-c", BUILD, "-q", "-W", "--keep-going", str(DOCS), str(site)]
    built = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert built.returncode == 0, built.stderr[-3000:]
    for page in DOCS.rglob("*.md"):
        if "_build" not in page.parts:
            assert (site / page.relative_to(DOCS)).with_suffix(".html").is_file(), page
    concepts = (site / "concepts.html").read_text(encoding="utf-8")
    assert concepts.count("<math") > 10
    # Scripts and styles come with the site.
    assert not re.findall(r"<(?:script|link)[^>]+(?:src|href)=\"https?:", concepts)
    reference = "".join(page.read_text(encoding="utf-8") for page in (site / "api").glob("*.html"))
    for name in set(gradaudit.__all__) - {"__version__"}:
        module = "module-" if ismodule(getattr(gradaudit, name)) else ""
        assert f'id="{module}gradaudit.{name}"' in reference, name
