"""Records as independent sources: an estimate of a batch that is too large to solve exactly."""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from gradaudit.budget import Control
from gradaudit.linear.factor import Factors
from gradaudit.linear.independence import fast_ica, negentropy, whiten

STEPS = 1000
LEARNING_RATE = 1e-2
# Weights of the terms beside the negentropy, for components of unit variance; chosen on CIFAR-10
# at batches of 8 to 100. Natural images: neighbours differ little. Mutual independence: no two
# components alike, while a moderate correlation, which images have, costs nearly nothing.
SMOOTHNESS = 3.0
INDEPENDENCE = 0.1
SHARPNESS = 16.0
# Components of two starts that agree to this cosine are one that the data determine.
AGREEMENT = 0.99


@dataclass(frozen=True, eq=False)
class Sources:
    """Estimated records; how far off they are is unknown.

    Attributes:
        records: One a row, in the network's input units if the scale is identified.
        scale_identified: Whether the bias gradient told scale and sign; unit vectors of unknown
            sign otherwise.
        stable: Whether another random start led to the same estimate. A likely record is stable; a
            stable estimate may still be wrong, as records are not quite independent.
        stopped: Why the search ended early; empty if it did not.
        counters: What was counted.
        seconds: Time by phase.
    """

    records: Float[Tensor, "b n"]
    scale_identified: bool
    stable: Bool[Tensor, " b"]
    stopped: str
    counters: dict[str, float]
    seconds: dict[str, float]


def cocktail_party(
    factors: Factors,
    bias_gradient: Float[Tensor, " m"] | None,
    *,
    image_shape: tuple[int, int, int] | None,
    generator: torch.Generator,
    control: Control,
) -> Sources:
    r"""Unmix a linear layer's gradient into records, taken as independent sources.

    The rows of :math:`\partial L / \partial W = \sum_i g_i x_i^T` are mixtures of the records x.
    The components w of its whitened right factor maximise

    .. math:: J(w) - \alpha \, TV(w) - \beta \, \frac{1}{b-1} \sum_{j \ne i} (e^{T |w_i^T w_j|} - 1)

    from FastICA's result, with J the negentropy and TV the total variation where records are
    images. With the bias gradient :math:`\sum_i g_i`, a record :math:`V c` has
    :math:`c \cdot S^{-1} U^T \partial L / \partial b = 1`, which fixes its scale and sign.

    Args:
        factors: Of the layer's gradient; their rank is the batch size.
        bias_gradient: Of the same layer, or None.
        image_shape: Of a record, if it is an image.
        generator: Of the starts; on the factors' device.
        control: Stops the search, which returns what it has.

    Source:
        Cocktail Party attack (arXiv 2209.05578), whose contrast and penalties these are; the start
        by FastICA, the scale from the bias, the second start and the weights are ours.

    Example:
        >>> from gradaudit.linear.factor import factor_gradient
        >>> g = torch.Generator().manual_seed(0)
        >>> records = torch.rand(2, 400, generator=g, dtype=torch.float64)
        >>> sent = torch.randn(30, 2, generator=g, dtype=torch.float64)
        >>> factors = factor_gradient(sent @ records, generator=g)
        >>> found = cocktail_party(
        ...     factors, sent.sum(1), image_shape=None, generator=g, control=Control()
        ... ).records
        >>> bool(torch.cdist(found, records).min(0).values.max() < 1.5)
        True
    """
    started = time.perf_counter()
    white = whiten(factors.right)
    draws: list[Tensor] = []
    steps, stopped = 0, ""
    for number in (1, 2):
        start = torch.randn(
            (factors.rank, factors.rank),
            generator=generator,
            dtype=torch.float64,
            device=white.samples.device,
        )
        rows = fast_ica(white.samples, start)
        rows, done, stopped = _descend(white.samples, rows, image_shape, control, number)
        steps += done
        draws.append(rows)
        if stopped:
            break
    rows = draws[0]
    agreement = (rows @ draws[-1].T).abs().max(1).values if len(draws) > 1 else rows.new_zeros(())
    coefficients = white.coefficients(rows)
    if bias_gradient is None:
        records = coefficients @ factors.right.T
        records = records / records.norm(dim=1, keepdim=True)
    else:
        scale = coefficients @ ((factors.left.T @ bias_gradient.double()) / factors.values)
        records = (coefficients / scale[:, None]) @ factors.right.T
    return Sources(
        records=records,
        scale_identified=bias_gradient is not None,
        stable=(agreement >= AGREEMENT).expand(len(rows)),
        stopped=stopped,
        counters={"iterations": float(steps), "starts": float(len(draws))},
        seconds={"unmix": time.perf_counter() - started},
    )


def _descend(
    samples: Float[Tensor, "n b"],
    rows: Float[Tensor, "b b"],
    image_shape: tuple[int, int, int] | None,
    control: Control,
    number: int,
) -> tuple[Float[Tensor, "b b"], int, str]:
    """Adam on the whole objective; rows stay of unit length, but need not stay orthogonal."""
    free = rows.clone().requires_grad_()
    optimiser = torch.optim.Adam([free], LEARNING_RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, STEPS)
    others = 1 - torch.eye(len(rows), dtype=rows.dtype, device=rows.device)
    stopped, done = "", 0
    for done in range(STEPS):
        stopped = control.stop_reason() or ""
        if stopped:
            break
        if done % 50 == 0:
            control.report(f"unmixing, start {number}", tried=done, wanted=STEPS)
        unit = free / free.norm(dim=1, keepdim=True)
        components = samples @ unit.T
        alike = torch.exp(SHARPNESS * (unit @ unit.T).abs()) - 1
        value = INDEPENDENCE * (others * alike).sum() / max(len(rows) - 1, 1)
        value = value - negentropy(components).sum()
        if image_shape is not None:
            value = value + SMOOTHNESS * _roughness(components, image_shape).sum()
        optimiser.zero_grad()
        value.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        schedule.step()
    unit = free.detach()
    return unit / unit.norm(dim=1, keepdim=True), done + (not stopped), stopped


def _roughness(
    components: Float[Tensor, "n b"], image_shape: tuple[int, int, int]
) -> Float[Tensor, " b"]:
    """Mean absolute difference of neighbouring pixels, along rows plus along columns."""
    images = components.T.reshape(-1, *image_shape)
    down = (images[..., 1:, :] - images[..., :-1, :]).abs().mean((1, 2, 3))
    right = (images[..., 1:] - images[..., :-1]).abs().mean((1, 2, 3))
    return down + right
