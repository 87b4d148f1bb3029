"""Networks to audit: by function, by text, or inferred from an update's shapes."""

from gradaudit.models.cnn6 import cnn6, cnn6_d
from gradaudit.models.infer import InferredModel, infer_mlp
from gradaudit.models.initialise import ACTIVATIONS, INITIALISATIONS
from gradaudit.models.lenet import lenet
from gradaudit.models.losses import LOSSES, Loss, get_loss, usual_loss
from gradaudit.models.mlp import mlp
from gradaudit.models.resnet import resnet18
from gradaudit.models.spec import parse_model, parse_model_on
from gradaudit.models.vgg import vgg_small

__all__ = [
    "ACTIVATIONS",
    "INITIALISATIONS",
    "LOSSES",
    "InferredModel",
    "Loss",
    "cnn6",
    "cnn6_d",
    "get_loss",
    "infer_mlp",
    "lenet",
    "mlp",
    "parse_model",
    "parse_model_on",
    "resnet18",
    "usual_loss",
    "vgg_small",
]
