"""Wrong reconstructions of a layer's batch, from far off to off by a billionth."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from gradaudit.linear.disaggregate import disaggregate
from gradaudit.linear.problem import Problem, Setting


def wrong_batches(
    problem: Problem, true: Tensor, generator: torch.Generator
) -> Iterator[tuple[str, Tensor]]:
    """One batch of every kind, with the kind's name.

    Args:
        problem: The layer's.
        true: Its distinct records, as many as the rank.
        generator: Of all that is drawn.
    """
    size, width = true.shape
    scale = true.square().mean().sqrt()

    def noise(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    def pick() -> int:
        return int(torch.randint(size, (1,), generator=generator))

    def tiny(smallest: float = 9.0) -> float:
        """From a tenth down, evenly on a logarithmic scale; of either sign."""
        draw = torch.rand(2, generator=generator)
        power = 1 + (smallest - 1) * float(draw[0])
        return (-1) ** int(draw[1] < 0.5) * 10**-power

    def changed(j: int, row: Tensor) -> Tensor:
        batch = true.clone()
        batch[j] = row
        return batch

    j = pick()
    inside = noise(size, problem.batch_size) @ problem.factors.right.T
    yield "random records", noise(size, width) * scale
    yield "shuffled features", true[:, torch.randperm(width, generator=generator)]
    yield "noise on all", true + tiny() * scale * noise(size, width)
    yield "noise on one", changed(j, true[j] + tiny() * scale * noise(width))
    yield "noise in the row space", true + tiny() * inside / inside.norm() * true.norm()
    yield "one record replaced", changed(j, noise(width) * scale)
    yield "one record scaled", changed(j, true[j] * (1 + tiny()))
    yield "all records scaled", true * (1 + tiny())
    yield "negated", changed(j, -true[j])
    yield "another basis of the row space", noise(size, size) @ true
    yield "random inside the row space", inside / inside.norm() * true.norm()
    yield "weakest direction", changed(j, true[j] + tiny() * true[j].norm() * weakest(problem))
    yield (
        "moved where no neuron sees it",
        changed(j, true[j] + tiny() * true[j].norm() * unseen(problem, noise(width))),
    )
    yield "one entry", changed(j, true[j] + tiny() * scale * (torch.arange(width) == pick()))
    yield "one record too many", torch.cat([true, noise(1, width) * scale])
    if size == 1:
        return
    yield "one record too few", true[1:]
    k = (j + 1 + int(torch.randint(size - 1, (1,), generator=generator))) % size
    apart = torch.cdist(true[j : j + 1], true)[0]
    apart[j] = torch.inf
    for name, other in (("any", k), ("the nearest", int(apart.argmin()))):
        share = tiny()
        yield f"mixed with {name}", changed(j, true[j] + share * true[other])
        # The scale that the bias gradient would give the mixture.
        yield f"moved towards {name}", changed(j, true[j] + share * (true[other] - true[j]))
        yield f"mean with {name}", changed(j, (true[j] + true[other]) / 2)
    yield "sum", changed(j, true[j] + true[k])
    yield "difference", changed(j, true[j] - true[k])
    yield "another record again", changed(j, true[k])
    yield "nearly another record", changed(j, true[k] + tiny() * scale * noise(width))
    yield "half of another", changed(j, torch.cat([true[j, : width // 2], true[k, width // 2 :]]))
    yield "mean of all", changed(j, true.mean(0))


def weakest(problem: Problem) -> Tensor:
    """The direction in which records are determined least: of the smallest singular value."""
    return problem.factors.right[:, -1]


def unseen(problem: Problem, step: Tensor) -> Tensor:
    """A unit vector that changes no pre-activation, or as little as can be."""
    weight = problem.layer.weight
    _, _, right = torch.linalg.svd(weight, full_matrices=len(weight) < weight.shape[1])
    kernel = right[len(weight) :] if len(weight) < weight.shape[1] else right[-1:]
    inside = kernel.T @ (kernel @ step)
    return inside / inside.norm()


def true_directions(problem: Problem, columns: Tensor) -> Tensor:
    """Unit directions of the true columns of dL/dZ, or of the true records of a sparse layer.

    Args:
        problem: The layer's.
        columns: dL/dZ, one record a column.
    """
    found = (problem.factors.left.T @ columns).T
    return found / found.norm(dim=1, keepdim=True)


def mixed_directions(
    problem: Problem, directions: Tensor, generator: torch.Generator
) -> Iterator[tuple[str, Tensor]]:
    """Batches that explain the gradient to rounding, biases included, with wrong zeros alone.

    Args:
        problem: A layer in the sparse-gradient setting.
        directions: The true ones, one a row.
        generator: Of all that is drawn.
    """
    size = len(directions)
    if size < 2 or problem.setting is not Setting.SPARSE_GRADIENT:
        return
    alike = (directions @ directions.T).abs().fill_diagonal_(0)
    values = directions @ problem.sparse.T
    draw = torch.rand(4, generator=generator)
    j = int(size * draw[0])
    k = int(alike[j].argmax()) if draw[1] < 0.6 else (j + 1 + int((size - 1) * draw[2])) % size
    share = 10 ** -float(9 * draw[3])
    neuron = int(torch.randint(len(values.T), (1,), generator=generator))
    shares: list[tuple[str, float]] = []
    if values[k, neuron] != 0:
        # One more zero than the mixture of any two has.
        once = -float(values[j, neuron] / values[k, neuron])
        shares.append(("mixed to vanish once more", once))
    both = (values[j] != 0) & (values[k] != 0)
    if bool(both.any()):
        ratios = -values[j, both] / values[k, both]
        # The share at which most entries vanish, to within a millionth.
        near = ((ratios[:, None] - ratios).abs() <= 1e-6 * ratios.abs()).sum(1)
        shares.append(("mixed to vanish most often", float(ratios[near.argmax()])))
    shares += [("mixed columns", share), ("mixed columns", -share)]
    for kind, part in shares:
        moved = directions.clone()
        moved[j] = directions[j] + part * directions[k]
        yield from _solved(problem, kind, moved)
    step = torch.randn(size, size, generator=generator, dtype=torch.float64)
    yield from _solved(problem, "all columns mixed", directions + share * step @ directions)
    yield from _solved(problem, "sparse by descent", sparsest(problem, directions, generator))


def sparsest(problem: Problem, like: Tensor, generator: torch.Generator) -> Tensor:
    """Directions with as many small entries as descent from a random start finds."""
    found = []
    for _ in like:
        q = torch.randn(like.shape[1], generator=generator, dtype=torch.float64)
        for _ in range(20):
            weights = 1 / ((problem.unit_rows @ q).abs() + 1e-9)
            gram = (problem.unit_rows * weights[:, None]).T @ problem.unit_rows
            q = torch.linalg.eigh(gram).eigenvectors[:, 0]
        found.append(q)
    return torch.stack(found)


def _solved(problem: Problem, kind: str, directions: Tensor) -> Iterator[tuple[str, Tensor]]:
    """The batch that the directions make, if they make one."""
    batch = disaggregate(problem, directions / directions.norm(dim=1, keepdim=True))
    if batch is not None:
        yield kind, batch.records


def merged(true: Tensor, columns: Tensor, rank: int) -> Tensor | None:
    """What a gradient shows of records with proportional columns, or of multiples of a record.

    Args:
        true: Records.
        columns: Their shares of dL/dZ, one a column.
        rank: Of the gradient.

    Returns:
        As many records as the rank, or None where the two do not account for it.
    """
    alike = _parallel(columns.T)
    multiples = _parallel(true)
    groups: list[list[int]] = []
    for j in range(len(true)):
        for group in groups:
            if bool(alike[j, group[0]] | multiples[j, group[0]]):
                group.append(j)
                break
        else:
            groups.append([j])
    if len(groups) != rank or rank == len(true):
        return None
    found = []
    for group in groups:
        part = columns[:, group]
        whole = part.sum(1)
        # What least squares makes of the group's share of the gradient and of the bias gradient.
        found.append(whole @ (part @ true[group]) / whole.square().sum().clamp(min=1e-300))
    return torch.stack(found)


def _parallel(rows: Tensor) -> Tensor:
    unit = rows / rows.norm(dim=1, keepdim=True).clamp(min=1e-300)
    return (unit @ unit.T).abs() > 1 - 1e-12
