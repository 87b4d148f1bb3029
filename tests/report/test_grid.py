from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image

from gradaudit.errors import InputError
from gradaudit.preprocessing import Preprocessing
from gradaudit.report import record_grid
from gradaudit.report.grid import CELL, GAP, INNER_GAP
from gradaudit.truth import Truth
from report.material import COLOUR, inputs, patches, recovered, truth_of


def opened(path) -> Image.Image:
    with Image.open(path) as image:
        image.load()
        return image


def test_grid_shows_every_record_enlarged(tmp_path):
    record_grid(inputs(5), COLOUR, tmp_path / "new" / "grid.png", columns=3)
    sheet = np.asarray(opened(tmp_path / "new" / "grid.png"))
    assert sheet.shape == (2 * (CELL + GAP) + GAP, 3 * (CELL + GAP) + GAP, 3)
    expected = np.round(patches(5) * 255).astype(np.uint8).transpose(0, 2, 3, 1)
    for index in range(5):
        top, left = (GAP + place * (CELL + GAP) for place in divmod(index, 3))
        cell = sheet[top : top + CELL, left : left + CELL]
        np.testing.assert_array_equal(cell[::3, ::3], expected[index])
        np.testing.assert_array_equal(cell, expected[index].repeat(3, 0).repeat(3, 1))
    assert (sheet[-CELL - GAP :, -CELL - GAP :] == 255).all()


def test_originals_lie_below_what_was_recovered(tmp_path):
    result = recovered(4)
    record_grid(result.records, COLOUR, tmp_path / "grid.png", truth=truth_of(result), columns=9)
    sheet = np.asarray(opened(tmp_path / "grid.png"))
    assert sheet.shape[:2] == (2 * CELL + INNER_GAP + 2 * GAP, 4 * (CELL + GAP) + GAP)
    upper = sheet[GAP : GAP + CELL]
    lower = sheet[GAP + CELL + INNER_GAP :][:CELL]
    np.testing.assert_array_equal(upper, lower)


def test_a_record_without_original_has_an_empty_place(tmp_path):
    result = recovered(2)
    truth = Truth(result.records[:1], torch.tensor([0]), COLOUR)
    record_grid(result.records, COLOUR, tmp_path / "grid.png", truth=truth)
    sheet = np.asarray(opened(tmp_path / "grid.png"))
    assert (sheet[GAP + CELL + INNER_GAP :, CELL + 2 * GAP :] == 255).all()


@pytest.mark.parametrize(
    ("records", "preprocessing", "columns"),
    [
        (torch.zeros(0, 4), Preprocessing(image_shape=(1, 2, 2)), 8),
        (torch.zeros(1, 4), Preprocessing(), 8),
        (torch.zeros(1, 5), Preprocessing(image_shape=(1, 2, 2)), 8),
        (torch.zeros(1, 4), Preprocessing(image_shape=(1, 2, 2)), 0),
    ],
)
def test_bad_input_is_one_line(tmp_path, records, preprocessing, columns):
    with pytest.raises(InputError) as caught:
        record_grid(records, preprocessing, tmp_path / "grid.png", columns=columns)
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_large_images_are_not_enlarged(tmp_path):
    record_grid(torch.rand(1, 120 * 130), Preprocessing((1, 120, 130)), tmp_path / "grid.png")
    assert opened(tmp_path / "grid.png").size == (130 + 2 * GAP, 120 + 2 * GAP)
