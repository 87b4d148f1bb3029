"""The settings of an audit, and one client's reply examined under them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import get_args

from flwr.app import RecordDict
from torch import Tensor, nn

from gradaudit.applicability import ATTACKS
from gradaudit.auditing import audit
from gradaudit.budget import Budget
from gradaudit.errors import InputError
from gradaudit.evidence import Status
from gradaudit.flower.messages import find_arrays, is_masked, num_examples
from gradaudit.flower.reading import ReplyContains, read_update
from gradaudit.models.losses import AUTO, Loss
from gradaudit.preprocessing import Preprocessing
from gradaudit.result import AuditResult
from gradaudit.update import GradientStep, LocalTraining, Step, Update

# One gradient of one batch, at an unknown learning rate.
ONE_STEP = GradientStep()

# A round waits for its audits: a minute for each.
DEFAULT_BUDGET = Budget(seconds=60.0)


@dataclass(frozen=True)
class Examination:
    """One reply, as it was read and audited.

    Attributes:
        result: The audit's; not applicable where there was nothing to audit.
        update: What the reply amounts to; None where it could not be read.
        error: Why it could not be audited: a mistake in the settings, or in the reply.
    """

    result: AuditResult
    update: Update | None = None
    error: InputError | None = None


@dataclass(frozen=True)
class Auditor:
    """How to audit clients' replies; the same for every client and round.

    Attributes:
        model: The network, for labels, for the proof over all layers, and for the names of arrays
            that have none; its own weights do not matter.
        loss: The clients' loss, as in `gradaudit.audit`.
        attack: As in `gradaudit.audit`.
        layer: As in `gradaudit.audit`.
        step: The clients' local training; the number of records is taken from each reply. The
            default is one gradient step of one batch.
        noise: Standard deviation of Gaussian noise that clients add to each entry, if known.
        preprocessing: How records became network inputs.
        contains: What replies hold: ``"weights_after"``, ``"delta"`` or ``"gradient"``.
        arrays_key: The model's record in messages that have several.
        budget: Limits of each audit; the default is a minute a client.
        seed: Of every random choice.
        device: As in `gradaudit.audit`.

    Raises:
        InputError: The attack or what replies hold is not one that is known.

    Example:
        >>> Auditor(attack="magic")
        Traceback (most recent call last):
        gradaudit.errors.InputError: attack: found 'magic', expected one of auto, ...
    """

    model: nn.Module | None = None
    loss: str | Loss | Callable[[Tensor, Tensor], Tensor] = AUTO
    attack: str = "auto"
    layer: str = "auto"
    step: Step = ONE_STEP
    noise: float | None = None
    preprocessing: Preprocessing | None = None
    contains: ReplyContains = "weights_after"
    arrays_key: str | None = None
    budget: Budget = DEFAULT_BUDGET
    seed: int = 0
    device: str = "auto"

    def __post_init__(self) -> None:
        for name, known in (("attack", ATTACKS), ("contains", get_args(ReplyContains))):
            if getattr(self, name) not in known:
                raise InputError(name, repr(getattr(self, name)), "one of " + ", ".join(known))

    def examine(self, sent: RecordDict, reply: RecordDict) -> Examination:
        """Audit one reply; whatever is wrong with it becomes a result, not an exception.

        Args:
            sent: Content of the message to the client, with its arrays.
            reply: Content of the client's reply.
        """
        if is_masked(reply):
            return Examination(_MASKED)
        if not any(reply.array_records.values()):
            return Examination(_NO_ARRAYS)
        update = None
        try:
            update = self.read(sent, reply)
            result = audit(
                update,
                model=self.model,
                loss=self.loss,
                attack=self.attack,
                layer=self.layer,
                budget=self.budget,
                seed=self.seed,
                device=self.device,
            )
        except InputError as error:
            cause = f"The reply was not audited: {error}."
            return Examination(_not_applicable(cause, error.remedy), update, error)
        return Examination(result, update)

    def read(self, sent: RecordDict, reply: RecordDict) -> Update:
        """What one reply amounts to.

        Args:
            sent: Content of the message to the client, with its arrays.
            reply: Content of the client's reply.

        Raises:
            InputError: The reply is no update of the model sent.
        """
        key, reply_key = find_arrays(sent, reply, self.arrays_key)
        return read_update(
            sent.array_records[key],
            reply.array_records[reply_key],
            model=self.model,
            contains=self.contains,
            step=_counted(self.step, num_examples(reply)),
            noise=self.noise,
            preprocessing=self.preprocessing,
        )


def _counted(step: Step, records: int | None) -> Step:
    """The step with the number of records that the client names, where none is given."""
    if isinstance(step, LocalTraining) and step.records is None:
        return replace(step, records=records)
    return step


def _not_applicable(cause: str, remedy: str) -> AuditResult:
    return AuditResult(Status.NOT_APPLICABLE, cause, remedy)


_NO_ARRAYS = _not_applicable(
    "The reply holds no arrays, as those that prepare a secure aggregation.",
    "Audit the replies that do.",
)
_MASKED = _not_applicable(
    "Secure aggregation: the reply is masked, and there is no single client's update to audit.",
    "To audit what the server learns, audit the sum of the clients' updates, which is that of one "
    "larger batch; to audit a client, put the leakage gate behind the aggregation's mod, where it "
    "sees the update before the mask.",
)
