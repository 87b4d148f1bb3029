"""Hiding what a layer's gradient shows of the record's representation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from gradaudit.defenses.checks import check_number, check_text
from gradaudit.defenses.defense import RepresentationDefense
from gradaudit.errors import InputError

# How much the derivatives of one block of features may take.
BLOCK_BYTES = 2**27


@dataclass(frozen=True)
class Soteria(RepresentationDefense):
    """Compute one layer's weight gradient from a representation with entries set to zero.

    A fully connected layer's weight gradient is, of one record, delta r^T, where r is what enters
    the layer: the record's representation. Soteria replaces r there by r'::

        r'_i  =  0 for the share of the features with the largest |r_i| / |dr_i/dx|, else r_i

    These are the entries without which a record that is rebuilt from r' lies furthest from x. No
    other gradient changes: what layers before this one show of the record stays as it is.

    Attributes:
        share: Of the features, 0 to 1.
        layer: Name of a fully connected layer; empty for the model's last one.

    Raises:
        InputError: A value is out of its range.

    Source:
        Sun et al., Soteria: provable defense against privacy leakage in federated learning from
        representation perspective, 2021, section 4 (arXiv 2012.06043). The authors' code takes one
        choice of features for a whole batch, which at one record a batch is the same.

    Example:
        >>> from gradaudit.models import mlp
        >>> model, record = mlp(2, [3], 2, seed=1), torch.ones(1, 2)
        >>> before = {"fc2.weight": torch.ones(1, 2, 3)}
        >>> Soteria(0.34).on_representations(model, record, before)["fc2.weight"]
        tensor([[[1., 0., 1.],
                 [1., 0., 1.]]])
    """

    share: float
    layer: str = ""

    def __post_init__(self) -> None:
        check_number("share", self.share, 0, 1, open_below=False)
        check_text("layer", self.layer)

    def on_representations(
        self, model: nn.Module, inputs: Float[Tensor, "b ..."], gradients: Mapping[str, Tensor]
    ) -> dict[str, Tensor]:
        """See `RepresentationDefense.on_representations`."""
        name, layer = self._find(model)
        weight = f"{name}.weight" if name else "weight"
        if weight not in gradients:
            raise InputError(
                "layer", f"{name!r}, whose weight is not trained", "a layer that is trained"
            )
        hidden = self._hidden(*representations(model, layer, inputs))
        rows = gradients[weight]
        return {**gradients, weight: rows.masked_fill(hidden[:, None, :], 0)}

    def _find(self, model: nn.Module) -> tuple[str, nn.Linear]:
        known = {n: m for n, m in model.named_modules() if isinstance(m, nn.Linear)}
        if not known:
            raise InputError(
                "model", "no fully connected layer", "one, whose representation is hidden"
            )
        name = self.layer or list(known)[-1]
        if name not in known:
            raise InputError("layer", repr(name), f"one of {', '.join(known)}")
        return name, known[name]

    def _hidden(
        self, values: Float[Tensor, "b f"], slopes: Float[Tensor, "b f"]
    ) -> Bool[Tensor, "b f"]:
        """Which entries are set to zero."""
        # A feature that is zero hides nothing, whatever its slope.
        worth = torch.where(values == 0, 0.0, values.abs() / slopes)
        # A stable sort, and not top-k, which breaks ties differently from device to device.
        order = worth.argsort(dim=1, descending=True, stable=True)
        chosen = order[:, : round(self.share * values.shape[1])]
        return torch.zeros_like(values, dtype=torch.bool).scatter(1, chosen, value=True)


def representations(
    model: nn.Module, layer: nn.Module, inputs: Float[Tensor, "b ..."]
) -> tuple[Float[Tensor, "b f"], Float[Tensor, "b f"]]:
    """What enters a layer, and how far each feature moves with the record.

    Args:
        model: No layer may mix records.
        layer: One of the model's.
        inputs: Network inputs.

    Returns:
        Each record's features r_i, and the Euclidean norms of their derivatives dr_i/dx.

    Raises:
        InputError: It is not one vector a record that enters the layer, once.
    """
    seen: list[Tensor] = []
    hook = layer.register_forward_pre_hook(lambda _, entering: seen.append(entering[0]))
    try:
        with torch.enable_grad():
            records = inputs.detach().clone().requires_grad_()
            model(records)
    finally:
        hook.remove()
    shapes = [tuple(each.shape) for each in seen]
    if len(seen) != 1 or seen[0].ndim != 2 or len(seen[0]) != len(inputs):
        raise InputError(
            "layer",
            f"inputs of shape {', '.join(map(str, shapes)) or 'none'}",
            "one vector a record, which enters it once",
        )
    (values,) = seen
    count, features = values.shape
    of_one = records.numel() * records.element_size()
    slopes = []
    every = torch.eye(features, dtype=values.dtype, device=values.device)
    for block in torch.split(every, max(1, BLOCK_BYTES // of_one)):
        # Records do not mix, so that the derivative of a feature's sum is that of each record.
        (derivatives,) = torch.autograd.grad(
            values,
            records,
            block[:, None, :].expand(-1, count, -1),
            retain_graph=True,
            is_grads_batched=True,
        )
        slopes.append(torch.linalg.vector_norm(derivatives.flatten(2), dim=2).T)
    return values.detach(), torch.cat(slopes, dim=1)
