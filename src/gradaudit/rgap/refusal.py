"""Why R-GAP does not apply: a cause and a remedy, as sentences."""

from __future__ import annotations

from gradaudit.errors import GradauditError


class NotSolvableError(GradauditError):
    """The attack does not apply to this network or this update.

    Args:
        cause: Which layer, and why.
        remedy: What to do about it.
    """

    def __init__(self, cause: str, remedy: str) -> None:
        self.cause, self.remedy = cause, remedy
        super().__init__(f"{cause} {remedy}")


def sentence(clause: str) -> str:
    """A clause as a sentence.

    Example:
        >>> sentence("pool before the activation")
        'Pool before the activation.'
    """
    return f"{clause[:1].upper()}{clause[1:]}."
