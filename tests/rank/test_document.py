from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

import gradaudit as ga
from gradaudit.models import mlp
from gradaudit.rank import LayerRow

DOCUMENT = Path(__file__).parents[2] / "docs" / "rank-analysis.md"


def test_the_document_explains_every_key_of_the_json():
    if not DOCUMENT.exists():
        pytest.skip("the documents are not beside the tests")
    text = DOCUMENT.read_text(encoding="utf-8")
    keys = [field.name for field in fields(LayerRow)]
    keys += ga.rank_analysis(mlp(4, [3], 2), (4,)).to_json()
    assert [key for key in keys if f"`{key}`" not in text] == []
