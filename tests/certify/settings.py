"""Small audited layers, with the truth beside them, for tests of what is certified."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from typing import Any

import jsonschema
import torch
from torch import Tensor, nn

from gradaudit.auditing import audit
from gradaudit.budget import Budget
from gradaudit.certify import Network, Verdict, certify
from gradaudit.clients import FedAvg, FedSGD
from gradaudit.linear.factor import factor_gradient
from gradaudit.linear.problem import Problem, Setting, build_problem
from gradaudit.models import mlp
from gradaudit.result import AuditResult
from gradaudit.truth import Truth
from gradaudit.update import LocalTraining, Update

SCHEMA = resources.files("gradaudit").joinpath("schema/audit_result.schema.json")
VALIDATOR = jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text(encoding="utf-8")))


def draw(count: int, features: int, seed: int) -> Tensor:
    """Records with a mean and correlated features, as real ones have."""
    generator = torch.Generator().manual_seed(seed)
    plain = torch.randn(count, features, generator=generator, dtype=torch.float64)
    mixing = torch.randn(features, features, generator=generator, dtype=torch.float64)
    mean = torch.randn(features, generator=generator, dtype=torch.float64)
    return plain + plain @ mixing / features**0.5 / 2 + mean / 2


@dataclass
class Case:
    """One layer of one update, ready to be judged."""

    update: Update
    truth: Truth
    model: nn.Module
    problem: Problem

    @property
    def inputs(self) -> Tensor:
        return self.truth.inputs.flatten(1).double()

    @cached_property
    def network(self) -> Network:
        update = self.update.halfway() if self.update.several_steps else self.update
        return Network(self.model, update, layer="fc1")

    def judge(self, records: Tensor, *, network: bool = False, scaled: bool = True) -> Verdict:
        following = None
        layers = list(self.update.linear_layers())
        for layer in layers[1:]:
            weight = layer.weight.double()
            following = weight if following is None else weight @ following
        return certify(
            self.problem,
            records,
            scale_identified=scaled,
            network=self.network if network else None,
            sign=1.0 if self.update.delta is None else -1.0,
            total=self.update.gradient_scale,
            following=following,
        )


def case(
    batch: int,
    *,
    neurons: int = 90,
    features: int = 40,
    classes: int = 10,
    hidden: tuple[int, ...] = (20,),
    seed: int = 0,
    dtype: str = "float64",
    rounded: str | None = None,
    labels: list[int] | None = None,
    bias: bool = True,
    activation: str = "relu",
    inputs: Tensor | None = None,
    training: LocalTraining | None = None,
    setting: Setting = Setting.SPARSE_GRADIENT,
) -> Case:
    """A client's update of one batch, or of local training, and its first layer's problem."""
    model = mlp(
        features,
        [neurons, *hidden],
        classes,
        bias=bias,
        activation=activation,
        seed=seed,
        dtype=dtype,
    )
    records = draw(batch, features, seed) if inputs is None else inputs
    client: FedAvg | FedSGD = FedSGD(model, gradient_dtype=rounded)
    if training is not None:
        client = FedAvg(model, training=training, gradient_dtype=rounded)
    update, truth = client.update(records, labels or [i % classes for i in range(batch)])
    layer = next(iter(update.linear_layers()))
    factors = factor_gradient(layer.weight_gradient, generator=torch.Generator().manual_seed(0))
    return Case(update, truth, model, build_problem(layer, factors, setting))


def errors(records: Tensor, truth: Tensor) -> Tensor:
    """Root mean square error of an entry, of each record to the nearest true one."""
    difference = (records[:, None] - truth[None]).square().mean(-1)
    return difference.amin(1).sqrt()


def never_wrong(
    result: AuditResult, inputs: Tensor, *, factor: float = 50.0, allowed: float = 0.0
) -> None:
    """Fail if a certified record of the first layer is not one of the batch.

    Args:
        result: Of an audit.
        inputs: What was in the batch.
        factor: Times its own estimate that a record's error may be.
        allowed: Error relative to the records' size that is not held against it either.
    """
    role = {layer.name: layer.role for layer in result.layers}.get(result.layer)
    if result.records is None or role != "input":
        return
    truth = inputs.flatten(1).double()
    if not result.scale_identified:
        truth = truth / truth.norm(dim=1, keepdim=True)
    found = errors(result.records, truth).tolist()
    size = float(truth.square().mean().sqrt())
    for evidence, error in zip(result.evidence, found, strict=True):
        if evidence.recovered:
            assert evidence.estimated_error is not None
            bound = max(factor * evidence.estimated_error, allowed * size)
            assert error <= bound, (error, evidence, result.certificate)


def audited(
    update: Update,
    truth: Truth,
    model: nn.Module | None = None,
    budget: Budget | None = None,
    *,
    allowed: float = 0.0,
    **options: Any,
) -> AuditResult:
    """Audit, and fail if what it certifies is wrong or if it has nothing to say."""
    result = audit(update, model=model, budget=budget, **options)
    valid(result)
    never_wrong(result, truth.inputs, allowed=allowed)
    return result


def valid(result: AuditResult) -> None:
    """Fail if a result has nothing to say, promises safety, or is not as its schema says."""
    assert result.cause
    assert result.remedy
    assert "safe" not in " ".join([result.cause, result.remedy, *result.assumptions]).split()
    value = result.to_json()
    VALIDATOR.validate(value)
    assert json.loads(json.dumps(value, allow_nan=False)) == value
