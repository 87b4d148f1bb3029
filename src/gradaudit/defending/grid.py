"""The points to try: every client with every defence."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from gradaudit.defending.setting import Setting, expand
from gradaudit.errors import InputError
from gradaudit.update import LocalTraining

# One of each kind, from weak to strong; none of them first, since it is what the others are
# measured against.
USUAL_DEFENSES = (
    "none",
    "clip-per-record:norm=1",
    "soteria:share=0.5",
    "dp-sgd:clip=1,noise_multiplier=1e-6/1e-4/1e-2/1",
    "prune:share=0.5/0.9/0.99",
    "quantise:bits=8/4/1",
    "sign",
    "mask:share=0.5/0.9",
)


def grid(
    *,
    batch_sizes: Sequence[int] = (16,),
    widths: Sequence[int] = (400,),
    model: str | None = None,
    trainings: Sequence[LocalTraining | None] = (None,),
    defenses: Sequence[str] = USUAL_DEFENSES,
) -> list[Setting]:
    """Every combination, defences varying fastest.

    Args:
        batch_sizes: Records of the client.
        widths: Of the hidden layers; not looked at with a model.
        model: A network instead, as `gradaudit.models.parse_model` reads it.
        trainings: Local training; None for one gradient.
        defenses: Texts with alternatives; see `gradaudit.defending.setting.expand`.

    Returns:
        Settings, each once.

    Raises:
        InputError: There is none, or one of them cannot be made.

    Example:
        >>> [setting.defense for setting in grid(defenses=["none", "quantise:bits=8/4"])]
        ['none', 'quantise:bits=8', 'quantise:bits=4']
    """
    chosen = [each for text in defenses for each in expand(text)]
    networks: Sequence[int | None] = (None,) if model is not None else widths
    settings = [
        Setting(size, width, model, training, defense)
        for size, width, training, defense in product(batch_sizes, networks, trainings, chosen)
    ]
    if not settings:
        raise InputError("defenses", "nothing to try", "a batch size, a network and a defence")
    return list(dict.fromkeys(settings))
