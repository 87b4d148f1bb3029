"""The templates' environment: escaping, filters and the style of every page."""

from __future__ import annotations

import functools
import re
from importlib import resources

import jinja2
from markupsafe import Markup, escape

from gradaudit.report.text import count, number, plain


@functools.cache
def environment() -> jinja2.Environment:
    """The one environment of all pages; it escapes whatever comes from outside.

    Example:
        >>> environment().from_string("{{ text|plain }}").render(text="<b>")
        '&lt;b&gt;'
    """
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("gradaudit.report", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(plain=plain, number=number, count=count, shape=_shape, breakable=_breakable)
    style = resources.files("gradaudit.report").joinpath("templates/style.css")
    # Our own file, and no text of anybody else's.
    made.globals["style"] = Markup(style.read_text(encoding="utf-8"))  # noqa: S704
    return made


def _breakable(name: str) -> Markup:
    """A name that may be broken after what joins its words, and not within them."""
    return Markup("<wbr>").join(escape(part) for part in re.split(r"(?<=[/_.+])(?=\w)", name))


def _shape(shape: tuple[int, ...]) -> str:
    return " \u00d7 ".join(f"{size:,}" for size in shape)
