from __future__ import annotations

import json

import pytest

from gradaudit import truth
from gradaudit.capture.layout import check_is_no_other, read_noise, read_preprocessing, read_step
from gradaudit.errors import InputError
from gradaudit.preprocessing import Preprocessing
from gradaudit.result import file
from gradaudit.update import FORMAT, GradientStep, LocalTraining, step_to_text


def _metadata(step: object, version: str = "1") -> dict[str, str]:
    text = step if isinstance(step, str) else json.dumps(step)
    return {"format": "gradaudit.update", "version": version, "step": text}


@pytest.mark.parametrize(("rate", "expected"), [(None, None), (0.5, 0.5), (1, 1.0)])
def test_step(rate, expected):
    read = read_step("f", _metadata({"kind": "gradient", "learning_rate": rate}))
    assert read == GradientStep(expected)


def test_local_training():
    training = LocalTraining(0.1, epochs=3, batch_size=5, momentum=0.9, records=20)
    assert read_step("f", _metadata(step_to_text(training))) == training


@pytest.mark.parametrize(("text", "noise"), [("0.25", 0.25), ("0", 0.0)])
def test_noise(text, noise):
    assert read_noise("f", {"noise": text}) == noise
    assert read_noise("f", {}) is None


@pytest.mark.parametrize("text", ["", "null", "true", "[1]", "Infinity", "NaN", "[" * 100_000])
def test_hostile_noise(text):
    with pytest.raises(InputError, match="noise"):
        read_noise("f", {"noise": text})


@pytest.mark.parametrize(
    "step",
    [
        "",
        "not json",
        "[1]",
        "3",
        "[" * 100_000,
        {"kind": "gradient"},
        {"kind": "gradient", "learning_rate": "0.1"},
        {"kind": "gradient", "learning_rate": True},
        {"kind": "gradient", "learning_rate": 10**400},
        {"kind": "two steps", "learning_rate": 0.1},
        {"kind": ["gradient"], "learning_rate": 0.1},
    ],
)
def test_hostile_steps(step):
    with pytest.raises(InputError, match="step"):
        read_step("f", _metadata(step))


def test_other_versions_and_missing_keys():
    with pytest.raises(InputError, match="layout version '2'"):
        read_step("f", _metadata({}, version="2"))
    with pytest.raises(InputError, match="layout version None"):
        read_step("f", {"format": "gradaudit.update"})
    with pytest.raises(InputError, match="step: found no readable JSON"):
        read_step("f", {"version": "1"})


def test_preprocessing():
    grey = Preprocessing(image_shape=(1, 2, 2), mean=(0.5,), std=(0.25,))
    assert read_preprocessing({"preprocessing": grey.to_text()}) == grey
    assert read_preprocessing({}) is None
    for text in ("{", "[1]", '{"image_shape": [Infinity, 1, 1]}', "[" * 100_000):
        with pytest.raises(InputError, match="preprocessing"):
            read_preprocessing({"preprocessing": text})


def test_files_of_records_are_told_by_their_format():
    for written in (truth.FORMAT, f"{file.SCHEMA} {file.SCHEMA_VERSION}"):
        with pytest.raises(InputError, match=r"f: found the .* expected an update"):
            check_is_no_other("f", {"format": written})
    for other in ({}, {"format": "pt"}, {"format": FORMAT}):
        check_is_no_other("f", other)
