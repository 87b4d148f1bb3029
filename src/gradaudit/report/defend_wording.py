"""What a defence curve means, in words that promise nothing."""

from __future__ import annotations

from gradaudit.defending.answer import Answer
from gradaudit.defending.curve import DefenseCurve, Point
from gradaudit.defending.setting import Setting
from gradaudit.defending.training import Trained
from gradaudit.defenses import NO_DEFENSE
from gradaudit.evidence import Status
from gradaudit.report.text import count, duration, number, plain
from gradaudit.report.wording import OUTCOMES

# Said with every answer: what failed here may not fail elsewhere.
NO_PROMISE = (
    "This is what one attack did with this client, these records and this time. That it recovered "
    "nothing proves nothing about other attacks, more time or other data; a guarantee is "
    "differential privacy's epsilon alone, where it is small."
)


def client_text(client: Setting) -> str:
    """A client, without its defences.

    Example:
        >>> client_text(Setting(8, width=200))
        '8 records, two hidden layers of 200, one gradient'
    """
    network = (
        f"two hidden layers of {client.width:,}"
        if client.width is not None
        else plain(client.model, 60)
    )
    return f"{count(client.batch_size, 'record')}, {network}, {training_text(client)}"


def training_text(client: Setting) -> str:
    """What the client does with its records.

    Example:
        >>> from gradaudit.update import LocalTraining
        >>> training_text(Setting(8, width=9, training=LocalTraining(0.1, epochs=2, batch_size=4)))
        '2 local epochs in batches of 4'
    """
    training = client.training
    if training is None:
        return "one gradient"
    batches = "" if training.batch_size is None else f" in batches of {training.batch_size:,}"
    return f"{count(training.epochs, 'local epoch')}{batches}"


def answer_text(answer: Answer, curve: DefenseCurve) -> tuple[str, str]:
    """Which is the cheapest defence tried under which this attack recovers nothing, here?

    Args:
        answer: For one client.
        curve: What it was found in.

    Returns:
        The answer in a sentence, and what it rests on.

    Example:
        >>> curve = DefenseCurve("", (), (0,), "auto", "mse", "float64", 60.0, 20.0)
        >>> answer_text(Answer(Setting(8, width=9), 5, None, "distortion"), curve)[0]
        'This attack recovered records under each of the 5 settings tried.'
    """
    who = f"Client with {client_text(answer.client)}."
    point = answer.cheapest
    if point is None:
        settings = (
            "the one setting" if answer.tried == 1 else f"each of the {answer.tried} settings"
        )
        return f"This attack recovered records under {settings} tried.", who
    limit = "" if curve.seconds is None else f" of at most {duration(curve.seconds)} each"
    audits = f"{count(len(point.runs), 'audit')}{limit}: {outcomes_text(point)}."
    if point.setting.defense == NO_DEFENSE:
        headline = f"This attack recovered nothing here, even without a defence{_why(point)}."
        return headline, f"{who} {audits}{_caveat(point)}"
    return (
        f"Of the {count(answer.tried, 'setting')} tried, the cheapest under which this attack "
        f"recovered nothing here is {plain(point.setting.defense, 200)}{_why(point)}.",
        f"{who} {_cost_text(answer, point)} {audits}{_caveat(point)}",
    )


def _why(point: Point) -> str:
    """What the sentence must not leave to its small print."""
    if set(point.statuses) == {Status.NOT_APPLICABLE.value}:
        return ", as it takes no such updates"
    return "" if point.all_ended else ", in the time it had"


def _caveat(point: Point) -> str:
    """A warning where the attack could not even begin, or not end."""
    if set(point.statuses) == {Status.NOT_APPLICABLE.value}:
        return " The attack does not take such updates at all; one that does may recover records."
    if not point.all_ended:
        return " Its search had not ended; more time may recover records."
    return ""


def _cost_text(answer: Answer, point: Point) -> str:
    distortion = f"{number(point.distortion, 2)} of what is sent is the defence's"
    if answer.by == "accuracy" and point.trained is not None:
        return (
            f"Cheapest by the accuracy that is left, {accuracy_text(point.trained)}, and among "
            f"equally accurate ones by distortion: {distortion}."
        )
    return f"Cheapest by distortion: {distortion}."


def accuracy_text(trained: Trained) -> str:
    """An accuracy with its standard error.

    Example:
        >>> accuracy_text(Trained(0.9, 900))
        '90.0 ± 1.0 %'
    """
    return f"{100 * trained.accuracy:.1f} \u00b1 {100 * trained.standard_error:.1f} %"


def outcomes_text(point: Point) -> str:
    """How the audits of a point ended.

    Example:
        >>> outcomes_text(Point(Setting(8, width=9), (), 20.0))
        'not audited'
    """
    outcomes = {status.value: text for status, text in OUTCOMES.items()}
    found = point.statuses
    if len(found) == 1:
        return outcomes[next(iter(found))]
    return ", ".join(f"{times} x {outcomes[s]}" for s, times in found.items()) or "not audited"
