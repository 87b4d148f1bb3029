from __future__ import annotations

import pytest

from gradaudit.defenses import DPSGD, Mask, Prune, Quantise, Sign, parse_defense
from gradaudit.errors import InputError


@pytest.mark.parametrize(
    ("text", "defense"),
    [
        ("dp-sgd:clip=2,noise=1e-4", DPSGD(2, 1e-4)),
        ("dp-sgd:clip=2,noise_multiplier=0,expected=10", DPSGD(2, 0, 10)),
        ("prune:share=0.9,per=model", Prune(0.9, "model")),
        (" quantise:bits=8 ", Quantise(8)),
        ("sign", Sign()),
        ("sign:scaled=true", Sign(scaled=True)),
        ("mask:s=0.5", None),
        ("mask:share=0.5,seed=3", Mask(0.5, 3)),
    ],
)
def test_what_a_text_names(text, defense):
    if defense is None:
        # "s" could be the share or the seed.
        with pytest.raises(InputError, match=r"key=value, each key once, of share, seed"):
            parse_defense(text)
    else:
        assert parse_defense(text) == defense


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "one of clip-per-record"),
        ("fence", "found 'fence'"),
        ("prune", "defense prune: share: found no value in '', expected a number, 0 or more"),
        ("dp-sgd:clip=-1", "defense dp-sgd: clip: found -1, expected a number, above 0"),
        ("dp-sgd:clip=1", "noise_multiplier: found no value in 'clip=1', expected a number"),
        ("dp-sgd:noise=0", "write dp-sgd:clip=VALUE,noise_multiplier=VALUE"),
        ("prune:share", "found 'share'"),
        ("prune:=1", "found '=1'"),
        ("prune:share=1,share=2", "found 'share=2'"),
        ("prune:share=" + "9" * 400, "at most 1"),
        ("prune:depth=1", "found 'depth=1'"),
        ("prune:share=2", "defense prune: share: found 2"),
        ("quantise:bits=8.5", "bits: found 8.5"),
        ("sign:scaled=maybe", "scaled: found 'maybe', expected true or false"),
        ("gaussian-noise:deviation=nan", "deviation: found nan"),
    ],
)
@pytest.mark.wrong_types
def test_errors_are_one_line(text, said):
    with pytest.raises(InputError) as caught:
        parse_defense(text)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
