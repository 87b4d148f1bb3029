from __future__ import annotations

import base64
import io

import numpy as np
import pytest
from PIL import Image

from gradaudit.errors import InputError
from gradaudit.preprocessing import Preprocessing
from gradaudit.report.images import (
    display_images,
    fingerprint,
    png_uri,
    redact,
    rounded_row,
    significant,
)
from report.material import COLOUR, inputs, patches


def test_pixels_are_those_of_the_photo():
    shown = display_images(inputs(5).numpy(), COLOUR)
    expected = np.round(patches(5) * 255).astype(np.uint8).transpose(0, 2, 3, 1)
    np.testing.assert_array_equal(shown.pixels, expected)
    assert shown.not_finite == (0,) * 5
    assert shown.clipped == (0.0,) * 5
    assert shown.note == ""


def test_values_that_cannot_be_shown_are_counted():
    grey = Preprocessing(image_shape=(1, 2, 2))
    records = np.array([[np.nan, np.inf, 0.5, 2.0], [-1.0, -0.005, 1.005, 1.0]])
    shown = display_images(records, grey)
    assert shown.pixels[..., 0].tolist() == [[[128, 128], [128, 255]], [[0, 0], [255, 255]]]
    assert shown.not_finite == (2, 0)
    assert shown.clipped == (0.5, 0.25)


def test_unknown_scale_does_not_change_what_is_shown():
    records = inputs(3).numpy()
    factors = np.array([[1e-3], [1.0], [40.0]])
    unknown = display_images(records * factors, COLOUR, scale_identified=False)
    same = display_images(records, COLOUR, scale_identified=False)
    np.testing.assert_array_equal(unknown.pixels, same.pixels)
    assert "brightness" in unknown.note
    bare = Preprocessing(image_shape=(3, 32, 32))
    assert display_images(np.abs(records), bare, scale_identified=False).pixels.max() == 255
    zero = display_images(np.zeros((1, 3072)), bare, scale_identified=False)
    assert zero.pixels.max() == 0


def test_other_channel_counts_are_averaged_and_said_so():
    shown = display_images(np.linspace(0, 1, 20).reshape(1, 20), Preprocessing((5, 2, 2)))
    assert shown.pixels.shape == (1, 2, 2, 1)
    assert "5 channels" in shown.note


def test_wrong_size_is_an_input_error():
    with pytest.raises(InputError, match="3072"):
        display_images(np.zeros((1, 10)), COLOUR)


@pytest.mark.parametrize(
    ("size", "cells"),
    [
        ((1, 1), (1, 1)),
        ((8, 8), (2, 2)),
        ((28, 28), (4, 4)),
        ((224, 17), (4, 4)),
        ((5, 64), (1, 4)),
    ],
)
def test_redacted_images_have_few_cells_of_many_pixels(size, cells):
    assert redact(np.zeros((*size, 3), dtype=np.uint8)).shape == (*cells, 3)


def test_redaction_averages():
    image = np.zeros((16, 16, 1), dtype=np.uint8)
    image[:4, :4] = 200
    image[4:8, 4:8] = np.arange(16, dtype=np.uint8).reshape(4, 4, 1)
    small = redact(image)
    assert small[0, 0, 0] == 200
    assert small[1, 1, 0] == 8
    assert small.sum() == 208


@pytest.mark.parametrize("channels", [1, 3])
def test_png_is_lossless(channels):
    image = np.random.default_rng(0).integers(0, 256, (7, 5, channels), dtype=np.uint8)
    data = base64.b64decode(png_uri(image).removeprefix("data:image/png;base64,"))
    decoded = np.asarray(Image.open(io.BytesIO(data))).reshape(image.shape)
    np.testing.assert_array_equal(decoded, image)


def test_fingerprints_tell_records_apart_and_ignore_rounding():
    records = inputs(12).numpy()
    noisy = records + np.random.default_rng(0).normal(size=records.shape) * 1e-6

    def marks(values, key):
        return [fingerprint(p, key) for p in display_images(values, COLOUR).pixels]

    assert marks(records, "a") == marks(noisy, "a")
    assert len(set(marks(records, "a"))) == 12
    assert not set(marks(records, "a")) & set(marks(records, "b"))
    assert all(len(mark) == 12 for mark in marks(records, "a" * 1000))


def test_rows_and_vectors_are_compared_rounded():
    row = {"age": 38.99999997, "zero": -0.0, "job": "clerk"}
    same = {"age": 39.0, "zero": 0.0, "job": "clerk"}
    assert bytes(rounded_row(row)) == bytes(rounded_row(same))
    assert bytes(rounded_row(row)) != bytes(rounded_row({**same, "job": "nurse"}))
    vector = np.array([1.0, -1e-9, np.nan])
    assert significant(vector).tobytes() == significant(vector + 1e-8).tobytes()
    assert significant(np.zeros(2)).tolist() == [0, 0]
