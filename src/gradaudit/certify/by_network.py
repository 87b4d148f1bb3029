"""What the whole network says about records: labels, copies, and the gradient of all layers."""

from __future__ import annotations

from dataclasses import replace

from jaxtyping import Float
from torch import Tensor

from gradaudit.certify.curvature import curvature
from gradaudit.certify.forward import Forward
from gradaudit.certify.labels import Labelling, best_labels, count_copies, fit_classes
from gradaudit.certify.layer import LayerEvidence
from gradaudit.certify.multiples import multiples_show
from gradaudit.certify.network import Network
from gradaudit.certify.single import SINGLE_SPREAD, VISIBLE_FACTOR
from gradaudit.evidence import Certificate, Check, RecordEvidence
from gradaudit.linear.problem import Problem
from gradaudit.linear.tolerances import (
    COPIES_TOLERANCE,
    GRADIENT_RELATIVE_LIMIT,
    GRADIENT_ROUNDINGS,
    RECORD_RELATIVE_ERROR,
    RESIDUAL_FACTOR,
)

# Copies of the rarest record, where copies must tell one record from a mean of several: with
# more, any proportion is nearly that of whole numbers.
LARGEST_BASE = 4
# The same where copies are only counted.
LARGEST_COPIES = 8
# Share of all numbers that may pass for whole where whole ones speak for a record: of large ones,
# known to a part of them, every one would.
CHANCE_WHOLE = 0.05


class NetworkJudge:
    """Certification by the whole network.

    Args:
        problem: The layer.
        records: Proposed records.
        found: What the layer says about them.
        network: Prepared for these records.
        sign: 1 for a gradient, -1 for a difference of weights.
        total: What the weights of all records sum to if the update is what it says: 1 for a mean
            gradient, minus a known learning rate; None when unknown.
    """

    def __init__(
        self,
        problem: Problem,
        records: Float[Tensor, "b n"],
        found: LayerEvidence,
        network: Network,
        *,
        sign: float,
        total: float | None,
    ) -> None:
        self._records, self._found, self._network = records, found, network
        self._weighed = total is not None or len(records) > 1
        self._curvatures: dict[int, float] = {}
        noise = RESIDUAL_FACTOR * found.relative_noise
        rounding = GRADIENT_ROUNDINGS * problem.observed_eps
        self._tolerances = (noise + rounding).clamp(max=GRADIENT_RELATIVE_LIMIT)
        forward = network.forward(records)
        fits = fit_classes(forward, found.gradients, sign=sign, tolerances=self._tolerances)
        self._read(best_labels(fits, sign), total)
        self._swapped = False
        if not self.all_matched or not self._whole:
            self._read(best_labels(fits, -sign), total)
            self._swapped = self.all_matched and self._copies is not None and self._whole
            if not self._swapped:
                self._read(best_labels(fits, sign), total)
        self._check = self._full_gradient_check(forward)

    def _read(self, labelling: Labelling, total: float | None) -> None:
        self._labelling = labelling
        self._curvatures.clear()
        self._matched = labelling.residuals <= self._tolerances
        self._one_direction = labelling.rivals <= self._tolerances
        self._copies: Tensor | None = None
        self._factor: float | None = None
        self._whole = True
        if not self.all_matched:
            return
        narrow = bool(self._one_direction.any())
        tolerance = min(float(self._tolerances.max()), COPIES_TOLERANCE)
        largest = LARGEST_BASE if narrow else LARGEST_COPIES
        copies = count_copies(labelling.weights, tolerance=tolerance, largest=largest)
        if copies is not None:
            self._copies, self._factor = copies
        if narrow:
            self._whole = copies is not None and float(copies[0].max()) * tolerance <= CHANCE_WHOLE
            if self._whole and len(labelling.weights) == 1 and total is not None:
                ratio = float(labelling.weights[0]) / total
                error = tolerance * ratio
                self._whole = ratio > 0.5 and abs(ratio - round(ratio)) <= error <= CHANCE_WHOLE

    @property
    def all_matched(self) -> bool:
        """Whether every record reproduces its share of the gradient for some class."""
        return bool(self._matched.all())

    @property
    def contradiction(self) -> str:
        """That a network which is known, not guessed, has another gradient; empty otherwise."""
        if not self._network.given or self.all_matched:
            return ""
        return (
            "The network that was given does not have this gradient at the record, under the loss "
            f"{self._network.loss.name}: name the client's loss, if that is another."
        )

    def confirms(self, j: int) -> bool:
        """Whether a record reproduces its share of the gradient, in a direction of its own."""
        return bool(self._matched[j]) and not self._is_flat(j)

    def is_flat(self, j: int) -> bool:
        """Whether all records alike share its direction, as before two classes or one logit."""
        return self.all_matched and self._is_flat(j)

    def _is_flat(self, j: int) -> bool:
        limit = VISIBLE_FACTOR * self._found.left_over
        return bool(self._one_direction[j]) and self.trace_of_two(j, SINGLE_SPREAD) <= limit

    def tells_multiples(self, j: int) -> bool:
        """Whether multiples of a record, in its place, would have been seen."""
        return multiples_show(
            self._network,
            self._records[j],
            self._labelling.labels[j],
            tolerance=min(float(self._tolerances.max()), COPIES_TOLERANCE),
            weighed=self._weighed,
        )

    @property
    def whole(self) -> bool:
        """Whether the records' weights are those of whole records."""
        return self._whole

    def trace_of_two(self, j: int, spread: float) -> float:
        r"""What two records around a record, of its class, would leave of rank two, at least.

        Records :math:`x \pm d` leave :math:`w (g(x + d) - g(x - d)) d^T / 2` that one record does
        not, except for what is a multiple of :math:`g(x) d^T`. By the derivative at x, as if no
        neuron changed its activation; the smallest norm over some random d.

        Args:
            j: Which record.
            spread: Size of d, relative to the record's.
        """
        if j not in self._curvatures:
            self._curvatures[j] = curvature(
                self._network, self._records[j], self._labelling.labels[j]
            )
        gradient = self._found.gradients[:, j].norm() * self._records[j].norm()
        return self._curvatures[j] * spread**2 * float(gradient)

    def _error_allowed(self, j: int) -> float:
        """Error of a record, per entry, that its activation gradient's tolerance would not show."""
        record = self._records[j]
        unit = self.trace_of_two(j, 1.0) / float(self._found.gradients[:, j].norm() * record.norm())
        size = float(record.square().mean().sqrt())
        return float(self._tolerances[j]) * size / unit if unit else float("inf")

    def evidence(self, evidence: list[RecordEvidence]) -> list[RecordEvidence]:
        """Add labels, copies and residuals; certify what the network alone proves."""
        explained = all(check.passed for check in self._found.checks)
        size = self._records.square().mean(1).sqrt()
        result = []
        for j, record in enumerate(evidence):
            residual = float(self._labelling.residuals[j])
            matched = bool(self._matched[j])
            told = float(self._labelling.namesakes[j]) > float(self._tolerances[j])
            labelled = matched and told and (not bool(self._one_direction[j]) or self._whole)
            error = record.estimated_error or 0.0
            alone = False
            if not record.recovered and explained and self.confirms(j):
                error = max(error, self._error_allowed(j))
                alone = (
                    error <= RECORD_RELATIVE_ERROR * float(size[j])
                    and self.trace_of_two(j, SINGLE_SPREAD) > VISIBLE_FACTOR * self._found.left_over
                )
            proven = record.recovered or alone
            result.append(
                replace(
                    record,
                    recovered=proven,
                    activation_gradient_residual=residual,
                    estimated_error=error,
                    label=int(self._labelling.labels[j]) if labelled else None,
                    copies=int(self._copies[j]) if self._copies is not None else None,
                    reason="" if proven else record.reason,
                )
            )
        return result

    def certificate(self, layer: Certificate, evidence: list[RecordEvidence]) -> Certificate:
        """The strongest statement that holds."""
        checks = layer.checks + (() if self._check is None else (self._check,))
        if self._complete and all(record.recovered for record in evidence):
            return Certificate(
                "full_gradient",
                "The full gradient of all layers, recomputed from the recovered records and "
                "labels, is the observed one down to rounding or noise.",
                checks,
            )
        if layer.kind == "none" and any(record.recovered for record in evidence):
            return Certificate(
                "activation_gradient",
                "The network, run on each certified record, reproduces that record's own share of "
                "the gradient.",
                checks,
            )
        return replace(layer, checks=checks)

    @property
    def _complete(self) -> bool:
        return self._check is not None and self._check.passed and self._whole

    def _full_gradient_check(self, forward: Forward) -> Check | None:
        if not self.all_matched:
            return None
        pairs = forward.full_gradient(self._labelling.labels, self._labelling.weights).values()
        difference = sum(float((mine - theirs).square().sum()) for mine, theirs in pairs)
        total = sum(float(theirs.square().sum()) for _, theirs in pairs)
        residual = (difference / total) ** 0.5 if total else float("inf")
        tolerance = float(self._tolerances.max())
        return Check(
            "full_gradient_residual",
            residual,
            tolerance,
            residual <= tolerance,
            "The gradient of all layers, recomputed from records and labels, is the observed one.",
        )

    def notes(self) -> tuple[str, ...]:
        """What a reader should know about the network's part in the proof."""
        notes = []
        if not self.all_matched:
            worst = float(self._labelling.residuals.max())
            notes.append(
                f"{int((~self._matched).sum())} of {len(self._matched)} records match no class in "
                f"the network (relative difference up to {worst:.2g}): another loss, training "
                "mode, or a wrong record."
            )
        elif self._check is not None and not self._check.passed:
            notes.append(
                f"The network does not reproduce the full gradient (relative difference "
                f"{self._check.value:.2g}): another loss or training mode."
            )
        if self._swapped:
            notes.append(
                "The records' losses enter with the opposite sign: a difference of weights was "
                "given as a gradient, or a gradient as a difference."
            )
        if any(self.is_flat(j) for j in range(len(self._records))):
            notes.append(
                "With one logit or two classes, records that activate the same neurons appear as "
                "their weighted mean; that every weight is a whole number of records speaks "
                "against it, but not for records that differ by little."
            )
        if self._factor is not None and self._complete:
            notes.append(
                f"The update is {self._factor:.6g} times the mean gradient of the records' losses."
            )
        return tuple(notes)
