"""The noise of one DP-SGD step, read from the Opacus optimizer that makes the step."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from gradaudit.errors import InputError, require

# Optimizers whose gradient is complete when their step hook runs. Those of several workers call it
# before the workers' gradients are added.
SUPPORTED = (
    "DPOptimizer",
    "DPPerLayerOptimizer",
    "AdaClipDPOptimizer",
    "DPOptimizerFastGradientClipping",
)


@dataclass(frozen=True)
class Mechanism:
    """How one step of DP-SGD bounds and hides the records.

    The gradient sent is ``(sum_i min(1, C / |g_i|) g_i + N(0, (sigma C)^2)) / d``: record i's
    gradient g_i, clipped to the norm C, noise on every entry, and a divisor d that does not depend
    on the batch drawn.

    Attributes:
        noise_multiplier: sigma, 0 or more; for adaptive clipping the multiplier of the gradient's
            noise, which is larger than the accountant's.
        max_grad_norm: C, the norm to which each record's gradient is clipped; with clipping per
            layer the norm of all the layers' bounds together.
        loss_reduction: ``"mean"`` or ``"sum"``.
        expected_batch_size: Records that Poisson sampling draws on average; None where a sum
            needs no such number.
        divisor: d: the expected batch size times the batches accumulated between two calls of
            ``zero_grad`` for a mean, 1 for a sum.
    """

    noise_multiplier: float
    max_grad_norm: float
    loss_reduction: str
    expected_batch_size: float | None
    divisor: float

    @property
    def noise(self) -> float:
        """Standard deviation of the noise in each entry of the gradient sent: sigma C / d.

        Example:
            >>> Mechanism(0.5, 2.0, "mean", 8, 8.0).noise
            0.125
        """
        return self.noise_multiplier * self.max_grad_norm / self.divisor

    def notes(self) -> dict[str, str]:
        """The mechanism as text, for the metadata of a file."""
        return {f"opacus.{name}": str(value) for name, value in asdict(self).items()}


def check_optimizer(optimizer: object) -> None:
    """Refuse what does not clip and add noise on this machine alone.

    Args:
        optimizer: What ``PrivacyEngine.make_private`` returned beside the model.

    Raises:
        InputError: It is no such optimizer, or one of several workers.
        MissingExtraError: Opacus is not installed.
    """
    optimizers: Any = require("opacus.optimizers", "opacus")
    # By exact type: a subclass may add its noise in another way.
    if type(optimizer) in {getattr(optimizers, name) for name in SUPPORTED}:
        return
    remedy = "pass the optimizer that PrivacyEngine.make_private returned"
    if isinstance(optimizer, optimizers.DPOptimizer):
        remedy = "record on one worker, without distributed training or changes to the optimizer"
    raise InputError(
        "optimizer", type(optimizer).__name__, "one of " + ", ".join(SUPPORTED), remedy
    )


def read_mechanism(optimizer: Any) -> Mechanism:
    """Read what an optimizer has just applied, from within its step hook.

    Args:
        optimizer: One that `check_optimizer` accepts. Read are ``noise_multiplier``,
            ``max_grad_norm``, ``loss_reduction``, ``expected_batch_size`` and
            ``accumulated_iterations``; for adaptive clipping ``unclipped_num_std`` or
            ``_adjusted_noise_multiplier`` (Opacus 1.6).

    Returns:
        The mechanism of this step; schedulers may change it from step to step.
    """
    divisor = 1.0
    if optimizer.loss_reduction == "mean":
        divisor = float(optimizer.expected_batch_size * optimizer.accumulated_iterations)
    return Mechanism(
        noise_multiplier=_applied_multiplier(optimizer),
        max_grad_norm=float(optimizer.max_grad_norm),
        loss_reduction=optimizer.loss_reduction,
        expected_batch_size=optimizer.expected_batch_size,
        divisor=divisor,
    )


def _applied_multiplier(optimizer: Any) -> float:
    """The multiplier of the gradient's noise.

    Adaptive clipping spends a part of the privacy budget on counting the records that are not
    clipped, and pays with (sigma^-2 - (2 sigma_u)^-2)^(-1/2) > sigma on the gradient.

    Source: Andrew et al., Differentially Private Learning with Adaptive Clipping, 2021, theorem 1.
    """
    sigma = float(optimizer.noise_multiplier)
    if hasattr(optimizer, "unclipped_num_std") and sigma > 0:
        counting = 2 * float(optimizer.unclipped_num_std)
        return float((sigma**-2 - counting**-2) ** -0.5)
    return float(getattr(optimizer, "_adjusted_noise_multiplier", sigma))
