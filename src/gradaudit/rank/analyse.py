"""From a network to its rank analysis."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from gradaudit.chain import chain_of
from gradaudit.errors import InputError
from gradaudit.rank.describe import architecture_of
from gradaudit.rank.result import RankAnalysis


def rank_analysis(
    model: nn.Module, input_shape: Sequence[int], *, measure: bool = False, seed: int = 0
) -> RankAnalysis:
    """Count what the gradient of one record determines in a network, layer by layer.

    R-GAP walks a network from its output to its input and solves a linear system at every layer.
    Where the system has fewer independent equations than unknowns, the recursion loses data. The
    analysis needs sizes alone: no gradient, no data, no weights.

    A deficit is no protection: equations of other layers remain, which are nonlinear. Without a
    deficit, and with invertible activations, a record is recovered.

    Args:
        model: A network with one input and one output; its mode counts, see `gradaudit.chain`.
        input_shape: Of a record, without the batch, such as ``(3, 32, 32)``.
        measure: Also measure ranks at random weights, where that takes a few seconds a layer;
            counting is exact except for small effects at borders.
        seed: Of these weights.

    Returns:
        The analysis: one row a layer, `str` of it is a table.

    Raises:
        InputError: The network cannot be traced, refuses the shape, or has no layer.

    Source:
        Zhu and Blaschko, arXiv 2010.07733; the exact ranks are `gradaudit.theory.layer_rank`.

    Example:
        >>> from gradaudit.models import lenet
        >>> [row.exact_index for row in rank_analysis(lenet(), (1, 28, 28)).layers]
        [1724, 432, 444, 0]
    """
    architecture = architecture_of(chain_of(model, input_shape))
    if next(architecture.layers(), None) is None:
        raise InputError("model", "no layer with a weight", "convolutions or linear layers")
    return RankAnalysis.of(architecture, measure=measure, seed=seed)
