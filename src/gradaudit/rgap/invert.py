"""R-GAP on observed gradients: one record each, by linear algebra alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from gradaudit.chain import Affine, Chain, Step
from gradaudit.rgap.candidates import Candidate
from gradaudit.rgap.last_layer import LastLayer, Start, starts
from gradaudit.rgap.layer import LayerSolution
from gradaudit.rgap.operators import LayerEquations
from gradaudit.rgap.problem import Known
from gradaudit.rgap.recursion import Recursion
from gradaudit.rgap.suited import check, homogeneous, split

# A way to begin is given up where a layer's gradient equations leave this part of its gradient,
# unless all do: a wrong label leaves most of it, rounding next to nothing.
INCONSISTENT = 0.1


def invert_chain(
    chain: Chain,
    gradients: Mapping[str, Float[Tensor, "r ..."]],
    noise: Mapping[str, Float[Tensor, "r ..."]],
    *,
    loss: str,
    scale_known: bool = True,
    stop: Callable[[], bool] = lambda: False,
) -> list[tuple[Candidate, ...]]:
    """Recover the record behind each of several gradients of one network.

    Args:
        chain: The network, with weights in float64.
        gradients: By parameter, one gradient a row, in float64.
        noise: By parameter, standard deviation of its gradient's entries, for each output.
        loss: Name of the client's loss.
        scale_known: Whether gradients are those of the loss, and no multiples of it.
        stop: Asked during iterations; true ends them with what there is.

    Returns:
        For each gradient the inputs that explain it, as far as the layers' equations tell. Several
        where the last layer allows for several; of a positively homogeneous network they are
        multiples of each other that have the same gradient.

    Raises:
        NotSolvableError: The chain or the gradients are not of a kind that can be solved.

    Source:
        R-GAP (arXiv 2010.07733), algorithm 1.
    """
    body, last = split(chain)
    check(chain, gradients, noise)
    found = starts(_observed(last, gradients, noise, loss, scale_known))
    records = len(gradients[last.weight_name])
    alike = homogeneous(chain)
    places = [(s, r) for r in range(records) for s in found if bool(s.valid[r])]
    if alike:
        # The last of those that differ by a positive factor, one a label: it always exists.
        places = list({(r, int(s.label[r])): (s, r) for s, r in places}.values())
    solved = []
    if places:
        device = gradients[last.weight_name].device
        rows = torch.tensor([r for _, r in places], device=device)
        solved = _walk(body, last, places, Recursion(gradients, noise, rows, stop))
    results: list[list[Candidate]] = [[] for _ in range(records)]
    for (start, r), flat in solved:
        candidate = replace(flat, inputs=flat.inputs.reshape(chain.input_shape))
        results[r].append(candidate)
        if alike:
            results[r] += _multiples(found, start, r, candidate)
    return [tuple(candidates) for candidates in results]


def _observed(
    last: Affine,
    gradients: Mapping[str, Tensor],
    noise: Mapping[str, Tensor],
    loss: str,
    scale_known: bool,
) -> LastLayer:
    bias = last.bias_name
    observed = bias is not None and bias in gradients
    return LastLayer(
        last,
        gradients[last.weight_name],
        noise[last.weight_name],
        gradients[bias] if observed and bias is not None else None,
        noise[bias] if observed and bias is not None else None,
        loss,
        scale_known,
    )


def _walk(
    body: Sequence[Step],
    last: Affine,
    places: list[tuple[Start, int]],
    recursion: Recursion,
) -> list[tuple[tuple[Start, int], Candidate]]:
    """Go backwards from every start at once, giving up those that do not fit."""
    k = torch.stack([start.output_gradient[r] for start, r in places])
    known = Known(
        torch.stack([start.inputs[r] for start, r in places]),
        torch.stack([start.error[r] for start, r in places]),
        LayerEquations(last, k).input_gradient(),
        torch.stack([start.gradient_error[r] for start, r in places]),
    )
    for step in reversed(body):
        alive = _alive(known)
        if not bool(alive.all()):
            places = [place for place, keep in zip(places, alive.tolist(), strict=True) if keep]
            known, recursion = known.rows(alive), recursion.keep(alive)
        if not places:
            return []
        before = len(recursion.solutions)
        known = recursion.back([step], known)
        if len(recursion.solutions) > before and len(places) > 1:
            kept = _consistent(recursion.solutions[-1], [r for _, r in places])
            if not bool(kept.all()):
                places = [place for place, keep in zip(places, kept.tolist(), strict=True) if keep]
                known, recursion = known.rows(kept), recursion.keep(kept)
    assert known.values is not None  # noqa: S101 - only inside a skip block
    return [
        (
            (start, r),
            Candidate(
                start.name,
                known.values[p],
                int(start.label[r]) if int(start.label[r]) >= 0 else None,
                float(known.error[p].square().mean().sqrt()),
                tuple(solution.row(p) for solution in recursion.solutions),
                {name: int(count[p]) for name, count in recursion.saturated.items()},
            ),
        )
        for p, (start, r) in enumerate(places)
    ]


def _alive(known: Known) -> Tensor:
    """Which starts still have a gradient: without one, no layer before has any, but one is seen."""
    gradient = known.gradient
    alive = torch.isfinite(gradient).all(1) & (gradient != 0).any(1)
    return alive if known.values is None else alive & torch.isfinite(known.values).all(1)


def _consistent(solution: LayerSolution, records: list[int]) -> Tensor:
    """Which starts a layer's equations allow: all that fit, or else a record's best one."""
    residuals = solution.gradient_residual.tolist()
    best: dict[int, float] = {}
    for r, residual in zip(records, residuals, strict=True):
        best[r] = min(residual, best.get(r, residual))
    return torch.tensor(
        [v <= max(INCONSISTENT, best[r]) for r, v in zip(records, residuals, strict=True)],
        device=solution.inputs.device,
    )


def _multiples(
    found: Sequence[Start], mine: Start, r: int, candidate: Candidate
) -> list[Candidate]:
    """The other solutions of a homogeneous network: multiples of the one that was computed."""
    more = []
    for other in found:
        same = other is not mine and int(other.label[r]) == int(mine.label[r])
        if same and bool(other.valid[r]):
            factor = float(mine.output_gradient[r, 0] / other.output_gradient[r, 0])
            more.append(
                replace(
                    candidate,
                    name=other.name,
                    inputs=candidate.inputs * factor,
                    error=candidate.error * factor,
                )
            )
    return more
