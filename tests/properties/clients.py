"""Random clients by hypothesis, and their audits beside the truth."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from certify.drawn import BIASES, INITIALISATIONS, INPUTS, TWISTS, Client
from certify.posed import inside
from certify.trials import NOISY_SLACK, SLACK, Trial
from hypothesis import strategies as st

from gradaudit.applicability import NETWORK_ATTACKS
from gradaudit.auditing import audit
from gradaudit.budget import Budget
from gradaudit.evidence import Status
from gradaudit.result import AuditResult
from gradaudit.update import LocalTraining

ATTACKS = ("auto",) * 12 + ("spear", "closed_form", "rgap", "inverting-gradients")


@st.composite
def clients(draw: st.DrawFn) -> Client:
    """Any small client: batches of 1 to 12, layers of 20 to 150 neurons, 1 to 6 of them."""
    batch = draw(st.one_of(st.integers(1, 4), st.integers(1, 12)))
    classes = draw(st.sampled_from([1, 2, 3, 10, 10]))
    rest = draw(st.one_of(st.just([20]), st.lists(st.integers(10, 50), max_size=4)))
    first = draw(st.integers(20, 60)) + draw(st.sampled_from([2, 10, 15])) * batch
    widths = draw(st.sampled_from([(), (first, *rest), (first, *rest)]))
    features = max(draw(st.integers(10, 100)), batch)
    convolution = bool(widths) and draw(st.integers(0, 9)) == 0
    several = bool(widths) and draw(st.integers(0, 7)) == 0
    losses = ["cross_entropy"] * 4 + ["smoothed", "mse"]
    return Client(
        seed=draw(st.integers(0, 10**6)),
        batch=batch,
        features=int(features**0.5) ** 2 if convolution else features,
        widths=widths,
        classes=classes,
        inputs=draw(st.sampled_from(INPUTS)),
        twist=draw(st.sampled_from(TWISTS)),
        initialisation=draw(st.sampled_from(INITIALISATIONS)),
        biases=draw(st.sampled_from(BIASES)),
        dead=draw(st.sampled_from([0.0, 0.0, 0.3, 0.9])),
        weights=draw(st.sampled_from([1.0] * 7 + [1e-8, 1e-3, 1e3])),
        labels=draw(st.sampled_from(["drawn", "one class", "in turn"])),
        dtype=draw(st.sampled_from(["float64", "float32"])),
        rounded=draw(st.sampled_from([None] * 4 + ["float32", "float32", "float16", "bfloat16"])),
        factor=10.0 ** draw(st.integers(-8, 8)) * draw(st.sampled_from([1, 1, -1])),
        loss="binary_cross_entropy" if classes == 1 else draw(st.sampled_from(losses)),
        activation=draw(
            st.sampled_from(["relu"] * 10 + ["tanh", "identity", "leaky_relu", "gelu"])
        ),
        convolution=convolution,
        training=LocalTraining(draw(st.sampled_from([1e-3, 0.1])), epochs=2, batch_size=4)
        if several
        else None,
    )


@dataclass(frozen=True, eq=False)
class Audited:
    """An audit and what is wrong with it.

    Attributes:
        result: Of the audit.
        trial: Its records as a trial of the judges; None where there are none.
        outcome: The trial's, or the status.
        missed: Distinct inputs of the layer, above rounding, that no certified record is near to.
    """

    result: AuditResult
    trial: Trial | None
    outcome: str
    missed: int


def audit_client(
    client: Client, *, with_model: bool, attack: str = "auto", seconds: float = 0.3
) -> Audited:
    """Audit a client's update and compare what is certified with the truth.

    Args:
        client: Any.
        with_model: Whether the audit is given the network.
        attack: Its name.
        seconds: Limit of the search.
    """
    update, records, labels, model = client.send()
    result = audit(
        update,
        model=model if with_model or attack in NETWORK_ATTACKS else None,
        attack=attack,
        budget=Budget(seconds=seconds),
    )
    if result.records is None or result.layer is None:
        return Audited(result, None, result.status.value, 0)
    whole = attack in NETWORK_ATTACKS
    true, columns = (
        (records.flatten(1), None)
        if whole
        else inside(model.double(), records, labels, result.layer, client.loss)
    )
    if not result.scale_identified:
        true = true / true.norm(dim=1, keepdim=True).clamp(min=torch.finfo(torch.float64).tiny)
    seen = torch.ones(len(true), dtype=torch.bool)
    if columns is not None and not update.several_steps:
        sizes = columns.abs().amax(1)
        # A record that no neuron or no loss sees leaves no trace.
        true, labels, sizes = (part[sizes > 0] for part in (true, labels, sizes))
        # One below the rounding of what was sent leaves none either: 1e-248 of another's.
        observed = getattr(torch, client.rounded or client.dtype)
        seen = sizes > torch.finfo(observed).eps * sizes.max() if len(sizes) else sizes > 0
        if not len(true):
            true = records.new_zeros(1, result.records.shape[1])
            labels, seen = labels.new_zeros(1), seen.new_ones(1)
    # The gradient of one class, negated, is one of the other, where there are two.
    told = not update.several_steps and (client.factor > 0 or client.classes > 2)
    sure = told and _one_label_each(true, labels)
    noisy = result.certificate.kind == "within_noise"
    trial = Trial(
        "audit",
        result.search.attack,
        result.records.double(),
        true,
        result.evidence,
        labels if sure else None,
        NOISY_SLACK if noisy else SLACK,
    )
    # After several steps it is not known here which records had a gradient at all.
    missed = 0 if update.several_steps else _missed(replace(trial, true=trial.true[seen]), result)
    return Audited(result, trial, trial.outcome(), missed)


def _one_label_each(true: torch.Tensor, labels: torch.Tensor) -> bool:
    same = torch.cdist(true, true) <= 1e-2 * true.norm(dim=1, keepdim=True)
    return bool((labels[:, None] == labels)[same].all())


def _missed(trial: Trial, result: AuditResult) -> int:
    """True records that are near no certified one, where the audit says that it has them all."""
    if result.status is not Status.RECOVERED:
        return 0
    swapped = replace(trial, records=trial.true, true=trial.records)
    size = trial.true.square().mean(1).sqrt()
    far = swapped.errors() > 1e-2 * size + float(trial.allowed().max())
    return len(torch.unique(trial.true[far], dim=0))
