from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradaudit.defending import USUAL_DEFENSES, Setting, grid
from gradaudit.defending.setting import expand
from gradaudit.defenses import DEFENSES, DPSGD, Prune
from gradaudit.errors import InputError
from gradaudit.update import LocalTraining


def test_defences_in_their_order():
    setting = Setting(4, width=9, defenses=("dp-sgd:clip=1,noise=0.5", "prune:share=0.9"))
    assert setting.parsed() == [DPSGD(1, 0.5), Prune(0.9)]
    assert setting.client == Setting(4, width=9)
    assert Setting(4, width=9).defense == "none"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ({"batch_size": 0, "width": 3}, "batch_size"),
        ({"batch_size": 3, "width": 0}, "width"),
        ({"batch_size": 3}, "one of the two"),
        ({"batch_size": 3, "width": 3, "model": "lenet"}, "one of the two"),
        ({"batch_size": 3, "width": 3, "defenses": ("fence",)}, "fence"),
        ({"batch_size": 3, "width": 3, "defenses": ("sign", "dp-sgd:clip=1,noise=1")}, "DPSGD"),
    ],
)
def test_what_is_no_setting(words, expected):
    with pytest.raises(InputError, match=expected):
        Setting(**words)


def test_alternatives_are_multiplied():
    found = expand("clip-per-record:norm=1/2+quantise:bits=8/4,rounding=stochastic")
    assert found == [
        (f"clip-per-record:norm={norm}", f"quantise:bits={bits},rounding=stochastic")
        for norm in (1, 2)
        for bits in (8, 4)
    ]


@given(st.lists(st.floats(0, 1).map(repr), min_size=1, max_size=5))
def test_each_alternative_is_one_setting(shares):
    texts = expand("mask:share=" + "/".join(shares))
    made = [Setting(2, width=3, defenses=text).parsed()[0].share for text in texts]
    assert made == [float(share) for share in shares]


@pytest.mark.parametrize("text", ["prune:share=", "prune:share=0.1/", "prune:share=/0.1"])
def test_an_empty_alternative_is_refused(text):
    with pytest.raises(InputError, match="between alternatives"):
        expand(text)


def test_the_usual_defences_begin_with_none_and_leave_out_no_kind_that_hides():
    settings = grid()
    assert settings[0].defense == "none"
    kinds = {text.partition(":")[0] for setting in settings for text in setting.defenses}
    # A change of scale alone, and noise without clipping, which DP-SGD adds as well.
    assert kinds == DEFENSES.keys() - {"clip-update", "gaussian-noise"}
    assert len(settings) == sum(len(expand(text)) for text in USUAL_DEFENSES)


def test_the_grid_is_the_product_of_what_is_asked_for():
    training = LocalTraining(0.1, epochs=2)
    settings = grid(
        batch_sizes=[2, 4], widths=[5, 6], trainings=[None, training], defenses=["none", "sign"]
    )
    assert len(settings) == len(set(settings)) == 16
    assert settings[:2] == [Setting(2, 5), Setting(2, 5, defenses=("sign",))]
    assert settings[-1] == Setting(4, 6, None, training, ("sign",))
    assert grid(model="lenet", defenses=["none", "none"]) == [Setting(16, model="lenet")]
    with pytest.raises(InputError, match="nothing to try"):
        grid(batch_sizes=[])
