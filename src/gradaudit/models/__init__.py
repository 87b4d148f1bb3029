"""Networks to audit: fully connected ones by size, by text, or inferred from an update's shapes."""

from gradaudit.models.infer import InferredModel, infer_mlp
from gradaudit.models.losses import LOSSES, Loss, get_loss, usual_loss
from gradaudit.models.mlp import ACTIVATIONS, INITIALISATIONS, mlp
from gradaudit.models.spec import parse_model

__all__ = [
    "ACTIVATIONS",
    "INITIALISATIONS",
    "LOSSES",
    "InferredModel",
    "Loss",
    "get_loss",
    "infer_mlp",
    "mlp",
    "parse_model",
    "usual_loss",
]
