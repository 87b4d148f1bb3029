"""What R-GAP takes, decided before any work; and what it takes in a special way."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from gradaudit.chain import Activation, Affine, Chain, ChannelScale, Skip, Step
from gradaudit.rgap.last_layer import several_records
from gradaudit.rgap.refusal import NotSolvableError, sentence


def split(chain: Chain) -> tuple[tuple[Step, ...], Affine]:
    """The chain before its last layer, and that layer.

    Raises:
        NotSolvableError: The chain does not end in a fully connected layer.
    """
    steps = list(chain.steps)
    while steps and not isinstance(steps[-1], Affine):
        step = steps.pop()
        if isinstance(step, Activation | ChannelScale | Skip):
            raise NotSolvableError(
                f"Step {step.name!r} follows the last layer.",
                "Audit the network without it, with a loss that takes the last layer's outputs.",
            )
    if not steps or not isinstance(steps[-1], Affine) or steps[-1].is_convolution:
        raise NotSolvableError(
            "The network does not end in a fully connected layer.",
            "R-GAP begins there; audit a network with a fully connected head.",
        )
    return tuple(steps[:-1]), steps[-1]


def check(chain: Chain, gradients: Mapping[str, Tensor], noise: Mapping[str, Tensor]) -> None:
    """Refuse, before any work, what the recursion cannot walk.

    Raises:
        NotSolvableError: With the layer, the reason and the remedy.
    """
    for unknown in chain.unsolvable:
        raise NotSolvableError(
            f"Layer {unknown.name!r} cannot be computed backwards: {unknown.reason}.",
            sentence(unknown.remedy),
        )
    for step in chain.walk():
        if isinstance(step, Skip) and (step.shortcut or not step.body):
            raise NotSolvableError(
                f"Both ways of the skip block that ends at {step.name!r} have layers, or none has.",
                "Only blocks whose shortcut is the identity can be computed backwards.",
            )
        if isinstance(step, Skip) and not isinstance(step.body[-1], Affine):
            raise NotSolvableError(
                f"The skip block that ends at {step.name!r} adds the output of no layer, so that "
                "nothing tells its two parts apart.",
                "Audit a network whose branches end in a layer.",
            )
    for layer in chain.affine:
        if layer.weight_name not in gradients:
            raise NotSolvableError(
                f"The gradient of layer {layer.name!r} was not observed.",
                "Capture the gradients of all layers.",
            )
        if layer.is_convolution:
            continue
        if bool(several_records(gradients[layer.weight_name], noise[layer.weight_name]).any()):
            raise NotSolvableError(
                f"The gradient of layer {layer.name!r} has a rank above one: the update is of "
                "several records, or carries noise, and this attack takes the gradient of one.",
                "Audit it with the attack 'auto', which takes batches.",
            )


def homogeneous(chain: Chain) -> bool:
    """Whether a positive factor of the input is one of the output, and of nothing else."""
    return all(_passes_factors(step) for step in chain.walk())


def _passes_factors(step: Step) -> bool:
    if isinstance(step, Affine):
        scaled = any(isinstance(each, ChannelScale) for each in step.after)
        return step.bias is None and not scaled
    if isinstance(step, Activation):
        return step.homogeneous
    return not isinstance(step, ChannelScale)
