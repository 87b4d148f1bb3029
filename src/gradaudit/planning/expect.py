"""What to expect of one attack on a planned client: whether it applies, how much, how long."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

import torch

from gradaudit.applicability import (
    MOST_SUBMATRICES,
    NOISE_ATTACKS,
    Refusal,
    attempts_at,
    update_refusal,
)
from gradaudit.outcome.sources import ATTACK as COCKTAIL_PARTY
from gradaudit.planning.client import PlannedClient
from gradaudit.planning.result import EXTRAPOLATED, MEASURED, Expectation
from gradaudit.rank import RankAnalysis
from gradaudit.theory import costs, expected_submatrices
from gradaudit.theory.limits import (
    NOISE_BATCH,
    NOISE_INPUTS,
    NOISE_WIDTH,
    certified_share_under_noise,
    halfspace_limit,
    information_limit,
    left_factor_limit,
)
from gradaudit.update import GradientStep, Update

# Behind kinked activations no image was proved in gradient_matching.json; behind smooth ones, most.
SMOOTH = ("sigmoid", "tanh", "elu", "softplus")
# Batches at which the sampler was timed (sampler.json).
SPEAR_BATCHES = (8, 24)
# Batches and inputs of CIFAR-10 at which Cocktail Party was measured (gradient_matching.json).
UNMIXED_BATCHES, UNMIXED_INPUTS = (8, 100), 3072
# b over m up to which peeling read nearly all of a batch, and from which a third or less
# (peeling.json, CIFAR-10 in [0, 1], m = 1000; MNIST does worse).
PEELING_ALL, PEELING_PART, PEELING_SHARE = 0.128, 0.256, 0.3


def expect(
    client: PlannedClient, attack: str, *, core_seconds: float, factor: float = 1.0
) -> Expectation:
    """What to expect of an attack on a client.

    Args:
        client: As planned.
        attack: One of `gradaudit.planning.result.TITLES`.
        core_seconds: That an attacker spends, on this machine.
        factor: Of this machine's seconds over the reference machine's.
    """
    why_not = refusal(client, attack)
    if why_not is not None:
        return Expectation(attack, False, why_not.cause)
    share, seconds, limit, measured = _OUTLOOKS[attack](client, core_seconds / factor)
    at = (client.records, client.width, client.inputs)
    noisy = certified_share_under_noise(client.noise, *at)
    if client.noise and noisy < 1:
        limit += f"; of what is there, noise leaves {noisy:.0%}"
    known = client.noise == 0 or at == (NOISE_BATCH, NOISE_WIDTH, NOISE_INPUTS)
    measured = measured and known and client.steps == 1
    share *= noisy
    ends = seconds * factor <= core_seconds or attack == "dlg"
    if not ends:
        share = 0.0
    return Expectation(
        attack,
        True,
        limit,
        records=share * client.records,
        share=share,
        seconds=seconds * factor if math.isfinite(seconds) else None,
        gpu_seconds=costs.gpu_seconds(seconds) if math.isfinite(seconds) else None,
        confidence=MEASURED if measured else EXTRAPOLATED,
    )


def refusal(client: PlannedClient, attack: str) -> Refusal | None:
    """Why an attack does not apply, by the same rules as an audit's, as far as sizes tell.

    Args:
        client: As planned.
        attack: One of `gradaudit.planning.result.TITLES`.
    """
    if (refused := _training_refusal(client, attack)) is not None:
        return refused
    if attack == "dlg" and client.records > 1:
        return Refusal(
            "Of more than one record it gives estimates, which prove nothing, and how good they "
            "are no size tells.",
            "",
        )
    if attack in ("rgap", "closed_form") and client.records > 1:
        return Refusal(f"It takes one record; the update holds {client.records:,}.", "")
    if client.noise and attack not in NOISE_ATTACKS:
        return Refusal("It needs a gradient without noise.", "")
    by_sizes = {"rgap": _recursion_refusal, COCKTAIL_PARTY: _mixture_refusal}
    if attack in by_sizes:
        return by_sizes[attack](client)
    return None if attack in ("dlg", "closed_form") else _zeros_refusal(client, attack)


def _training_refusal(client: PlannedClient, attack: str) -> Refusal | None:
    if isinstance(client.training, GradientStep):
        return None
    one = {"fc.weight": torch.ones(2, 2)}
    step = replace(client.training, records=client.batch_size)
    refused = update_refusal(Update(one, delta=one, step=step), attack)
    if refused is None and client.steps > 1 and not client.is_first:
        return Refusal(
            "The first fully connected layer had other inputs in every local step, since layers "
            "before it are trained as well.",
            "",
        )
    return refused


def _zeros_refusal(client: PlannedClient, attack: str) -> Refusal | None:
    if client.layer.activation != "relu" or client.is_output:
        return Refusal("No ReLU follows the first fully connected layer: no zeros to find.", "")
    role = "input" if client.is_first else "interior"
    live = (client.width, client.inputs)
    found = attempts_at(role, client.is_output, client.records, live=live, attack=attack)
    return found if isinstance(found, Refusal) else None


def _mixture_refusal(client: PlannedClient) -> Refusal | None:
    """Mixtures are told apart where there are more neurons and more inputs than records."""
    if client.records == 1:
        return Refusal("It takes several records; one is solved for exactly.", "")
    most = min(client.width, client.inputs) - 1
    if client.records <= most:
        return None
    return Refusal(
        f"{client.records:,} records fill the rank of a layer of {client.width:,} neurons and "
        f"{client.inputs:,} inputs; it takes {most:,} at most.",
        "",
    )


def _recursion_refusal(client: PlannedClient) -> Refusal | None:
    rows = RankAnalysis.of(client.architecture, measure=False).layers
    lossy = next((row for row in reversed(rows) if row.lossy), None)
    if lossy is not None:
        return Refusal(f"The recursion cannot pass {lossy.name}: {lossy.note}.", "")
    open_ = next((row for row in reversed(rows) if row.deficit), None)
    if open_ is not None:
        return Refusal(
            f"The equations of {open_.name} leave {open_.deficit:,} of {open_.unknowns:,} "
            "dimensions of its input open.",
            "",
        )
    return None


# Share of records without noise, core seconds, what limits it, and whether that was measured.
_Outlook: TypeAlias = tuple[float, float, str, bool]


def _halfspace(client: PlannedClient, core_seconds: float) -> _Outlook:
    b, m, weights = client.records, client.width, client.weights
    limit = halfspace_limit(m, core_seconds, weights=weights, harder=client.is_harder)
    seconds = costs.halfspace_seconds(b, m, weights, harder=client.is_harder)
    # With records beyond the wall the search spends whatever it is given.
    seconds = seconds if b < limit.high else math.inf
    said = f"about {limit.batch_size:,} records ({limit.low:,} to {limit.high:,}): {limit.reason}"
    measured = client.is_first and costs.measured_sizes(b, m) and limit.measured
    return limit.share(b), seconds, said, measured


def _dictionary(client: PlannedClient, core_seconds: float) -> _Outlook:
    b, m = client.records, client.width
    line = min(left_factor_limit(m), information_limit(m))
    said = f"about {line:,} records, 2 sqrt(m), which published figures lie along"
    cost = costs.dictionary_seconds(b, m, client.weights, harder=client.is_harder)
    measured = client.is_first and costs.measured_sizes(b, m)
    return float(b <= line), cost if b <= line else math.inf, said, measured


def _spear(client: PlannedClient, core_seconds: float) -> _Outlook:
    b = client.records
    submatrices = expected_submatrices(b)
    said = f"{submatrices:.2g} submatrices are expected (Lemma 5.2)"
    possible = submatrices <= MOST_SUBMATRICES
    cost = costs.spear_seconds(b, client.weights) if possible else math.inf
    return (
        float(possible),
        cost,
        said,
        client.is_first and SPEAR_BATCHES[0] <= b <= SPEAR_BATCHES[1],
    )


def _peeling(client: PlannedClient, core_seconds: float) -> _Outlook:
    cost = costs.peeling_seconds(client.records, client.width, client.weights)
    if client.centred:
        return 0.0, cost, "no neuron fires for few records where inputs are centred", True
    share = client.records / client.width
    said = f"up to about {round(PEELING_ALL * client.width):,} records"
    measured = client.is_first and client.width == 1000
    if share <= PEELING_ALL:
        return 1.0, cost, said, measured
    part = min(1.0, math.log(share / PEELING_ALL) / math.log(PEELING_PART / PEELING_ALL))
    return max(0.0, 1 - part * (1 - PEELING_SHARE)) * (share <= PEELING_PART), cost, said, measured


def _unmixing(client: PlannedClient, core_seconds: float) -> _Outlook:
    b, n = client.records, client.inputs
    said = (
        "estimates alone, never a proof: in the median 27 dB of 8 CIFAR-10 images, 17 of 50, 13 "
        "of 100"
    )
    low, high = UNMIXED_BATCHES
    measured = client.is_first and n == UNMIXED_INPUTS and low <= b <= high
    return 0.0, costs.unmixing_seconds(b, n), said, measured


def _recursion(client: PlannedClient, core_seconds: float) -> _Outlook:
    # Measured on three convolutional networks; its time grows with size in a way not known.
    return 1.0, costs.recursion_seconds(), "one record; its equations leave nothing open", False


def _matching(client: PlannedClient, core_seconds: float) -> _Outlook:
    smooth = client.layer.activation in SMOOTH
    said = "proved on LeNet with sigmoids" if smooth else "an estimate, never proved so far"
    return float(smooth), costs.matching_seconds(), said, False


def _closed_form(client: PlannedClient, core_seconds: float) -> _Outlook:
    said = "one record" if client.bias else "one record up to its scale: there is no bias"
    return 1.0, costs.single_seconds(client.weights), said, False


_OUTLOOKS: dict[str, Callable[[PlannedClient, float], _Outlook]] = {
    "halfspace": _halfspace,
    "spear": _spear,
    "spear++": _dictionary,
    "peeling": _peeling,
    COCKTAIL_PARTY: _unmixing,
    "rgap": _recursion,
    "dlg": _matching,
    "closed_form": _closed_form,
}
