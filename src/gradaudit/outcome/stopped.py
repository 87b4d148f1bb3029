"""What is said where the time was up before anything was found out."""

from __future__ import annotations

from gradaudit.evidence import Status
from gradaudit.outcome.outcome import Outcome


def not_factored(layer: str, role: str, why: str) -> Outcome:
    """A layer whose gradient was too large to be factored in the time.

    Args:
        layer: Its name.
        role: Its role.
        why: The search had to end.

    Example:
        >>> not_factored("fc1", "input", "interrupted").cause
        "The gradient of layer 'fc1' was not factored to the end: interrupted."
    """
    return Outcome(
        Status.BUDGET_EXHAUSTED,
        f"The gradient of layer {layer!r} was not factored to the end: {why}.",
        "Allow more time; more threads and a GPU factor a large gradient faster. An unfinished "
        "search does not show that the update withstands it.",
        layer,
        role,
    )
