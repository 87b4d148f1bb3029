"""The problem that one layer of a random client's update poses, as an audit would pose it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from certify.drawn import Client, loss_of
from gradaudit.applicability import Refusal, attempts_for, inputs_refusal, refusal
from gradaudit.certify import Network, Verdict, certify
from gradaudit.layers import LayerPlan, is_output, plan_layers
from gradaudit.linear.factor import factor_gradient
from gradaudit.linear.problem import Problem, build_problem


@dataclass(frozen=True, eq=False)
class Posed:
    """A layer's problem as an audit would pose it, with what it does not know.

    Attributes:
        client: Whose update it is.
        problem: What is judged.
        true: Distinct inputs of the layer.
        columns: Their shares of dL/dZ, one a column, up to a factor; None after several steps.
        labels: Of the distinct ones; None where copies have several.
        network: As the audit would build it, or None.
        following: Product of the later layers' weights, if they are a chain.
    """

    client: Client
    problem: Problem
    true: Tensor
    columns: Tensor | None
    labels: Tensor | None
    network: Network | None
    sign: float
    total: float | None
    following: Tensor | None

    @property
    def scaled(self) -> bool:
        """Whether the records' scale can be known."""
        return self.problem.layer.bias_gradient is not None

    def proposed(self, records: Tensor) -> Tensor:
        """As a search would hand them on: unit vectors where their scale cannot be known."""
        if self.scaled:
            return records
        return records / records.norm(dim=1, keepdim=True).clamp(
            min=torch.finfo(torch.float64).tiny
        )

    def judge(self, records: Tensor, *, network: bool) -> Verdict:
        """As an audit would judge them."""
        return certify(
            self.problem,
            records,
            scale_identified=self.scaled,
            network=self.network if network else None,
            sign=self.sign,
            total=self.total,
            following=self.following,
        )


def pose(client: Client, *, layer: int = 0) -> list[Posed] | str:
    """The problems that a layer of a client's update poses, or why an audit would pose none.

    Args:
        client: Who sends the update.
        layer: Which of its fully connected layers, the first one first.
    """
    update, records, labels, model = client.send()
    plan = plan_layers(update)
    chosen, role = plan.linear[layer % len(plan.linear)]
    if inputs_refusal(update, chosen, plan.before(chosen)) is not None:
        return "several steps moved the layer's inputs"
    output = is_output(plan, chosen)
    generator = torch.Generator().manual_seed(client.seed)
    sign = 1.0 if update.delta is None else -1.0
    factors = factor_gradient(
        chosen.weight_gradient,
        generator=generator,
        output_layer=output,
        weight=chosen.weight if sign < 0 else None,
    )
    if refusal(chosen, factors, "auto") is not None:
        return "refused by the layer's spectrum"
    live = chosen.weight_gradient != 0
    settings = attempts_for(
        role,
        output,
        factors,
        live=(int(live.any(1).sum()), int(live.any(0).sum())),
        attack="auto",
    )
    if isinstance(settings, Refusal):
        return "refused by the layer's size"
    entered, columns = inside(model.double(), records, labels, chosen.name, client.loss)
    true, places = torch.unique(entered, dim=0, return_inverse=True)
    merged = torch.zeros(len(true), columns.shape[1], dtype=torch.float64)
    merged.index_add_(0, places, columns)
    names = [labels[places == j].unique() for j in range(len(true))]
    after = update.halfway() if update.several_steps else update
    return [
        Posed(
            client,
            build_problem(chosen, factors, setting),
            true,
            None if update.several_steps else merged.T,
            torch.cat(names) if all(len(one) == 1 for one in names) else None,
            Network(model, after, layer=chosen.name, loss=loss_of(client.loss)),
            sign,
            update.gradient_scale if client.factor == 1.0 else None,
            _following(plan, chosen.name),
        )
        for setting in settings
    ]


def inside(
    model: nn.Module, records: Tensor, labels: Tensor, layer: str, loss: str
) -> tuple[Tensor, Tensor]:
    """Inputs of a layer, and every record's gradient at its output."""
    seen: list[Tensor] = []

    def look(_: nn.Module, arguments: tuple[Tensor, ...], output: Tensor) -> None:
        seen.extend((arguments[0].detach(), output))

    handle = model.get_submodule(layer).register_forward_hook(look)
    losses = loss_of(loss)(model(records), labels, reduction="sum")
    handle.remove()
    return seen[0].flatten(1), torch.autograd.grad(losses, seen[1])[0].flatten(1)


def _following(plan: LayerPlan, name: str) -> Tensor | None:
    product: Tensor | None = None
    names = [layer.name for layer, _ in plan.linear]
    for layer, _ in reversed(plan.linear[names.index(name) + 1 :]):
        weight = layer.weight.double()
        if product is not None and product.shape[1] != len(weight):
            return None
        product = weight if product is None else product @ weight
    return product
