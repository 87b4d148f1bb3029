"""Defences of a client: what it does to its gradients before it sends anything.

Some work on what a record's gradient shows of its representation (`RepresentationDefense`), some on
each record's gradient before they are summed (`RecordDefense`), the others on what is sent
(`SentDefense`); clients take a sequence of them and apply them in its order.
"""

from gradaudit.defenses.clip_per_record import ClipPerRecord
from gradaudit.defenses.clip_update import ClipUpdate
from gradaudit.defenses.defense import (
    Defense,
    RecordDefense,
    RepresentationDefense,
    SentDefense,
)
from gradaudit.defenses.dp_sgd import DPSGD
from gradaudit.defenses.gaussian_noise import GaussianNoise
from gradaudit.defenses.mask import Mask
from gradaudit.defenses.pipeline import Pipeline
from gradaudit.defenses.prune import Prune
from gradaudit.defenses.quantise import Quantise
from gradaudit.defenses.registry import DEFENSES, NO_DEFENSE, parse_defense
from gradaudit.defenses.secure_aggregation import secure_aggregation
from gradaudit.defenses.sign import Sign
from gradaudit.defenses.soteria import Soteria

__all__ = [
    "DEFENSES",
    "DPSGD",
    "NO_DEFENSE",
    "ClipPerRecord",
    "ClipUpdate",
    "Defense",
    "GaussianNoise",
    "Mask",
    "Pipeline",
    "Prune",
    "Quantise",
    "RecordDefense",
    "RepresentationDefense",
    "SentDefense",
    "Sign",
    "Soteria",
    "parse_defense",
    "secure_aggregation",
]
