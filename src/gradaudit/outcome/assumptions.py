"""What the attacker was assumed to know, and what the proof rests on."""

from __future__ import annotations

from dataclasses import dataclass

from gradaudit.outcome.outcome import Outcome
from gradaudit.update import GradientStep, Update

# How an assumption begins that says what was given and did not hold.
UNCONFIRMED = "The network does not confirm the records"
UNSEEN_NOISE = "The noise that was given is not in the update"


@dataclass(frozen=True)
class Hypothesis:
    """The network and the loss that records are tested with.

    Attributes:
        network_given: Whether the caller gave the network; it is a guess otherwise.
        loss: The loss's name.
        loss_given: Whether the caller named the loss; it is the usual one otherwise.
        left_out: Why no network was run at all; empty if it was, or if there is none.
    """

    network_given: bool
    loss: str
    loss_given: bool
    left_out: str = ""

    def __str__(self) -> str:
        network = "as given" if self.network_given else "guessed from the weights' shapes, ReLU"
        loss = "as given" if self.loss_given else "not given, the usual one for its outputs"
        return f"network {network}; loss {self.loss}, {loss}"


def assumptions(outcome: Outcome, update: Update, hypothesis: Hypothesis) -> tuple[str, ...]:
    """What the attacker was assumed to know, and what the proof rests on.

    Args:
        outcome: What the result reports.
        update: What was audited.
        hypothesis: The network and loss that the records were tested with. Of a guess that is
            not confirmed nothing is said, unless the caller named the loss.
    """
    lines = [
        "The attacker sees one client's update in the clear and the weights it was computed with "
        "(an honest-but-curious server).",
        _described(update),
        "The order of records in a batch leaves no trace in a gradient and is not recovered.",
    ]
    if outcome.unseen_noise:
        lines.append(f"{UNSEEN_NOISE}: {outcome.unseen_noise}")
    if not outcome.ran:
        return tuple(lines)
    lines.append(
        "Records whose share of the gradient lies below the noise or rounding threshold are not "
        "visible; records that are identical, or alike to within that threshold, appear as one, "
        "their weighted mean."
    )
    if outcome.attack == "closed_form":
        lines.append(
            "Rank one means one record, or several that are indistinguishable: with proportional "
            "loss gradients and the same active neurons their weighted mean looks like one record."
        )
    else:
        lines.append(
            f"{outcome.setting[0].upper()}{outcome.setting[1:]}; the certificate tests this."
        )
    if outcome.certificate.kind == "within_noise":
        known = "as it was given" if update.noise else "as the spectrum shows it"
        lines.append(
            f"The noise is independent and equally strong in all entries of the layer, {known}; "
            "the estimated errors rest on this."
        )
    if outcome.role != "input":
        lines.append(
            "The layer is not the first one: what is recovered are its inputs, features of the "
            "records."
        )
    if hypothesis.left_out and outcome.status.leak_proven:
        lines.append(f"The proof rests on the layer alone: {hypothesis.left_out}")
        lines.extend(outcome.notes)
        return tuple(lines)
    given = hypothesis.network_given or hypothesis.loss_given
    if outcome.certificate.kind in ("full_gradient", "activation_gradient", "explained_rows"):
        lines.append(f"The recomputed gradient confirms the model ({hypothesis}).")
        lines.extend(outcome.notes)
    elif update.several_steps and outcome.status.leak_proven:
        lines.append(
            "The proof rests on the layer alone: in which steps a record took part, and at which "
            "weights, is the client's secret, so that no gradient can be recomputed."
        )
        lines.extend(f"{note} ({hypothesis})" for note in outcome.notes)
    elif given and outcome.status.leak_proven:
        reason = " ".join(outcome.notes)
        lines.append(
            f"{UNCONFIRMED} ({hypothesis}); the proof rests on the layer alone. {reason}".rstrip()
        )
    elif given:
        lines.extend(outcome.notes)
    return tuple(lines)


def _described(update: Update) -> str:
    """What the update is, as it says itself."""
    step = update.step
    if isinstance(step, GradientStep):
        observed = "gradient" if update.observed_kind == "gradient" else "difference of weights"
        text = f"The update is the {observed} of a single batch (one step of FedSGD)"
    else:
        batches = "all records" if step.batch_size is None else f"{step.batch_size} records"
        text = (
            "The update is the difference of weights after local training (FedAvg): "
            f"{step.epochs} epoch{'s' if step.epochs > 1 else ''} in batches of {batches} with "
            f"{step.optimizer}, momentum {step.momentum:g}, weight decay {step.weight_decay:g}"
        )
    if update.noise is not None:
        text += f"; Gaussian noise of standard deviation {update.noise:.3g} in each of its entries"
    return text + "."
