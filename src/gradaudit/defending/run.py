"""What one audit of one simulated update came to, beside the truth."""

from __future__ import annotations

from dataclasses import dataclass

from gradaudit.decoding import Count
from gradaudit.evidence import Status


@dataclass(frozen=True)
class RecordOutcome:
    """One record of the client, and what the audit gave for it.

    Attributes:
        certified: Whether the audit counts it as recovered.
        estimated_error: Root mean square error of an entry that the audit expects, which knows
            the update alone, in the network's input units; None where it says nothing.
        true_error: The same against the truth.
        psnr: Against the truth, in dB: of pixels in [0, 1] where records are images, else of
            network inputs on the range that the batch spans.
    """

    certified: bool
    estimated_error: float | None
    true_error: float
    psnr: float


@dataclass(frozen=True)
class Run:
    """One audit.

    Attributes:
        seed: Of batch, network, client, defences and audit.
        update_sha256: Of the audited update.
        distortion: How much of what is sent the defence put there: the sine of the angle between
            what is sent with and without it, from 0 (the same but for its length) to 1.
        noise: Standard deviation of Gaussian noise in each entry sent, where it is known.
        batch_size: The client's records.
        status: What the audit established.
        cause: Why.
        attack: The attack that ran.
        certified: Records that it recovered and certified.
        matched: What it gave, certified or as an estimate, matched one to one with the truth.
        seconds: Of the audit.
    """

    seed: Count
    update_sha256: str
    distortion: float
    noise: float | None
    batch_size: Count
    status: Status
    cause: str
    attack: str
    certified: Count
    matched: tuple[RecordOutcome, ...]
    seconds: float

    def close(self, psnr: float) -> int:
        """Records that are known to within a PSNR, certified or not."""
        return sum(record.psnr >= psnr for record in self.matched)
