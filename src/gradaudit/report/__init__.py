"""Views of a result: an HTML report, pictures, an image grid. Nothing here searches or judges."""

from gradaudit.report.grid import record_grid
from gradaudit.report.html import render_html, write_report

__all__ = ["record_grid", "render_html", "write_report"]
