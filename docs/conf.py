"""Settings of the site that Sphinx builds from this folder; nothing is fetched for it."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

from gradaudit.version import __version__

project = "gradaudit"
copyright = "The gradaudit contributors"
release = version = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "mathml",
]
exclude_patterns = ["_build", "_extensions"]

# Pages are read on GitHub too: of Markdown's extensions, those that it has as well.
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
# Shapes in annotations are strings of jaxtyping's; they stay as they are written.
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
# Frameworks of extras that are not installed.
autodoc_mock_imports = [
    name for name in ("flwr", "opacus") if importlib.util.find_spec(name) is None
]

html_theme = "furo"
html_title = f"gradaudit {release}"
html_copy_source = False
