"""Gradient matching on the whole network: one candidate for the batch, judged."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from gradaudit.budget import StoppedError
from gradaudit.certify.reconstruction import ReconstructionVerdict, judge_reconstruction
from gradaudit.evidence import Status
from gradaudit.gradient_matching import (
    METHODS,
    Match,
    Method,
    Target,
    UnsuitedError,
    is_piecewise_linear,
    make_target,
    match_gradient,
)
from gradaudit.layers import is_output
from gradaudit.linear.factor import factor_gradient
from gradaudit.outcome import Outcome
from gradaudit.outcome.matching import BatchSize, describe_match
from gradaudit.session.setup import Setup

# Unknowns up to which the judgement forms the derivative, to see whether the batch is the only one
# with its gradient: a minute's work at that size. With less time left, up to which it takes a
# second or so.
DENSE_UNKNOWNS, DENSE_SECONDS = 3072, 60.0
HURRIED_UNKNOWNS = 1024


@dataclass(frozen=True)
class MatchingAttack:
    """A search for a batch whose gradient is the observed one."""

    setup: Setup

    def run(self) -> Outcome:
        """Attack the network, or say why it cannot be."""
        setup = self.setup
        model = setup.network_of.model or setup.plan.guess.model
        if model is None:
            return Outcome(
                Status.NOT_APPLICABLE,
                "Gradient matching runs candidates through the network, and no network was given.",
                "Give the model.",
            )
        method = setup.method or METHODS[setup.attack]
        loss = setup.network_of.loss_function
        try:
            target = make_target(model, setup.update, loss, setup.knowledge, device=setup.place)
            size = self._batch_size()
            match = match_gradient(
                target,
                method,
                size.records,
                labels=setup.knowledge.labels,
                generator=setup.generator,
                control=setup.control,
            )
        except UnsuitedError as refused:
            return Outcome(Status.NOT_APPLICABLE, refused.cause, refused.remedy)
        except StoppedError as stopped:
            return Outcome(
                Status.BUDGET_EXHAUSTED,
                f"The batch size was not read from the gradient's rank: {stopped}.",
                "Allow more time, or give the batch size.",
            )
        started = time.perf_counter()
        verdict = self._verdict(target, match)
        spent = {"certification": time.perf_counter() - started}
        outcome = describe_match(
            match,
            verdict,
            method.name,
            size,
            self._notes(target, method),
            loss_given=setup.network_of.hypothesis.loss_given,
        )
        return replace(outcome, seconds={**match.seconds, **spent})

    def _batch_size(self) -> BatchSize:
        """As given, or the largest rank that a fully connected layer shows."""
        if self.setup.knowledge.records is not None:
            return BatchSize(self.setup.knowledge.records, "as given")
        ranks = []
        for layer, _ in self.setup.plan.linear:
            factors = factor_gradient(
                layer.weight_gradient.to(self.setup.place),
                generator=self.setup.generator,
                output_layer=is_output(self.setup.plan, layer),
                check=self.setup.control.check,
            )
            if factors.spectrum.has_gap and factors.rank:
                ranks.append((factors.rank, layer.name))
        if not ranks:
            raise UnsuitedError(
                "No fully connected layer shows the batch size by the rank of its gradient.",
                "Give the batch size.",
            )
        rank, name = max(ranks)
        return BatchSize(rank, f"by the rank of layer {name!r}")

    def _verdict(self, target: Target, match: Match) -> ReconstructionVerdict | None:
        if match.classes is None or self.setup.control.interrupted:
            return None
        control = self.setup.control
        control.report("certifying")
        return judge_reconstruction(
            target.loaded,
            self.setup.update,
            target.loss,
            match.records,
            match.classes,
            generator=self.setup.generator,
            stop=lambda: control.overtime_reason() is not None,
            dense_unknowns=DENSE_UNKNOWNS if control.has_time(DENSE_SECONDS) else HURRIED_UNKNOWNS,
        )

    def _notes(self, target: Target, method: Method) -> tuple[str, ...]:
        notes = []
        if method.optimiser == "lbfgs" and is_piecewise_linear(target):
            notes.append(
                "The network is linear in pieces, as with ReLU; the method was made for smooth "
                "ones, and L-BFGS often fails here."
            )
        if method.boxed and target.box is None:
            notes.append("The range of inputs is not known: candidates were not kept in any.")
        return tuple(notes)
