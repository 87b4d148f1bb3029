"""How well R-GAP's recursion determined each layer, for a result's list of layers."""

from __future__ import annotations

from collections.abc import Sequence

from gradaudit.chain import Affine
from gradaudit.evidence import LayerReport, Status
from gradaudit.rgap import Candidate


def counters(candidates: Sequence[Candidate]) -> dict[str, float]:
    """How well the network as a whole determines its input, for the best candidate.

    Args:
        candidates: Of the recursion.
    """
    if not candidates:
        return {"candidates": 0.0}
    candidate = min(candidates, key=lambda each: each.residual)
    return {
        "candidates": float(len(candidates)),
        "unknowns without equation": float(sum(candidate.deficits.values())),
        "largest condition number": max(
            (float(layer.condition[0]) for layer in candidate.layers), default=1.0
        ),
        "outputs rounded away": float(sum(candidate.saturated.values())),
    }


def layer_reports(
    candidates: Sequence[Candidate], layers: Sequence[Affine], status: Status
) -> tuple[LayerReport, ...]:
    """What the recursion says of each layer, for the best candidate.

    Args:
        candidates: Of the recursion.
        layers: Of the network, the first one first.
        status: What the attack came to.
    """
    solved = {}
    if candidates:
        best = min(candidates, key=lambda each: each.residual)
        solved = {layer.layer: layer for layer in best.layers}
    reports = []
    for place, layer in enumerate(layers):
        last = place == len(layers) - 1
        solution = solved.get(layer.name)
        reason = "The recursion begins here." if last else "Not reached."
        if solution is not None:
            reason = (
                f"{solution.unknowns:,} unknowns, {int(solution.rank[0]):,} independent equations: "
                f"a deficit of {int(solution.deficit[0]):,}; condition number "
                f"{float(solution.condition[0]):.2g}, {float(solution.gradient_residual[0]):.1g} "
                "of the gradient unexplained."
            )
        role = "interior" if place and not last else "output" if place else "input"
        analysed = last or solution is not None
        reports.append(
            LayerReport(
                layer.name,
                tuple(layer.weight.shape),
                role,
                analysed,
                status if analysed else None,
                reason,
            )
        )
    return tuple(reports)
