import numpy as np
import pytest
from PIL import Image

from gradaudit.data import image_folder, images
from gradaudit.errors import InputError


def save(path, colour, size=(8, 8), mode="RGB"):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, colour).save(path)


def test_subfolders_are_classes(tmp_path):
    save(tmp_path / "dog" / "a.png", (200, 0, 0))
    save(tmp_path / "cat" / "b.PNG", (0, 100, 0), size=(20, 8))
    save(tmp_path / "cat" / "c.png", (0, 100, 0, 128), mode="RGBA")
    (tmp_path / "cat" / "notes.txt").write_text("no image")
    (tmp_path / "cat" / ".hidden.png").write_text("no image")
    source = image_folder(tmp_path, size=8)
    assert source.preprocessing.class_names == ("cat", "dog")
    batch = source.batch(3)
    back = np.rint(source.preprocessing.to_images(batch.inputs.numpy()) * 255)
    for image, label in zip(back, batch.labels.tolist(), strict=True):
        assert (image == ((0, 100, 0), (200, 0, 0))[label]).all()


def test_a_folder_without_subfolders_is_one_class(tmp_path):
    save(tmp_path / "a.png", 7, mode="L")
    source = image_folder(tmp_path, size=4, channels=1, normalise="unit")
    assert source.classes == 1
    assert source.batch(1).inputs.shape == (1, 1, 4, 4)


def test_rotation_marks_are_obeyed(tmp_path):
    picture = Image.fromarray(np.array([[[255] * 3, [0] * 3]] * 2, dtype=np.uint8))
    exif = picture.getexif()
    exif[0x0112] = 3  # upside down
    picture.save(tmp_path / "a.png", exif=exif)
    found = image_folder(tmp_path, size=2, normalise="unit").batch(1).inputs[0, 0]
    assert found.tolist() == [[0, 1], [0, 1]]


def test_broken_and_hostile_images_are_one_line(tmp_path, monkeypatch):
    save(tmp_path / "a.png", (1, 2, 3), size=(64, 64))
    whole = (tmp_path / "a.png").read_bytes()
    for content in (whole[: len(whole) - 40], b"nothing", b""):
        (tmp_path / "a.png").write_bytes(content)
        with pytest.raises(InputError, match=r"a\.png") as caught:
            image_folder(tmp_path)
        assert "\n" not in str(caught.value)
    (tmp_path / "a.png").write_bytes(whole)
    monkeypatch.setattr(images, "MAX_PIXELS", 4095)
    with pytest.raises(InputError, match="64 x 64 pixels"):
        image_folder(tmp_path)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 4000)
    with pytest.raises(InputError, match="decompression bomb"):
        image_folder(tmp_path)
    monkeypatch.undo()
    Image.new("I;16", (8, 8)).save(tmp_path / "a.png")
    with pytest.raises(InputError, match="8-bit"):
        image_folder(tmp_path)


def test_programs_are_no_images(tmp_path):
    """Pillow runs Ghostscript for these, whatever the suffix says."""
    (tmp_path / "a.png").write_bytes(
        b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n%%EOF\n"
    )
    with Image.open(tmp_path / "a.png") as image:
        assert image.format == "EPS"
    with pytest.raises(InputError, match="cannot identify image"):
        image_folder(tmp_path)


def test_warnings_of_the_library_are_not_the_users(tmp_path):
    """They are errors in these tests."""
    save(tmp_path / "a.tif", (1, 2, 3))
    content = bytearray((tmp_path / "a.tif").read_bytes())
    # More entries than a tag may have.
    place = content.find(b"\x15\x01\x03\x00")
    content[place + 4 : place + 8] = (128).to_bytes(4, "little")
    (tmp_path / "a.tif").write_bytes(content)
    with pytest.raises(InputError, match=r"a\.tif"):
        image_folder(tmp_path)


def test_bad_folders(tmp_path):
    with pytest.raises(InputError, match="no such folder"):
        image_folder(tmp_path / "absent")
    with pytest.raises(InputError, match="no images"):
        image_folder(tmp_path)
    save(tmp_path / "a.png", (1, 2, 3))
    for wrong in ({"size": 0}, {"channels": 4}):
        with pytest.raises(InputError):
            image_folder(tmp_path, **wrong)
    save(tmp_path / "cat" / "b.png", (1, 2, 3))
    with pytest.raises(InputError, match="beside subfolders"):
        image_folder(tmp_path)
