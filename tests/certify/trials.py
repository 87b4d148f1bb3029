"""Reconstructions put before the judges, with the truth beside them: which were certified wrongly.

A record is *wrong* if it is further from every true record than the verdict states: fifty times
the error that it predicts, or three times under noise. The prediction is a standard error, and the
exact checks let ten of them pass in the row space, ten in the scale and twelve in the zeros of
single entries, which a reconstruction made on purpose can use up together (27 were seen). Two
kinds of means are counted by themselves, since the verdict says that they may be means: of records
within a hundredth of each other, and of records that it calls copies.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from scipy.optimize import nnls
from torch import Tensor

from certify.drawn import Client
from certify.posed import Posed, pose
from certify.wrong import merged, mixed_directions, true_directions, wrong_batches
from gradaudit.certify.single import SINGLE_SPREAD
from gradaudit.evidence import RecordEvidence

SLACK, NOISY_SLACK = 50.0, 3.0
# A sum of shares weighs so much more than an entry, where a record is taken for a mean.
SHARES_WEIGHT = 1e3
TRUE = "the true batch"


@dataclass(frozen=True, eq=False)
class Trial:
    """A reconstruction and what a judge said of it.

    Attributes:
        judge: Which one.
        kind: How the reconstruction was made.
        records: Proposed.
        true: The records of the batch.
        evidence: One a record proposed.
        labels: Of the true records, if they are to be judged too.
        slack: Times its stated error that a record may be off.
    """

    judge: str
    kind: str
    records: Tensor
    true: Tensor
    evidence: Sequence[RecordEvidence]
    labels: Tensor | None = None
    slack: float = SLACK

    def errors(self) -> Tensor:
        """Root mean square error of an entry, of each record to the nearest true one."""
        nearest = [(self.true - one).square().mean(1).min() for one in self.records]
        return torch.stack(nearest).sqrt()

    def allowed(self) -> Tensor:
        """What the verdict states, with its slack."""
        stated = [each.estimated_error or 0.0 for each in self.evidence]
        return self.slack * torch.tensor(stated, dtype=torch.float64)

    def outcome(self) -> str:
        """The worst that can be said of the verdict."""
        wrong = self.errors() > self.allowed()
        certified = torch.tensor([each.recovered for each in self.evidence])
        false = torch.nonzero(wrong & certified)[:, 0].tolist()
        said = {self._excuse(j) for j in false}
        if "" in said:
            return "false"
        if self._wrong_labels():
            return "false"
        if said:
            return max(said)
        if bool(wrong.any()):
            return "wrong, refused"
        return "right, certified" if bool(certified.all()) else "right, refused"

    def _wrong_labels(self) -> list[int]:
        """Certified records with the class of another one."""
        if self.labels is None:
            return []
        nearest = torch.cdist(self.records, self.true).argmin(1)
        return [
            j
            for j, each in enumerate(self.evidence)
            if each.recovered
            and each.label is not None
            and each.label != int(self.labels[nearest[j]])
        ]

    def _excuse(self, j: int) -> str:
        """Of what it is a mean, and the verdict says so; empty if it is none."""
        record = self.records[j]
        apart = (self.true - record).norm(dim=1)
        near = self.true[apart <= SINGLE_SPREAD * record.norm()]
        allowed = float(self.allowed()[j])
        if len(near) > 1 and _distance_to_span(record, near) <= allowed:
            return "mean of near-duplicates"
        copies = self.evidence[j].copies or 1
        if copies > 1 and _distance_to_means(record, self.true) <= allowed:
            return "mean, called copies"
        return ""

    def describe(self) -> str:
        """One line on what is false."""
        labels = self._wrong_labels()
        if labels:
            return f"{self.judge}: {self.kind}: record {labels[0]} has another one's class"
        ratio = self.errors() / self.allowed().clamp(min=1e-300)
        ratio[[not each.recovered for each in self.evidence]] = 0
        j = int(ratio.argmax())
        size = float(self.true.square().mean().sqrt())
        return (
            f"{self.judge}: {self.kind}: record {j} of {len(self.records)} is off by "
            f"{float(self.errors()[j]):.2g} ({float(self.errors()[j]) / size:.2g} of its size), "
            f"allowed are {float(self.allowed()[j]):.2g}"
        )


def _distance_to_span(record: Tensor, near: Tensor) -> float:
    """The same to means whose weights have any sign, as records of two classes have."""
    steps = (near[1:] - near[0]).T
    away = record - near[0]
    shares = torch.linalg.lstsq(steps, away[:, None], driver="gelsd").solution
    return float((away - (steps @ shares)[:, 0]).square().mean().sqrt())


def _distance_to_means(record: Tensor, true: Tensor) -> float:
    """Root mean square distance of an entry to the nearest weighted mean."""
    scale = float(true.abs().max())
    system = np.vstack([true.T.numpy() / scale, np.full((1, len(true)), SHARES_WEIGHT)])
    target = np.append(record.numpy() / scale, SHARES_WEIGHT)
    shares = torch.from_numpy(nnls(system, target)[0])
    return float((shares @ true - record).square().mean().sqrt())


@dataclass
class Tally:
    """Outcomes by judge and by kind.

    Attributes:
        by_judge: Of every judge, how often each outcome.
        by_kind: Of every kind, the same.
        false: One line on each false certificate.
    """

    by_judge: dict[str, Counter[str]] = field(default_factory=dict)
    by_kind: dict[str, Counter[str]] = field(default_factory=dict)
    false: list[str] = field(default_factory=list)

    def add(self, trial: Trial) -> str:
        """Count one; says what came of it."""
        outcome = trial.outcome()
        counted = f"true, {'certified' if outcome.endswith('certified') else 'refused'}"
        shown = outcome if trial.kind != TRUE or outcome == "false" else counted
        self.by_judge.setdefault(trial.judge, Counter())[shown] += 1
        self.by_kind.setdefault(trial.kind, Counter())[shown] += 1
        if outcome == "false":
            self.false.append(trial.describe())
        return outcome

    def total(self, outcome: str) -> int:
        """How often, over all judges."""
        return sum(counter[outcome] for counter in self.by_judge.values())

    @property
    def wrong(self) -> int:
        """Wrong reconstructions, refused or not."""
        return self.total("wrong, refused") + self.total("false")


def layer_trials(client: Client, *, layer: int = 0) -> Iterator[Trial]:
    """Wrong batches of one layer of a client's update, judged without and with the network.

    Args:
        client: Whose update it is.
        layer: Which of its fully connected layers.
    """
    posed = pose(client, layer=layer)
    if isinstance(posed, str):
        return
    generator = torch.Generator().manual_seed(client.seed + 3)
    for problem in posed:
        for kind, records in _proposals(problem, generator):
            proposed = problem.proposed(records)
            for network in (False, True):
                if not bool(torch.isfinite(proposed).all()):
                    continue
                evidence = problem.judge(proposed, network=network).evidence
                name = _judge_of(client, problem, network=network)
                told = None if problem.problem.layer.several_steps else problem.labels
                true = problem.proposed(problem.true)
                yield Trial(name, kind, proposed, true, evidence, told)


def _judge_of(client: Client, posed: Posed, *, network: bool) -> str:
    if posed.problem.layer.several_steps:
        return "layer, several steps"
    if network:
        return "layer and network"
    return f"layer, {posed.problem.setting.name.lower().replace('_', ' ')}"


def _proposals(posed: Posed, generator: torch.Generator) -> Iterator[tuple[str, Tensor]]:
    problem, columns = posed.problem, posed.columns
    true, rank = posed.proposed(posed.true), problem.batch_size
    if rank == len(true):
        yield TRUE, true
    elif rank > len(true):
        return
    else:
        # More records than the gradient shows: what it shows may be means of them.
        means = None if columns is None else merged(posed.true, columns, rank)
        if means is not None:
            yield "means of what the gradient does not tell apart", means
        true = true[:rank] if means is None else means
    yield from wrong_batches(problem, true, generator)
    if columns is None or rank != len(true):
        return
    directions = true_directions(problem, columns)
    if len(directions) == rank and bool(torch.isfinite(directions).all()):
        yield from mixed_directions(problem, directions, generator)
