"""Mathematics as MathML, written while the site is built: readers need no script, no network."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator


def inline(writer: HTML5Translator, node: nodes.Element) -> None:
    """Write a formula within a line."""
    writer.body.append(convert(node.astext()))
    raise nodes.SkipNode


def display(writer: HTML5Translator, node: nodes.Element) -> None:
    """Write a formula of its own, scrollable where the page is narrow."""
    formula = convert(node.astext(), display="block")
    writer.body.append(f'<div class="math" style="overflow-x: auto">{formula}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    """Register this as the renderer of formulas in HTML."""
    app.add_html_math_renderer("mathml", (inline, None), (display, None))
    app.config.html_math_renderer = "mathml"
    return {"parallel_read_safe": True, "parallel_write_safe": True}
