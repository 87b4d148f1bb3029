"""What an attack came to: the part of a result that it decides."""

from __future__ import annotations

from dataclasses import dataclass, field

from jaxtyping import Float
from torch import Tensor

from gradaudit.evidence import (
    ApproximateEvidence,
    Certificate,
    LayerReport,
    RecordEvidence,
    Spectrum,
    Status,
)

_ORDER = (
    Status.NOT_APPLICABLE,
    Status.NOT_RECOVERED,
    Status.BUDGET_EXHAUSTED,
    Status.PARTIAL,
    Status.RECOVERED,
)


@dataclass(frozen=True, eq=False)
class Outcome:
    """The part of a result that one attack decides; fields as in `AuditResult`.

    Attributes:
        role: The layer's role, ``"input"``, ``"interior"`` or ``"output"``.
        gradients: The activation gradients, one column a record.
        attack: The attack that ran, or ``"none"``.
        attack_reason: Why this one.
        setting: Which sparsity it used, in words.
        notes: Remarks for the list of assumptions.
        unseen_noise: What noise was given that the update cannot carry; empty if none was.
        estimates_inputs: Whether the estimates are network inputs, although the records are
            features of them.
        counters: What the attack counted.
        seconds: Its time by phase.
        above_noise: Records that the layer shows above its noise; 0 where it carries none.
        layers: What an attack on all layers has to say of each; empty for one on a single layer.
    """

    status: Status
    cause: str
    remedy: str
    layer: str | None = None
    role: str = ""
    batch_size: int | None = None
    spectrum: Spectrum | None = None
    records: Float[Tensor, "b n"] | None = None
    gradients: Float[Tensor, "m b"] | None = None
    scale_identified: bool = True
    evidence: tuple[RecordEvidence, ...] = ()
    certificate: Certificate = field(default_factory=Certificate)
    attack: str = "none"
    attack_reason: str = ""
    setting: str = ""
    notes: tuple[str, ...] = ()
    unseen_noise: str = ""
    approximate_records: Float[Tensor, "a p"] | None = None
    approximate_evidence: tuple[ApproximateEvidence, ...] = ()
    estimates_inputs: bool = False
    above_noise: int = 0
    counters: dict[str, float] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    layers: tuple[LayerReport, ...] = ()

    @property
    def ran(self) -> bool:
        """Whether an attack ran; none does where none applies."""
        return self.attack != "none"

    def rank(self) -> int:
        """How much was established, for choosing between layers."""
        return _ORDER.index(self.status)
