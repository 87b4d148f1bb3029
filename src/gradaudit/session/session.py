"""One audit under way: layer by layer, keeping the best outcome."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timezone

import torch

from gradaudit.applicability import Refusal
from gradaudit.budget import Control
from gradaudit.evidence import LayerReport, SearchReport, Status
from gradaudit.outcome import Outcome, assumptions
from gradaudit.outcome.noisy import without_hidden_records
from gradaudit.outcome.pruned import explain_pruned
from gradaudit.outcome.sources import ATTACK as COCKTAIL_PARTY
from gradaudit.result import AuditResult
from gradaudit.session.features import estimate_inputs
from gradaudit.session.linear import LinearAttack
from gradaudit.session.matching import MatchingAttack
from gradaudit.session.place import machine, versions
from gradaudit.session.rgap import RGapAttack
from gradaudit.session.setup import Setup
from gradaudit.update import LinearLayer, Update


@dataclass
class Session:
    """One audit under way: visits layers and keeps the best outcome.

    Attributes:
        observed: What is audited, as it was observed.
        setup: What attacks work on: the same without the known term of weight decay.
        reports: Of the layers that were looked at.
        best: Outcome so far.
        above_noise: Records that some layer shows above noise, at most.
    """

    observed: Update
    setup: Setup
    reports: list[LayerReport] = field(default_factory=list)
    best: Outcome | None = None
    above_noise: int = 0

    def visit(self, layer: LinearLayer, role: str, *, wanted: bool) -> None:
        """Examine one layer, and attack it unless a leak is proven already."""
        if not wanted:
            self._note(layer, role, "Not asked for.")
            return
        if self.best is not None and (
            self.best.status.leak_proven or self.best.attack == COCKTAIL_PARTY
        ):
            gave = "records" if self.best.status.leak_proven else "estimates"
            self._note(
                layer,
                role,
                f"Not attacked: layer {self.best.layer!r} already gave {gave}; "
                f"name it to analyse it.",
            )
            return
        if self.setup.control.stop_reason() is not None:
            self._note(layer, role, "Not reached before the search had to end.")
            return
        outcome = explain_pruned(LinearAttack(self.setup).run(layer, role), layer)
        self.above_noise = max(self.above_noise, outcome.above_noise)
        outcome = without_hidden_records(outcome, self.above_noise)
        self._note(layer, role, outcome.cause, outcome)
        if self.best is None or outcome.rank() > self.best.rank():
            self.best = outcome

    def refuse(self, refused: Refusal) -> None:
        """Attack nothing, for a reason that lies in how the update came about."""
        self.best = Outcome(Status.NOT_APPLICABLE, refused.cause, refused.remedy)
        for layer, role in self.setup.plan.linear:
            self._note(layer, role, "Not attacked: no attack takes an update of this kind.")

    def attack_network(self) -> None:
        """Attack all layers together."""
        attack = RGapAttack if self.setup.attack == "rgap" else MatchingAttack
        self.best = attack(self.setup).run()
        for layer, role in self.setup.plan.linear:
            self._note(layer, role, "Not attacked by itself: this attack is on all layers.")

    def invert_features(self) -> None:
        """Estimate inputs from the features that the best outcome holds, if it holds any."""
        if self.best is not None:
            self.best = estimate_inputs(self.setup, self.best)

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
                analysed=outcome is not None and outcome.ran,
                outcome=outcome.status if outcome else None,
                reason=reason,
                spectrum=outcome.spectrum if outcome else None,
            )
        )

    def result(self) -> AuditResult:
        """The best outcome, with everything that was examined on the way."""
        outcome = self.best or _nothing_to_attack(self.setup.control)
        of_inputs = outcome.role == "input" or outcome.estimates_inputs
        others = tuple(
            LayerReport(name, shape, "other", False, None, reason)
            for name, shape, reason in self.setup.plan.other
        )
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
            layers=outcome.layers or tuple(self.reports) + others,
            search=self._search(outcome),
            assumptions=assumptions(outcome, self.observed, self.setup.network_of.hypothesis),
            preprocessing=self.setup.update.preprocessing if of_inputs else None,
            update_sha256=self.observed.sha256(),
            source=self.observed.source,
            created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        )

    def _search(self, outcome: Outcome) -> SearchReport:
        dtypes = {str(t.dtype).removeprefix("torch.") for t in self.observed.observed.values()}
        report = SearchReport(
            seed=self.setup.seed,
            device=str(self.setup.place),
            observed_dtype=", ".join(sorted(dtypes)),
            versions=versions(),
            machine=machine(self.setup.place),
            threads=torch.get_num_threads(),
            hurried=self.setup.control.hurried,
        )
        if not outcome.ran:
            return report
        return replace(
            report,
            attack=outcome.attack,
            reason=outcome.attack_reason,
            setting=outcome.setting,
            counters=outcome.counters,
            seconds={**outcome.seconds, "total": self.setup.control.elapsed_seconds},
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
