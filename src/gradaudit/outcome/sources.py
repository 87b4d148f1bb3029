"""What separating a layer's records as independent sources came to, in the words of a result."""

from __future__ import annotations

from gradaudit.evidence import ApproximateEvidence, Status
from gradaudit.linear.cocktail_party import Sources
from gradaudit.linear.factor import Factors
from gradaudit.outcome.outcome import Outcome

ATTACK = "cocktail-party"


def describe_sources(layer: str, role: str, factors: Factors, sources: Sources) -> Outcome:
    """Turn estimates that nothing proves into a status with cause and remedy.

    Args:
        layer: Its name.
        role: Its role.
        factors: Of its gradient.
        sources: The estimates.
    """
    count, stable = len(sources.records), int(sources.stable.sum())
    cause = (
        f"The gradient of layer {layer!r} was separated into {count} sources that are as "
        f"independent as can be, and nothing proves that these are records. A second search "
        f"agrees on {stable}: the likelier ones, with an unknown error."
    )
    if sources.stopped:
        cause = f"The search ended early: {sources.stopped}. {cause}"
    if not sources.scale_identified:
        cause += " The layer has no bias gradient: each is right up to a factor of either sign."
    return Outcome(
        status=Status.BUDGET_EXHAUSTED if sources.stopped else Status.NOT_RECOVERED,
        cause=cause,
        remedy="The attack 'auto' solves for records exactly where the batch allows it. This does "
        "not show that other attacks fail.",
        layer=layer,
        role=role,
        batch_size=factors.rank,
        spectrum=factors.spectrum,
        scale_identified=sources.scale_identified,
        attack=ATTACK,
        attack_reason="Records as independent sources, an estimate for a batch of any size below "
        "the layer's width.",
        setting="records are independent of one another and not Gaussian, pixel by pixel",
        approximate_records=sources.records.cpu(),
        approximate_evidence=tuple(
            ApproximateEvidence(None, None, stable=bool(agrees)) for agrees in sources.stable
        ),
        counters=sources.counters,
        seconds=sources.seconds,
    )
