"""What all attacks of one audit share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from gradaudit.budget import Control
from gradaudit.certify import Network
from gradaudit.gradient_matching import Knowledge, Method
from gradaudit.layers import LayerPlan
from gradaudit.memory import size_text, total_memory
from gradaudit.models.losses import AUTO, Loss, get_loss, usual_loss
from gradaudit.outcome import Hypothesis
from gradaudit.update import Update

# Copies of all weights in float64 that a proof by the network holds: its own, the gradient that is
# computed again, the observed one, and what their comparison makes.
NETWORK_COPIES = 6


@dataclass
class NetworkMaker:
    """Builds the network for one layer's certification: the given one, or the guess.

    The loss is the given one too, or else that which is usual for the outputs of a chain of layers.
    There is none where its copies in float64 would not fit into the memory.
    """

    update: Update
    plan: LayerPlan
    model: nn.Module | None
    loss: str | Loss | Callable[[Tensor, Tensor], Tensor]
    place: torch.device
    memory: int | None = None
    hypothesis: Hypothesis = field(init=False)

    def __post_init__(self) -> None:
        given = not isinstance(self.loss, str) or self.loss != AUTO
        self.loss = get_loss(self.loss if given else usual_loss(self._outputs()))
        self.hypothesis = Hypothesis(
            self.model is not None, self.loss.name, given, self._too_large()
        )
        if self.model is not None and self.plan.linear:
            # A wrong model is bad input, and better said before a search than after it.
            self(self.plan.linear[0][0].name)

    @property
    def loss_function(self) -> Loss:
        """The loss itself."""
        return get_loss(self.loss)

    def _outputs(self) -> int | None:
        guess = self.plan.guess
        if guess.model is None:
            # Behind convolutions, the last layer that is fully connected, if nothing follows it.
            last = self.plan.linear[-1:]
            return len(last[0][0].weight) if last and last[0][1] == "output" else None
        return len(guess.model.get_parameter(f"{guess.layers[-1]}.weight".lstrip(".")))

    def _model(self) -> nn.Module | None:
        return self.plan.guess.model if self.model is None else self.model

    def _too_large(self) -> str:
        """Why the network cannot be run, if it cannot.

        Measured against the machine's whole memory, so that a result does not depend on what else
        was running.
        """
        if self._model() is None:
            return ""
        needed = 8 * NETWORK_COPIES * sum(w.numel() for w in self.update.weights.values())
        allowed, which = self.memory, "the limit"
        if allowed is None:
            allowed, which = device_memory(self.place), "the memory"
        if allowed is None or needed <= allowed:
            return ""
        return (
            f"the network's copies in float64 would take {size_text(needed)}, more than "
            f"{which} of {size_text(allowed)}, so that no labels were recovered."
        )

    def __call__(self, layer: str) -> Network | None:
        """The network for records of one layer, or None where there is no model."""
        model = self._model()
        if model is None or self.hypothesis.left_out:
            return None
        given = self.model is not None
        # After several steps no weights give the gradient; those in the middle are nearest to all.
        update = self.update.halfway() if self.update.several_steps else self.update
        return Network(model, update, layer=layer, loss=self.loss, device=self.place, given=given)


def device_memory(place: torch.device) -> int | None:
    """Bytes of memory that a device has, None where nothing says it."""
    if place.type == "cuda":
        return int(torch.cuda.mem_get_info(place)[1])
    return total_memory()


@dataclass(frozen=True)
class Setup:
    """What an audit works on, and within which limits.

    Attributes:
        update: What was observed.
        plan: Its layers by role.
        attack: As asked for.
        seed: Of every random choice.
        generator: Seeded so, on the device.
        control: Watches the time, and reports.
        network_of: Builds the network, if there is one.
        place: The device.
        knowledge: What the attacker knows besides, for gradient matching.
        method: Settings of gradient matching; None for the attack's usual ones.
    """

    update: Update
    plan: LayerPlan
    attack: str
    seed: int
    generator: torch.Generator
    control: Control
    network_of: NetworkMaker
    place: torch.device
    knowledge: Knowledge = field(default_factory=Knowledge)
    method: Method | None = None

    @property
    def image_shape(self) -> tuple[int, int, int] | None:
        """A record's shape as an image, where it is known."""
        preprocessing = self.update.preprocessing
        return preprocessing.image_shape if preprocessing else None

    @property
    def sign(self) -> float:
        """Of the update against the gradient."""
        return 1.0 if self.update.observed_kind == "gradient" else -1.0

    @property
    def total_weight(self) -> float | None:
        """What the update multiplies a mean gradient by, if it is what it says it is."""
        return self.update.gradient_scale
