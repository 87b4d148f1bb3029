"""Trials of the judges of parts of a batch, of noisy records, and of whole reconstructions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch
from noisy.material import noisy_case
from rgap.networks import small_cnn
from torch import Tensor, nn

from certify.parts import SIZE, parts
from certify.trials import NOISY_SLACK, TRUE, Trial
from certify.wrong import wrong_batches
from gradaudit.budget import Budget, Control
from gradaudit.certify import certify_partial, certify_under_noise
from gradaudit.certify.reconstruction import judge_reconstruction
from gradaudit.clients import FedSGD
from gradaudit.linear.disaggregate import Batch
from gradaudit.models import mlp
from gradaudit.models.loaded import LoadedModel, load_model
from gradaudit.models.losses import Loss, get_loss
from gradaudit.noisy import recover_under_noise
from gradaudit.rgap.gradient_map import GradientMap
from gradaudit.rgap.observed import observe
from gradaudit.solvers.derivative import Derivative
from gradaudit.update import Update

# Steps of a descent on the gradient's mismatch, and how far from the truth it is kept.
DESCENT_STEPS, KEPT_OFF = 150, 0.02


def partial_trials(seed: int) -> Iterator[Trial]:
    """Some records of a batch of which the search missed others, right and wrong.

    Args:
        seed: Of the batch, the network and what is wrong.
    """
    generator = torch.Generator().manual_seed(seed)
    near = (None, 0.3, 1e-2, 1e-4)[seed % 4]
    dtype = torch.float64 if seed % 3 else torch.float32
    classes, hidden = (2, 10, 3)[seed % 3], ((), (30,))[seed % 2]
    sample = parts(seed, near=near, dtype=dtype, classes=classes, hidden=hidden)
    if sample is None:
        return
    kept = torch.randperm(SIZE, generator=generator)[: SIZE - 1 - seed % 3].tolist()
    missing = [j for j in range(SIZE) if j not in kept]
    true = sample.directions[kept]
    share = 10 ** -float(8 * torch.rand(1, generator=generator))
    lost = sample.directions[missing[0]]
    other = int(torch.randint(len(kept), (1,), generator=generator))
    step = torch.randn(true.shape, generator=generator, dtype=torch.float64)
    mixed_in = true + share * lost
    found = {
        TRUE: true,
        "a missing record mixed into all": mixed_in,
        "a missing record mixed into one": torch.cat([mixed_in[:1], true[1:]]),
        "mixed with each other": torch.cat([true[:1] + share * true[other], true[1:]]),
        "all directions moved": true + share * step / step.norm(dim=1, keepdim=True),
    }
    for kind, directions in found.items():
        unit = directions / directions.norm(dim=1, keepdim=True)
        batch = sample.batch(unit)
        if batch is None:
            continue
        yield from _part(sample, kind, batch, len(missing))
        if kind != TRUE:
            continue
        rows = sample.problem
        for name, records in wrong_batches(rows, batch.records, generator):
            if len(records) == len(batch.records):
                yield from _part(
                    sample,
                    name,
                    Batch(records, batch.activation_gradients, batch.directions, True),
                    len(missing),
                )


def _part(sample, kind: str, batch: Batch, missing: int) -> Iterator[Trial]:
    verdict = certify_partial(sample.problem, batch, missing=missing, network=sample.network)
    yield Trial("some rows", kind, batch.records, sample.inputs, verdict.evidence, sample.labels)


def noisy_trials(seed: int, *, rounds: int = 4) -> Iterator[Trial]:
    """Records from a noisy gradient, as they were found, and wrong ones with the same claims.

    Args:
        seed: Of the batch, the noise and what is wrong.
        rounds: Of all kinds of wrong batches.
    """
    relative = (0.003, 0.01, 0.03, 0.1)[seed % 4]
    alike = (None, 0.1, 0.3)[seed % 3]
    case = noisy_case(relative, batch_size=4 + seed % 5, seed=seed, alike=alike)
    generator = torch.Generator().manual_seed(seed)
    found = recover_under_noise(
        case.problem, generator=generator, control=Control(Budget(seconds=20))
    ).batch
    if found is None:
        return
    # True records with the error that was found: what a perfect search would hand on.
    proposals = [(TRUE, found.records)]
    for _ in range(rounds):
        proposals += list(wrong_batches(case.problem, found.records, generator))
        mixing = torch.randn(len(found.records), len(found.records), generator=generator).double()
        share = 10 ** -float(2 * torch.rand(1, generator=generator))
        proposals.append(("all mixed", found.records + share * mixing @ found.records))
    for kind, records in proposals:
        if len(records) != len(found.records):
            continue
        verdict = certify_under_noise(
            case.problem,
            records,
            entry_error=found.errors.entry,
            side_error=found.errors.side,
        )
        yield Trial("noise", kind, records, case.inputs, verdict.evidence, slack=NOISY_SLACK)


def reconstruction_trials(seed: int) -> Iterator[Trial]:
    """Whole inputs of a small network, right and wrong, with right and wrong labels.

    Args:
        seed: Of the network, the records and what is wrong.
    """
    generator = torch.Generator().manual_seed(seed)
    model, shape, outputs = _network(seed)
    loss = get_loss("binary_cross_entropy" if outputs == 1 else "cross_entropy")
    size = (1, 1, 2, 3)[seed % 4]
    true = torch.rand(size, *shape, generator=generator, dtype=torch.float64)
    if seed % 8 == 6:
        true[1] = true[0]
    labels = torch.randint(max(outputs, 2), (size,), generator=generator)
    if seed % 8 == 6:
        labels[1] = labels[0]
    rounded = (None, "float32", "float32", "bfloat16")[seed // 4 % 4]
    update, _ = FedSGD(model, loss, gradient_dtype=rounded).update(true, labels)
    loaded = load_model(model, update)
    for kind, inputs, classes in _inputs(loaded, update, loss, true, labels, generator):
        verdict = judge_reconstruction(
            loaded, update, loss, inputs, classes, generator=torch.Generator().manual_seed(seed)
        )
        found, known, evidence = inputs.flatten(1), true.flatten(1), verdict.evidence
        if verdict.twin is not None and "multiple" in kind:
            # Results give it up to a positive factor.
            kind, size = "a multiple, where the verdict names another", float(found.norm())
            evidence = tuple(
                replace(each, estimated_error=(each.estimated_error or 0.0) / size)
                for each in evidence
            )
            found, known = found / size, known / known.norm()
        yield Trial("whole network", kind, found, known, evidence, labels)


def _network(seed: int) -> tuple[nn.Module, tuple[int, ...], int]:
    activation = ("leaky_relu", "relu", "sigmoid", "tanh", "softplus")[seed % 5]
    outputs = (1, 2, 3, 10)[seed // 5 % 4]
    if seed % 3:
        return (
            small_cnn(activation, outputs=outputs, bias=bool(seed % 2), seed=seed),
            (2, 8, 8),
            outputs,
        )
    features = 12 + seed % 40
    model = mlp(features, [40, 20], outputs, activation=activation, seed=seed, dtype="float64")
    return model.eval(), (features,), outputs


def _inputs(
    loaded: LoadedModel,
    update: Update,
    loss: Loss,
    true: Tensor,
    labels: Tensor,
    generator: torch.Generator,
) -> Iterator[tuple[str, Tensor, Tensor]]:
    """Reconstructions with their labels."""
    size, shape = len(true), true.shape[1:]
    flat, scale = true.flatten(1), true.square().mean().sqrt()

    def noise() -> Tensor:
        return torch.randn(true.shape, generator=generator, dtype=torch.float64)

    def tiny(smallest: float = 9.0) -> float:
        return 10 ** -(1 + (smallest - 1) * float(torch.rand(1, generator=generator)))

    yield TRUE, true, labels
    yield "random records", noise().abs() * scale, labels
    order = torch.randperm(flat.shape[1], generator=generator)
    yield "shuffled features", flat[:, order].reshape(true.shape), labels
    for _ in range(4):
        yield "noise on all", true + tiny() * scale * noise(), labels
    yield "all records scaled", true * (1 + tiny()), labels
    yield "negated", -true, labels
    judge = GradientMap(loaded, loss, labels, observe([update], [loaded]))
    vectors = Derivative(judge.whitened, true).decompose()._vectors
    for place in (0, 0, 0, 1, len(vectors) // 2):
        step = vectors[:, place].reshape(true.shape)
        yield "weakest direction", true + tiny() * true.norm() * step, labels
    yield "swapped labels", true, labels.roll(1) if size > 1 else 1 - labels.clamp(max=1)
    yield "another label", true, (labels + 1) % max(2, int(labels.max()) + 1)
    with torch.no_grad():
        logits = judge.predict(true)
    if size == 1 and logits.numel() <= 2:
        yield from (("a multiple", true * factor, labels) for factor in _twins(logits, labels))
    if size > 1:
        share = tiny()
        moved = true.clone()
        moved[0] = (1 - share) * true[0] + share * true[1]
        yield "mixed with any", moved, labels
        yield "mean of all", true.mean(0).expand(size, *shape).clone(), labels
        apart = share * scale * noise()[0]
        split = true.clone()
        split[0], split[1] = true[0] + apart, true[1] - apart
        yield "moved against each other", split, labels
    for _ in range(2):
        start = true + (0.05 + float(torch.rand(1, generator=generator))) * scale * noise()
        yield "descent on the mismatch", _descended(judge, true, start), labels


def _twins(logits: Tensor, labels: Tensor) -> list[float]:
    from gradaudit.rgap.lambert import margins, product

    flat, label = logits.flatten(), int(labels[0])
    margin = flat[0] * (2 * label - 1) if len(flat) == 1 else flat[label] - flat[1 - label]
    if float(margin) <= 0:
        return []
    return [float(found[0][0] / margin) for found in margins(product(margin[None])) if found[2][0]]


def _descended(judge: GradientMap, true: Tensor, start: Tensor) -> Tensor:
    """A batch near the observed gradient, kept off the true one by a part of its size."""
    kept = KEPT_OFF * true.flatten(1).norm(dim=1).mean()
    inputs = start.clone().requires_grad_()
    steps = torch.optim.Adam([inputs], lr=0.02)
    target = judge.whitened_observed
    unit = target.norm()
    for _ in range(DESCENT_STEPS):
        steps.zero_grad()
        with torch.enable_grad():
            miss = ((judge.whitened(inputs) - target) / unit).square().sum()
            miss.backward()
        steps.step()
        with torch.no_grad():
            apart = (inputs - true).flatten(1).norm(dim=1).mean()
            if apart < kept:
                inputs.copy_(true + (inputs - true) * (kept / apart))
    return inputs.detach()
