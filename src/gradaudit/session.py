"""One audit under way: layer by layer, from applicability to the best outcome."""

from __future__ import annotations

import platform
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone

import numpy as np
import scipy
import torch
from torch import Tensor, nn

from gradaudit.applicability import Refusal, attempts_for, proposers_for, refusal
from gradaudit.budget import Control
from gradaudit.certify import Network, Verdict, certify, certify_partial
from gradaudit.evidence import LayerReport, SearchReport, Status
from gradaudit.layers import LayerPlan, is_output
from gradaudit.linear.approximate import Approximation, approximate
from gradaudit.linear.closed_form import invert_single
from gradaudit.linear.disaggregate import Batch
from gradaudit.linear.factor import Factors, factor_gradient
from gradaudit.linear.invert import Inversion, invert
from gradaudit.linear.problem import Problem, build_problem
from gradaudit.linear.proposers import suited
from gradaudit.models.losses import AUTO, Loss, get_loss, usual_loss
from gradaudit.outcome import Hypothesis, Outcome, assumptions, describe
from gradaudit.result import AuditResult
from gradaudit.update import LinearLayer, Update
from gradaudit.version import __version__


@dataclass
class NetworkMaker:
    """Builds the network for one layer's certification: the given one, or the guess.

    The loss is the given one too, or else that which is usual for the outputs of a chain of layers.
    """

    update: Update
    plan: LayerPlan
    model: nn.Module | None
    loss: str | Loss | Callable[[Tensor, Tensor], Tensor]
    place: torch.device
    hypothesis: Hypothesis = field(init=False)

    def __post_init__(self) -> None:
        given = not isinstance(self.loss, str) or self.loss != AUTO
        self.loss = get_loss(self.loss if given else usual_loss(self._outputs()))
        self.hypothesis = Hypothesis(self.model is not None, self.loss.name, given)
        if self.model is not None and self.plan.linear:
            # A wrong model is bad input, and better said before a search than after it.
            self(self.plan.linear[0][0].name)

    def _outputs(self) -> int | None:
        guess = self.plan.guess
        if guess.model is None:
            return None
        return len(guess.model.get_parameter(f"{guess.layers[-1]}.weight".lstrip(".")))

    def __call__(self, layer: str) -> Network | None:
        """The network for records of one layer, or None where there is no model."""
        model = self.plan.guess.model if self.model is None else self.model
        if model is None:
            return None
        return Network(model, self.update, layer=layer, loss=self.loss, device=self.place)


@dataclass
class Session:
    """One audit under way: visits layers and keeps the best outcome."""

    update: Update
    plan: LayerPlan
    attack: str
    seed: int
    generator: torch.Generator
    control: Control
    network_of: NetworkMaker
    place: torch.device
    reports: list[LayerReport] = field(default_factory=list)
    best: Outcome | None = None

    def visit(self, layer: LinearLayer, role: str, *, wanted: bool) -> None:
        """Examine one layer, and attack it unless a leak is proven already."""
        if not wanted:
            self._note(layer, role, "Not asked for.")
            return
        if self.best is not None and self.best.status.leak_proven:
            self._note(
                layer,
                role,
                f"Not attacked: layer {self.best.layer!r} already gave records; "
                f"name it to analyse it.",
            )
            return
        if self.control.stop_reason() is not None:
            self._note(layer, role, "Not reached before the search had to end.")
            return
        self.control.report(f"layer {layer.name}: factoring the gradient")
        output = is_output(self.plan, layer)
        layer = _moved(layer, self.place)
        factors = factor_gradient(
            layer.weight_gradient, generator=self.generator, output_layer=output
        )
        outcome = self._attack(layer, role, output, factors)
        self._note(layer, role, outcome.cause, outcome)
        if self.best is None or outcome.rank() > self.best.rank():
            self.best = outcome

    def _attack(self, layer: LinearLayer, role: str, output: bool, factors: Factors) -> Outcome:
        refused = refusal(layer, factors, self.attack)
        if refused is not None:
            return _refused(layer, role, factors, refused)
        best: Outcome | None = None
        live = layer.weight_gradient != 0
        settings = attempts_for(
            role,
            output,
            factors,
            live=(int(live.any(1).sum()), int(live.any(0).sum())),
            attack=self.attack,
        )
        if isinstance(settings, Refusal):
            return _refused(layer, role, factors, settings)
        for place, setting in enumerate(settings):
            problem = build_problem(layer, factors, setting)
            share = 1.0 / (len(settings) - place)
            outcome = self._attempt(problem, role, self.control.share(share))
            if best is None or outcome.rank() > best.rank():
                best = outcome
            if best.status.leak_proven or self.control.stop_reason() is not None:
                break
        assert best is not None  # noqa: S101 - every role has a setting
        return best

    def _attempt(self, problem: Problem, role: str, control: Control) -> Outcome:
        proposers = suited(proposers_for(self.attack, problem.setting, problem.batch_size), problem)
        if problem.batch_size == 1:
            inversion = invert_single(problem)
        else:
            inversion = invert(
                problem,
                proposer=proposers,
                generator=self.generator,
                control=control,
                accept=lambda batch: (
                    self._judge(problem, batch, None).recovered == len(batch.records)
                ),
            )
        verdict = None
        if inversion.batch is not None:
            control.report(f"layer {problem.layer.name}: certifying")
            verdict = self._judge(problem, inversion.batch, self._network(problem))
            return describe(problem, role, inversion, verdict, proposers)
        verdict, estimates = self._parts(problem, inversion)
        return describe(problem, role, inversion, verdict, proposers, approximation=estimates)

    def _parts(
        self, problem: Problem, inversion: Inversion
    ) -> tuple[Verdict | None, Approximation | None]:
        """What can be said of single records when directions are missing."""
        directions, part = inversion.directions, inversion.partial
        if directions is None:
            return None, None
        self.control.report(f"layer {problem.layer.name}: what is known of single records")
        wanted = torch.ones(len(directions), dtype=torch.bool, device=directions.device)
        verdict = None
        if part is not None:
            verdict = certify_partial(
                problem,
                part,
                missing=problem.batch_size - len(directions),
                network=self._network(problem),
                image_shape=self._image_shape(),
                sign=self._sign(),
            )
            # The part's directions are some of the same, row by row.
            proven = part.directions[[record.recovered for record in verdict.evidence]]
            wanted = ~(directions[:, None] == proven[None]).all(2).any(1)
        return verdict, approximate(
            problem,
            directions,
            wanted,
            generator=self.generator,
            interrupted=lambda: self.control.interrupted,
        )

    def _network(self, problem: Problem) -> Network | None:
        return self.network_of(problem.layer.name)

    def _judge(self, problem: Problem, batch: Batch, network: Network | None) -> Verdict:
        return certify(
            problem,
            batch.records,
            scale_identified=batch.scale_identified,
            network=network,
            image_shape=self._image_shape(),
            sign=self._sign(),
            total=self._total_weight(),
            following=self._following(problem.layer.name),
        )

    def _image_shape(self) -> tuple[int, ...] | None:
        preprocessing = self.update.preprocessing
        return preprocessing.image_shape if preprocessing else None

    def _sign(self) -> float:
        return 1.0 if self.update.observed_kind == "gradient" else -1.0

    def _total_weight(self) -> float | None:
        """What the update multiplies a mean gradient by, if it is what it says it is."""
        if self.update.observed_kind == "gradient":
            return 1.0
        rate = self.update.step.learning_rate
        return None if rate is None else -rate

    def _following(self, name: str) -> Tensor | None:
        """The linear function that the later layers would be without activations."""
        names = [layer.name for layer, _ in self.plan.linear]
        product: Tensor | None = None
        # From the outputs backwards: they are few, and so are the product's rows all the way.
        for layer, _ in reversed(self.plan.linear[names.index(name) + 1 :]):
            weight = layer.weight.to(self.place, torch.float64)
            if product is not None and product.shape[1] != len(weight):
                return None
            product = weight if product is None else product @ weight
        return product

    def _note(
        self,
        layer: LinearLayer,
        role: str,
        reason: str,
        outcome: Outcome | None = None,
    ) -> None:
        self.reports.append(
            LayerReport(
                layer.name,
                layer.shape,
                role,
                analysed=outcome is not None and outcome.inversion is not None,
                outcome=outcome.status if outcome else None,
                reason=reason,
                spectrum=outcome.spectrum if outcome else None,
            )
        )

    def result(self) -> AuditResult:
        """The best outcome, with everything that was examined on the way."""
        others = tuple(
            LayerReport(name, shape, "other", False, None, reason)
            for name, shape, reason in self.plan.other
        )
        outcome = self.best or _nothing_to_attack(self.control)
        return AuditResult(
            status=outcome.status,
            cause=outcome.cause,
            remedy=outcome.remedy,
            layer=outcome.layer,
            batch_size=outcome.batch_size,
            spectrum=outcome.spectrum,
            records=outcome.records,
            activation_gradients=outcome.gradients,
            scale_identified=outcome.scale_identified,
            approximate_records=outcome.approximate_records,
            approximate_evidence=outcome.approximate_evidence,
            evidence=outcome.evidence,
            certificate=outcome.certificate,
            layers=tuple(self.reports) + others,
            search=self._search(outcome),
            assumptions=assumptions(outcome, self.update, self.network_of.hypothesis),
            preprocessing=self.update.preprocessing if outcome.role == "input" else None,
            update_sha256=self.update.sha256(),
            source=self.update.source,
            created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        )

    def _search(self, outcome: Outcome) -> SearchReport:
        inversion: Inversion | None = outcome.inversion
        dtypes = {str(t.dtype).removeprefix("torch.") for t in self.update.observed.values()}
        report = SearchReport(
            seed=self.seed,
            device=str(self.place),
            observed_dtype=", ".join(sorted(dtypes)),
            versions={
                "gradaudit": __version__,
                "torch": torch.__version__,
                "numpy": np.__version__,
                "scipy": scipy.__version__,
                "python": platform.python_version(),
            },
        )
        if inversion is None:
            return report
        return replace(
            report,
            attack=outcome.attack,
            reason=outcome.attack_reason,
            setting=outcome.setting,
            counters={**inversion.counters, **outcome.not_estimated},
            seconds={**inversion.seconds, "total": self.control.elapsed_seconds},
        )


def _moved(layer: LinearLayer, place: torch.device) -> LinearLayer:
    bias, change = layer.bias, layer.bias_gradient
    return LinearLayer(
        layer.name,
        layer.weight.to(place),
        None if bias is None else bias.to(place),
        layer.weight_gradient.to(place),
        None if change is None else change.to(place),
    )


def _refused(layer: LinearLayer, role: str, factors: Factors, refused: Refusal) -> Outcome:
    spectrum = factors.spectrum
    return Outcome(
        status=Status.NOT_APPLICABLE,
        cause=refused.cause,
        remedy=refused.remedy,
        layer=layer.name,
        role=role,
        batch_size=factors.rank if spectrum.has_gap else None,
        spectrum=spectrum,
    )


def _nothing_to_attack(control: Control) -> Outcome:
    stopped = control.stop_reason()
    if stopped is not None:
        return Outcome(
            Status.BUDGET_EXHAUSTED, f"Before any layer was reached: {stopped}.", "Allow more time."
        )
    return Outcome(
        Status.NOT_APPLICABLE,
        "The update has no fully connected layer.",
        "Capture the fully connected layers too; convolutions need another attack.",
    )
