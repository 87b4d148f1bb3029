import numpy as np
import pytest
from PIL import Image

from gradaudit.data import load_source
from gradaudit.errors import InputError


def test_every_kind_can_be_named(tmp_path):
    np.savez(tmp_path / "a.npz", images=np.zeros((2, 3, 3), np.uint8), labels=np.arange(2))
    (tmp_path / "t.csv").write_text("a\tb\ty\n1\t2\tu\n3\t4\tv\n")
    (tmp_path / "folder").mkdir()
    Image.new("RGB", (9, 9)).save(tmp_path / "folder" / "x.png")
    patches = load_source("patches?size=8&split=test&channels=1&normalise=false")
    assert patches.preprocessing.image_shape == (1, 8, 8)
    assert patches.preprocessing.std == ()
    plain, rich = (load_source(f"patches?contrast={c}&normalise=unit").batch(8) for c in (0, 0.2))
    assert plain.inputs.flatten(2).std(dim=2).amax(1).min() < 0.2
    assert rich.inputs.flatten(2).std(dim=2).amax(1).min() >= 0.2
    assert load_source("digits").preprocessing.image_shape == (1, 8, 8)
    assert load_source(f"{tmp_path}/a.npz?normalise=unit").preprocessing.image_shape == (1, 3, 3)
    table = load_source(f"{tmp_path}/t.csv?label_column=a&drop=b&categorical=y&delimiter=tab")
    assert [c.name for c in table.preprocessing.columns] == ["y"]
    folder = load_source(f"{tmp_path}/folder?size=5&channels=1")
    assert folder.preprocessing.image_shape == (1, 5, 5)


@pytest.mark.parametrize(
    "text",
    ["", "photos", "patches?sise=8", "patches?size=x", "digits?size=3", "digits?normalise=maybe",
     "missing.npz", "missing.csv", "no/such/folder", "a.npz?size=3", "9" * 5_000, "a\0b"],
)  # fmt: skip
def test_bad_texts_are_one_line(text):
    with pytest.raises(InputError) as caught:
        load_source(text)
    assert "\n" not in str(caught.value)
