import pytest
import torch

from gradaudit.errors import InputError
from gradaudit.options import floating_dtype, split_options
from gradaudit.randomness import make_generator


def test_options_are_read_by_type():
    name, options = split_options("data", "a/b.csv?n=3&x=0.5&on=yes&names=a,b&kind=one&t=a%26b")
    assert name == "a/b.csv"
    assert options.integer("n", 1) == 3
    assert options.number("x") == 0.5
    assert options.number("absent") is None
    assert options.flag("on", False) is True
    assert options.names("names") == ("a", "b")
    assert options.choice("kind", ("one", "two"), "two") == "one"
    assert options.text("t", "") == "a&b"
    options.finish()


@pytest.mark.parametrize("text", ["a?b", "a?=1", "a?b=1&b=2"])
def test_malformed_options(text):
    with pytest.raises(InputError, match="key=value"):
        split_options("data", text)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("a?n=x", lambda o: o.integer("n", 1)),
        ("a?n=x", lambda o: o.number("n")),
        ("a?n=inf", lambda o: o.number("n")),
        ("a?n=x", lambda o: o.flag("n", True)),
        ("a?n=x", lambda o: o.choice("n", ("y",), "y")),
        ("a?sise=3", lambda o: (o.integer("size", 1), o.finish())),
    ],
)
def test_wrong_options_are_named(text, read):
    _, options = split_options("data", text)
    with pytest.raises(InputError, match=r"data.*'(n|sise)'"):
        read(options)


@pytest.mark.wrong_types
def test_dtypes_and_generators():
    assert floating_dtype("dtype", torch.float16) is torch.float16
    with pytest.raises(InputError, match="int64"):
        floating_dtype("dtype", torch.int64)
    generator = torch.Generator()
    assert make_generator(generator, 3) is generator
    for wrong in (-1, 1.5, True, 2**63):
        with pytest.raises(InputError, match="seed"):
            make_generator(None, wrong)
    with pytest.raises(InputError, match="generator"):
        make_generator(5, 0)
