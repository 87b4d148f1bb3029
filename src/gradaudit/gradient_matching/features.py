"""From features to inputs: images whose features in front of a layer are the known ones."""

from __future__ import annotations

import copy
import time
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from gradaudit.budget import Budget, Control
from gradaudit.errors import InputError
from gradaudit.gradient_matching.objective import total_variation
from gradaudit.gradient_matching.optimisers import Minimum, Variables, signed_adam
from gradaudit.preprocessing import Preprocessing
from gradaudit.randomness import make_generator

STEPS = 1000
# First rate, and deviation of the start from the middle, relative to the range of an input.
LEARNING_RATE = 0.02
SPREAD = 0.1
# Weight of the total variation, likewise, beside a relative squared distance of features.
SMOOTHNESS = 0.1


@dataclass(frozen=True, eq=False)
class FeatureMatch:
    """Inputs whose features are near the known ones; how near the records, is not known.

    Attributes:
        records: Network inputs, in the order of the features.
        residuals: Distance of each one's features from the known ones, relative to their norm.
        stopped: Why the search ended early; empty if it did not.
        counters: What was counted.
        seconds: Time by phase.
    """

    records: Float[Tensor, "b ..."]
    residuals: Float[Tensor, " b"]
    stopped: str
    counters: dict[str, float]
    seconds: dict[str, float]


def invert_features(
    model: nn.Module,
    layer: str,
    features: Float[Tensor, "b f"],
    input_shape: tuple[int, ...],
    *,
    preprocessing: Preprocessing | None = None,
    up_to_scale: bool = False,
    steps: int = STEPS,
    smoothness: float = SMOOTHNESS,
    generator: torch.Generator | None = None,
    seed: int = 0,
    control: Control | None = None,
) -> FeatureMatch:
    r"""Search, for each row of features h by itself, for an input x with these features.

    .. math:: \min_x \; \lVert \phi(x) - h \rVert^2 / \lVert h \rVert^2 + \alpha \, TV(x) / R

    with phi the network up to the layer's input and R the range of an input's values. Records of a
    batch no longer mix: however large it was, each is searched for from its own features. Features
    of fewer entries than an input, or behind a pooling, leave inputs open; what comes out is an
    estimate, and its features' residual no measure of its error.

    Args:
        model: The network with the weights that the features were computed with.
        layer: Module path of the layer whose inputs the features are.
        features: One record's a row, such as an audit recovers exactly.
        input_shape: Of one network input.
        preprocessing: Of images: keeps pixels between black and white, and gives R; 1 without.
        up_to_scale: Whether a row of features is known up to a positive factor only.
        steps: Of signed Adam, from a random start.
        smoothness: alpha; used where an input is an image.
        generator: Of the starts; on the model's device.
        seed: Starts a generator when none is given.
        control: Stops the search, which returns what it has; ten minutes by default.

    Returns:
        The inputs.

    Raises:
        InputError: The layer is not the model's, or the features are not its inputs' size.

    Source:
        SPEAR (arXiv 2403.03945), section 6.4, after the Cocktail Party attack's feature inversion
        (arXiv 2209.05578, section 5); optimiser and prior as in Inverting Gradients (2003.14053).

    Example:
        >>> model = nn.Sequential(nn.Linear(4, 8), nn.Sigmoid(), nn.Linear(8, 2)).double()
        >>> inputs = torch.rand(3, 4, generator=torch.Generator().manual_seed(0)).double()
        >>> features = model[:2](inputs).detach()
        >>> found = invert_features(model, "2", features, (4,), steps=500)
        >>> bool((found.residuals < 0.05).all())
        True
    """
    started = time.perf_counter()
    network = _UpTo(model, layer, features.dtype)
    generator = make_generator(generator, seed)
    known = features.detach().to(network.device)
    noise = torch.randn(
        (len(features), *input_shape),
        generator=generator,
        dtype=features.dtype,
        device=network.device,
    )
    box = None if preprocessing is None else preprocessing.input_range(input_shape)
    bounds = None if box is None else [torch.as_tensor(bound).to(noise) for bound in box]
    unit = 1.0 if bounds is None else float((bounds[1] - bounds[0]).mean())
    middle = 0.0 if bounds is None else (bounds[0] + bounds[1]) / 2
    start = middle + SPREAD * unit * noise
    width = network(start[:1]).shape[1]
    if width != known.shape[1]:
        raise InputError(
            "features", f"{known.shape[1]} a record", f"{width}, as layer {layer!r} is given"
        )
    if up_to_scale:
        known = known / known.norm(dim=1, keepdim=True)

    def distances(inputs: Tensor) -> Tensor:
        found = network(inputs)
        if up_to_scale:
            found = found / found.norm(dim=1, keepdim=True).clamp(min=torch.finfo(found.dtype).tiny)
        return (found - known).square().sum(1) / known.square().sum(1)

    def objective(variables: Variables) -> Tensor:
        value = distances(variables[0])
        if len(input_shape) == 3:
            value = value + smoothness / unit * total_variation(variables[0])
        return value

    def project(variables: Variables) -> None:
        if bounds is not None:
            variables[0].clamp_(*bounds)

    # Every image is a start of its own: the search keeps the best of each.
    found: Minimum = signed_adam(
        objective,
        (start,),
        iterations=steps,
        learning_rate=LEARNING_RATE * unit,
        project=project,
        control=control or Control(Budget()),
        phase=f"inverting the features of layer {layer!r}",
    )
    with torch.no_grad():
        residuals = distances(found.variables[0]).sqrt()
    return FeatureMatch(
        records=found.variables[0],
        residuals=residuals,
        stopped=found.stopped,
        counters={"iterations": float(found.iterations)},
        seconds={"invert features": time.perf_counter() - started},
    )


class _Reached(Exception):
    """Ends a forward pass at the layer, whose input it carries."""

    def __init__(self, features: Tensor) -> None:
        self.features = features


class _UpTo:
    """The part of a network in front of a layer."""

    def __init__(self, model: nn.Module, layer: str, dtype: torch.dtype) -> None:
        if layer not in dict(model.named_modules()):
            raise InputError("layer", repr(layer), "a module of the model")
        self._model = copy.deepcopy(model).to(dtype).eval().requires_grad_(False)
        self._model.get_submodule(layer).register_forward_pre_hook(self._stop)
        self.device = next(self._model.parameters()).device

    def __call__(self, inputs: Tensor) -> Tensor:
        try:
            self._model(inputs)
        except _Reached as reached:
            return reached.features.flatten(1)
        raise InputError("layer", "one that a forward pass does not reach", "one that it does")

    @staticmethod
    def _stop(_: nn.Module, given: tuple[Tensor, ...]) -> None:
        raise _Reached(given[0])
