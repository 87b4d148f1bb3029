"""How every update of a run is audited, in plain values that any process understands."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from gradaudit.applicability import ATTACKS
from gradaudit.auditing import audit
from gradaudit.budget import Budget, Control
from gradaudit.errors import InputError
from gradaudit.gradient_matching import METHODS, Knowledge, Method
from gradaudit.models import get_loss, parse_model
from gradaudit.models.losses import AUTO
from gradaudit.result import AuditResult
from gradaudit.update import Update


@dataclass(frozen=True)
class AuditSettings:
    """All that determines a result beside the update.

    Every update is audited with the same seed: no result depends on the others or on their order,
    and each is what `gradaudit.audit` gives for its file alone.

    Attributes:
        model: The network in the words of `gradaudit.models.parse_model`, or None.
        loss: Its loss, by name, or ``"auto"``.
        layer: As `gradaudit.audit` takes it.
        attack: As `gradaudit.audit` takes it.
        batch_size: Records to search for, for the attacks that match gradients.
        labels: Their classes, for these attacks.
        restarts: Random starts of these attacks.
        iterations: Steps of each start.
        invert_features: As `gradaudit.audit` takes it.
        seed: Of every random choice.
        device: As `gradaudit.audit` takes it; in the process that audits.
        seconds: For each update, or None.
        submatrices: For each update, or None.
        keep_records: Whether the recovered records, which are personal data, are written.
        memory: Bytes that each may take beside its update, or None.
    """

    model: str | None = None
    loss: str = AUTO
    layer: str = "auto"
    attack: str = "auto"
    batch_size: int | None = None
    labels: tuple[int, ...] | None = None
    restarts: int | None = None
    iterations: int | None = None
    invert_features: bool = False
    seed: int = 0
    device: str = "auto"
    seconds: float | None = Budget.seconds
    submatrices: int | None = Budget.submatrices
    keep_records: bool = True
    memory: int | None = Budget.memory

    @property
    def budget(self) -> Budget:
        """Of each update."""
        return Budget(self.seconds, self.submatrices, self.memory)

    def check(self) -> None:
        """Find before anything is read what would be wrong with every update.

        Raises:
            InputError: A setting cannot be used.
        """
        if self.attack not in ATTACKS:
            raise InputError("attack", repr(self.attack), "one of " + ", ".join(ATTACKS))
        if isinstance(self.seed, bool) or not 0 <= self.seed < 2**63:
            raise InputError("seed", repr(self.seed), "a whole number from 0 to 2**63 - 1")
        if self.loss != AUTO:
            get_loss(self.loss)
        if self.model is not None:
            parse_model(self.model, seed=self.seed)
        elif self.invert_features:
            raise InputError("model", "None", "the network whose features are to be inverted")
        self._matching()
        Control(self.budget)

    def audit(self, update: Update, control: Control) -> AuditResult:
        """Audit an update so.

        Args:
            update: What was observed.
            control: With the `budget`.

        Raises:
            InputError: A setting does not fit this update.
        """
        knowledge, method = self._matching()
        return audit(
            update,
            model=self.model,
            loss=self.loss,
            layer=self.layer,
            attack=self.attack,
            knowledge=knowledge,
            method=method,
            invert_features=self.invert_features,
            seed=self.seed,
            device=self.device,
            control=control,
        )

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self) | {"labels": None if self.labels is None else list(self.labels)}

    def _matching(self) -> tuple[Knowledge | None, Method | None]:
        names = ("batch_size", "labels", "restarts", "iterations")
        given = [name for name in names if getattr(self, name) is not None]
        if self.attack in METHODS:
            usual = METHODS[self.attack]
            method = replace(
                usual,
                restarts=self.restarts or usual.restarts,
                iterations=self.iterations or usual.iterations,
            )
            return Knowledge(self.batch_size, self.labels), method
        if given:
            raise InputError(
                given[0],
                f"it with the attack {self.attack!r}",
                "one of the attacks " + ", ".join(METHODS),
            )
        return None, None
