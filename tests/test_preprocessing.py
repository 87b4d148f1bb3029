import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from gradaudit.errors import InputError
from gradaudit.preprocessing import Column, Preprocessing

MODERATE = st.floats(-1e6, 1e6, allow_nan=False)
POSITIVE = st.floats(1e-3, 1e3)


@st.composite
def image_preprocessings(draw):
    shape = tuple(draw(st.integers(1, 4)) for _ in range(3))
    mean = tuple(draw(st.floats(-2, 2)) for _ in range(shape[0]))
    std = tuple(draw(POSITIVE) for _ in range(shape[0]))
    return Preprocessing(image_shape=shape, mean=mean, std=std)


@st.composite
def table_preprocessings(draw):
    names = draw(st.lists(st.text(min_size=1, max_size=5), min_size=1, max_size=5, unique=True))
    columns = []
    for name in names:
        if draw(st.booleans()):
            categories = draw(st.lists(st.text(max_size=4), min_size=1, max_size=4, unique=True))
            columns.append(Column(name, tuple(categories)))
        else:
            columns.append(Column(name, (), draw(MODERATE), draw(POSITIVE)))
    return Preprocessing(columns=tuple(columns))


@given(image_preprocessings(), st.data())
def test_to_images_undoes_the_normalisation(preprocessing, data):
    channels, height, width = preprocessing.image_shape
    pixels = data.draw(hnp.arrays(float, (2, height, width, channels), elements=st.floats(0, 1)))
    inputs = np.moveaxis((pixels - preprocessing.mean) / preprocessing.std, -1, 1)
    for shaped in (inputs, inputs.reshape(2, -1)):
        np.testing.assert_allclose(preprocessing.to_images(shaped), pixels, atol=1e-12)


@given(table_preprocessings(), st.data())
def test_to_rows_undoes_the_encoding(preprocessing, data):
    row, parts = {}, []
    for column in preprocessing.columns:
        if column.categories:
            row[column.name] = data.draw(st.sampled_from(column.categories))
            parts += [float(category == row[column.name]) for category in column.categories]
        else:
            row[column.name] = data.draw(MODERATE)
            parts.append((row[column.name] - column.mean) / column.scale)
    (found,) = preprocessing.to_rows(np.array([parts]))
    assert found.keys() == row.keys()
    for name, value in row.items():
        assert found[name] == (value if isinstance(value, str) else pytest.approx(value, abs=1e-6))


@given(st.one_of(image_preprocessings(), table_preprocessings()))
def test_json_round_trip_is_exact(preprocessing):
    assert Preprocessing.from_json(preprocessing.to_json()) == preprocessing
    assert Preprocessing.from_json(preprocessing.to_text()) == preprocessing


@pytest.mark.parametrize(
    "arguments",
    [
        {"image_shape": (1, 2, 2), "columns": (Column("a"),)},
        {"image_shape": (0, 2, 2)},
        {"image_shape": (10**4_000, 10**4_000, 2)},
        {"image_shape": (3, 2, 2), "mean": (0.5,)},
        {"image_shape": (1, 2, 2), "std": (0.0,)},
        {"image_shape": (1, 2, 2), "mean": (float("nan"),)},
        {"mean": (0.5,)},
    ],
)
def test_contradictions_are_refused(arguments):
    with pytest.raises(InputError):
        Preprocessing(**arguments)


def test_what_is_not_there_is_an_error():
    images = Preprocessing(image_shape=(1, 2, 2))
    table = Preprocessing(columns=(Column("a"), Column("b", ("x", "y"))))
    with pytest.raises(InputError, match="columns"):
        images.to_rows(np.zeros((1, 4)))
    with pytest.raises(InputError, match="image shape"):
        table.to_images(np.zeros((1, 3)))
    with pytest.raises(InputError, match="4 features"):
        table.to_rows(np.zeros((1, 4)))
    for unreadable in ("[]", "{", {"columns": [{}]}, {"image_shape": 3}):
        with pytest.raises(InputError, match="preprocessing"):
            Preprocessing.from_json(unreadable)
