"""The attack on one linear layer, from applicability to the judgement of what it found."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from gradaudit.applicability import (
    Refusal,
    attempts_for,
    inputs_refusal,
    proposers_for,
    refusal,
)
from gradaudit.budget import Control, StoppedError
from gradaudit.certify import Network, Verdict, certify, certify_partial
from gradaudit.evidence import Status
from gradaudit.layers import is_output
from gradaudit.linear.approximate import Approximation, approximate
from gradaudit.linear.blocks import home_of, live_lines, transposed_times
from gradaudit.linear.closed_form import invert_single
from gradaudit.linear.cocktail_party import cocktail_party
from gradaudit.linear.disaggregate import Batch
from gradaudit.linear.factor import Factors, factor_gradient, is_streamed
from gradaudit.linear.invert import Inversion, invert
from gradaudit.linear.problem import Problem, build_problem
from gradaudit.linear.proposers import suited
from gradaudit.outcome import Outcome, describe
from gradaudit.outcome.sources import ATTACK as COCKTAIL_PARTY
from gradaudit.outcome.sources import describe_sources
from gradaudit.outcome.stopped import not_factored
from gradaudit.session.noisy import NoisyAttack
from gradaudit.session.setup import Setup
from gradaudit.update import LinearLayer


@dataclass(frozen=True)
class LinearAttack:
    """The search through one linear layer after another."""

    setup: Setup

    def run(self, layer: LinearLayer, role: str) -> Outcome:
        """Attack one layer, or say why it cannot be.

        Args:
            layer: As observed.
            role: ``"input"``, ``"interior"`` or ``"output"``.
        """
        moved = inputs_refusal(self.setup.update, layer, self.setup.plan.before(layer))
        if moved is not None:
            return Outcome(Status.NOT_APPLICABLE, moved.cause, moved.remedy, layer.name, role)
        self.setup.control.report(f"layer {layer.name}: factoring the gradient")
        output = is_output(self.setup.plan, layer)
        layer = _moved(layer, self.setup)
        try:
            factors = factor_gradient(
                layer.weight_gradient,
                generator=self.setup.generator,
                output_layer=output,
                weight=layer.weight if self.setup.sign < 0 else None,
                memory=self.setup.control.budget.memory,
                check=self.setup.control.check,
            )
        except StoppedError as stopped:
            return not_factored(layer.name, role, str(stopped))
        noisy = NoisyAttack(self.setup)
        outcome = self._with_or_without_noise(noisy, layer, factors, role)
        return replace(outcome, unseen_noise=noisy.unseen(layer, factors))

    def _with_or_without_noise(
        self, noisy: NoisyAttack, layer: LinearLayer, factors: Factors, role: str
    ) -> Outcome:
        """What the better of the two searches came to, the likelier one first."""
        suits = noisy.suits(layer, factors, role)
        strong = noisy.comes_first(factors)
        known = noisy.known(layer, factors)
        outcome: Outcome | None = None
        # Noise that is known and there is what the update is made of, however weak it is.
        if suits and (strong or known):
            outcome = noisy.run(layer, factors, role)
            if outcome.status is Status.RECOVERED or (
                strong and (outcome.status.leak_proven or known or not factors.spectrum.has_gap)
            ):
                return outcome
        exact = self._exact(layer, role, factors)
        if suits and outcome is None and not exact.status.leak_proven:
            outcome = noisy.run(layer, factors, role)
        if outcome is None or outcome.rank() > exact.rank():
            return outcome or exact
        return replace(exact, above_noise=outcome.above_noise)

    def _exact(self, layer: LinearLayer, role: str, factors: Factors) -> Outcome:
        """Records from zeros that stand out, or why there are none."""
        refused = refusal(layer, factors, self.setup.attack)
        if refused is not None:
            return _refused(layer, role, factors, refused)
        if self.setup.attack == COCKTAIL_PARTY:
            return self._unmix(layer, role, factors)
        best: Outcome | None = None
        live_rows, live_columns = live_lines(layer.weight_gradient)
        settings = attempts_for(
            role,
            is_output(self.setup.plan, layer),
            factors,
            live=(int(live_rows.sum()), int(live_columns.sum())),
            attack=self.setup.attack,
        )
        if isinstance(settings, Refusal):
            return _refused(layer, role, factors, settings)
        for place, setting in enumerate(settings):
            problem = build_problem(layer, factors, setting)
            share = 1.0 / (len(settings) - place)
            outcome = self._attempt(problem, role, self.setup.control.share(share))
            if best is None or outcome.rank() > best.rank():
                best = outcome
            if best.status.leak_proven or self.setup.control.stop_reason() is not None:
                break
        assert best is not None  # noqa: S101 - every role has a setting
        return best

    def _unmix(self, layer: LinearLayer, role: str, factors: Factors) -> Outcome:
        """Separate records as independent sources; estimates, which nothing judges."""
        shape = self.setup.image_shape
        fits = shape is not None and math.prod(shape) == layer.shape[1]
        sources = cocktail_party(
            factors,
            layer.bias_gradient,
            image_shape=shape if fits else None,
            generator=self.setup.generator,
            control=self.setup.control,
        )
        return describe_sources(layer.name, role, factors, sources)

    def _attempt(self, problem: Problem, role: str, control: Control) -> Outcome:
        proposers = suited(
            proposers_for(self.setup.attack, problem.setting, problem.batch_size), problem
        )
        if problem.batch_size == 1:
            inversion = invert_single(problem)
        else:
            inversion = invert(
                problem,
                proposer=proposers,
                generator=self.setup.generator,
                control=control,
                accept=lambda batch: self._accepted(problem, batch),
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
        self.setup.control.report(f"layer {problem.layer.name}: what is known of single records")
        wanted = torch.ones(len(directions), dtype=torch.bool, device=directions.device)
        verdict = None
        if part is not None:
            verdict = certify_partial(
                problem,
                part,
                missing=problem.batch_size - len(directions),
                # Parts are proven by the network's own gradient, which several steps do not have.
                network=None if problem.layer.several_steps else self._network(problem),
                image_shape=self.setup.image_shape,
                sign=self.setup.sign,
            )
            # The part's directions are some of the same, row by row.
            proven = part.directions[[record.recovered for record in verdict.evidence]]
            wanted = ~(directions[:, None] == proven[None]).all(2).any(1)
        return verdict, approximate(
            problem,
            directions,
            wanted,
            generator=self.setup.generator,
            stopped=self.setup.control.overtime_reason,
        )

    def _network(self, problem: Problem) -> Network | None:
        return self.setup.network_of(problem.layer.name)

    def _accepted(self, problem: Problem, batch: Batch) -> bool:
        """Whether a search may end: the layer's own gradient and zeros speak for every record."""
        scaled = batch.scale_identified
        verdict = certify(problem, batch.records, scale_identified=scaled, sign=self.setup.sign)
        return verdict.recovered == len(batch.records)

    def _judge(self, problem: Problem, batch: Batch, network: Network | None) -> Verdict:
        return certify(
            problem,
            batch.records,
            scale_identified=batch.scale_identified,
            network=network,
            image_shape=self.setup.image_shape,
            sign=self.setup.sign,
            total=self.setup.total_weight,
            following=self._following(problem.layer.name),
        )

    def _following(self, name: str) -> Tensor | None:
        """The linear function that the later layers would be without activations."""
        names = [layer.name for layer, _ in self.setup.plan.linear]
        product: Tensor | None = None
        # From the outputs backwards: they are few, and so are the product's rows all the way.
        for layer, _ in reversed(self.setup.plan.linear[names.index(name) + 1 :]):
            if product is None:
                product = layer.weight.to(self.setup.place, torch.float64)
            elif product.shape[1] != len(layer.weight):
                return None
            else:
                product = transposed_times(layer.weight, product.T).T
        return product


def _moved(layer: LinearLayer, setup: Setup) -> LinearLayer:
    """The layer on the device; matrices that do not fit there are left to be read in blocks."""
    bias, change, place = layer.bias, layer.bias_gradient, setup.place
    matrices = place
    if is_streamed(layer.weight_gradient, setup.control.budget.memory):
        matrices = home_of(layer.weight_gradient, place, copies=2)
    return replace(
        layer,
        weight=layer.weight.to(matrices),
        bias=None if bias is None else bias.to(place),
        weight_gradient=layer.weight_gradient.to(matrices),
        bias_gradient=None if change is None else change.to(place),
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
