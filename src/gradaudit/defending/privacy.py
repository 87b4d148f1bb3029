"""What DP-SGD guarantees, by Opacus' accountant."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

from gradaudit.defending.checks import check_count
from gradaudit.defending.setting import Setting
from gradaudit.defenses import DPSGD
from gradaudit.errors import InputError, require


@dataclass(frozen=True)
class Accounting:
    """What a guarantee is counted over.

    Attributes:
        delta: Between 0 and 1.
        records: Records that the client draws its batches from; None: those of the source.
        steps: Gradients that it sends; None: one pass over its records.

    Raises:
        InputError: A value is out of its range.
    """

    delta: float = 1e-5
    records: int | None = None
    steps: int | None = None

    def __post_init__(self) -> None:
        if not 0 < self.delta < 1:
            raise InputError("delta", repr(self.delta), "a number between 0 and 1")
        for name in ("records", "steps"):
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name))


@dataclass(frozen=True)
class Privacy:
    """An (epsilon, delta) guarantee of differential privacy, of one record's presence.

    Attributes:
        epsilon: Infinite without noise.
        delta: Its delta.
        noise_multiplier: sigma.
        sampling_rate: Share of the client's records in a batch.
        steps: Steps that it covers.
        accountant: How it was computed.
    """

    epsilon: float
    delta: float
    noise_multiplier: float
    sampling_rate: float
    steps: int
    accountant: str = "Opacus RDPAccountant"


def privacy_of(setting: Setting, accounting: Accounting, records: int | None) -> Privacy | None:
    """The guarantee of a setting whose one source of noise is DP-SGD.

    The accountant takes every record into a batch with probability q, by itself (Poisson
    sampling), as Opacus does in training. Rényi differential privacy is computed at Opacus' orders
    and turned into (epsilon, delta). Under local training the client's records are those of the
    setting, and one round is counted: ``epochs * ceil(records / batch_size)`` steps.

    Args:
        setting: The client and its defences.
        accounting: What the guarantee is counted over.
        records: Of the source; None where it has no end.

    Returns:
        The guarantee; None without DP-SGD, with several of it, or where the records are unknown.

    Raises:
        InputError: A batch larger than the records it is drawn from.
        MissingExtraError: Opacus is not installed.

    Source:
        Mironov, Talwar, Zhang, Rényi differential privacy of the sampled Gaussian mechanism, 2019,
        as in Opacus' ``RDPAccountant``.

    Example:
        >>> privacy_of(Setting(8, width=10, defenses=("sign",)), Accounting(), 100)
    """
    private = [each for each in setting.parsed() if isinstance(each, DPSGD)]
    drawn_from = accounting.records if accounting.records is not None else records
    if setting.training is not None:
        drawn_from = setting.batch_size
    if len(private) != 1 or drawn_from is None:
        return None
    batch = setting.batch_size
    if setting.training is not None:
        batch = min(setting.training.batch_size or batch, batch)
    if batch > drawn_from:
        raise InputError(
            "records", f"{drawn_from:,} for batches of {batch:,}", "as many as a batch has, or more"
        )
    if setting.training is not None:
        steps = setting.training.steps(setting.batch_size) or 1
    else:
        steps = accounting.steps or math.ceil(drawn_from / batch)
    sigma, rate = float(private[0].noise_multiplier), batch / drawn_from
    return Privacy(
        _epsilon(sigma, rate, steps, accounting.delta), accounting.delta, sigma, rate, steps
    )


def _epsilon(sigma: float, rate: float, steps: int, delta: float) -> float:
    accountants = require("opacus.accountants", "opacus")
    if sigma == 0:
        return math.inf
    accountant = accountants.RDPAccountant()
    accountant.history = [(sigma, rate, steps)]
    with warnings.catch_warnings():
        # Far from usual noise the best order is none of Opacus': the bound holds, loosely.
        warnings.filterwarnings("ignore", message="Optimal order is the (smallest|largest) alpha")
        epsilon, _ = accountant.get_privacy_spent(delta=delta)
    return float(epsilon)
