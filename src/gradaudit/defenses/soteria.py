"""Hiding what a layer's gradient shows of the record's representation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from gradaudit.defenses.checks import check_number, check_text
from gradaudit.defenses.defense import RepresentationDefense
from gradaudit.errors import InputError

# How much of a network's activations, for several features at a time, derivatives may take.
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
        share: Of the features, 0 to 1; rounded to whole features.
        layer: Name of a fully connected layer; empty for the one that is called last.

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
        known = {n: m for n, m in model.named_modules() if isinstance(m, nn.Linear)}
        if not known:
            raise InputError(
                "model", "no fully connected layer", "one, whose representation is hidden"
            )
        if self.layer and self.layer not in known:
            raise InputError("layer", repr(self.layer), f"one of {', '.join(known)}")
        chosen = {self.layer: known[self.layer]} if self.layer else known
        name, values, slopes = representations(model, chosen, inputs)
        weight = f"{name}.weight" if name else "weight"
        shared = sum(m.weight is known[name].weight for m in known.values()) > 1
        if weight not in gradients or shared:
            raise InputError(
                "layer",
                f"{name!r}, whose weight is " + ("shared" if shared else "no trained parameter"),
                "a layer with a weight of its own that is trained",
            )
        hidden = self._hidden(values, slopes)
        return {**gradients, weight: gradients[weight].masked_fill(hidden[:, None, :], 0)}

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
    model: nn.Module, layers: Mapping[str, nn.Module], inputs: Float[Tensor, "b ..."]
) -> tuple[str, Float[Tensor, "b f"], Float[Tensor, "b f"]]:
    """What enters a layer, and how far each feature moves with the record.

    Args:
        model: No layer may mix records.
        layers: Some of the model's by name; it is the one that is called last.
        inputs: Network inputs.

    Returns:
        The layer's name, each record's features r_i, and the Euclidean norms of their derivatives
        dr_i/dx: zero where they do not depend on the record.

    Raises:
        InputError: It is not one vector a record that enters the layer, once, and the same each
            time.
    """
    records = inputs.detach().clone().requires_grad_()
    name, values, saved = _entering(model, layers, records)
    if model.training and not torch.equal(values, _entering(model, layers, records)[1]):
        raise InputError(
            "model",
            f"a representation in front of layer {name!r} that is drawn anew at each pass",
            "one that is a function of the record, for Soteria",
            "leave train=False",
        )
    features, slopes = values.shape[1], []
    every = torch.eye(features, dtype=values.dtype, device=values.device)
    if not values.requires_grad:
        return name, values, torch.zeros_like(values)
    for block in torch.split(every, max(1, BLOCK_BYTES // max(saved, 1))):
        # Records do not mix, so that the derivative of a feature's sum is that of each record.
        derivatives: Tensor | None = torch.autograd.grad(
            values,
            records,
            block[:, None, :].expand(-1, len(values), -1),
            retain_graph=True,
            is_grads_batched=True,
            allow_unused=True,
        )[0]
        if derivatives is None:
            return name, values.detach(), torch.zeros_like(values).detach()
        slopes.append(torch.linalg.vector_norm(derivatives.flatten(2), dim=2).T)
    return name, values.detach(), torch.cat(slopes, dim=1)


def _entering(
    model: nn.Module, layers: Mapping[str, nn.Module], records: Float[Tensor, "b ..."]
) -> tuple[str, Float[Tensor, "b f"], int]:
    """The layer that is called last, what enters it, and the bytes that derivatives rest on."""
    seen: list[tuple[str, Tensor]] = []
    saved = 0

    def hook(name: str) -> Callable[[nn.Module, tuple[Tensor, ...], dict[str, Tensor]], None]:
        return lambda _, args, named: seen.append((name, (*args, *named.values())[0]))

    def count(tensor: Tensor) -> Tensor:
        nonlocal saved
        saved += tensor.numel() * tensor.element_size()
        return tensor

    hooks = [
        each.register_forward_pre_hook(hook(name), with_kwargs=True)
        for name, each in layers.items()
    ]
    try:
        with (
            torch.enable_grad(),
            torch.autograd.graph.saved_tensors_hooks(count, lambda tensor: tensor),
        ):
            model(records)
    finally:
        for each in hooks:
            each.remove()
    name = seen[-1][0] if seen else next(iter(layers))
    entered = [tensor for which, tensor in seen if which == name]
    if len(entered) != 1 or entered[0].ndim != 2 or len(entered[0]) != len(records):
        shapes = ", ".join(str(tuple(tensor.shape)) for tensor in entered)
        raise InputError(
            "layer",
            f"{name!r}, which is given shape {shapes}" if shapes else f"{name!r}, never called",
            "one vector a record, which enters it once",
        )
    return name, entered[0], saved
