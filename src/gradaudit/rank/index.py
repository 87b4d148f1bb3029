r"""R-GAP's rank analysis index, which accumulates along the depth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Size:
    """What the index asks of a layer.

    Attributes:
        unknowns: Entries of its input, :math:`|x_n|`.
        outputs: Entries of its output, :math:`|z_n|`.
        equations: Independent equations about its input, as far as they are counted.
    """

    unknowns: int
    outputs: int
    equations: int

    @property
    def rank(self) -> int:
        """At most the number of unknowns."""
        return min(self.unknowns, self.equations)


@dataclass(frozen=True)
class Accumulated:
    """The index at one layer.

    Attributes:
        virtual_constraints: :math:`V_i`.
        index: :math:`RA_i`; negative where the recursion is predicted to lose something.
    """

    virtual_constraints: int
    index: int


def accumulate(layers: Sequence[Size]) -> tuple[Accumulated, ...]:
    r"""The index of every layer, from the input to the output.

    Where a layer's output is larger than its input, :math:`|z_n| > |x_n|`, the output lies in a
    subspace that the weights determine; these virtual constraints help at all later layers, less
    what later layers lack:

    .. math:: V_i = \sum_{n<i} \max(|z_n| - |x_n|, 0) - \sum_{1<n<i} \max(|x_n| - rank(A_n), 0)

    .. math:: RA_i = \min_{n \le i} (rank(A_n) + V_n - |x_n|)

    In the paper's analysis :math:`rank(A_n) = \min(|x_n|, |dW_n| + |z_n| - 1)`. Behind an
    activation the virtual constraints are nonlinear: R-GAP's recursion does not use them, an
    optimisation attack can.

    Args:
        layers: In the order of the forward pass.

    Returns:
        One for every layer.

    Source:
        Zhu and Blaschko, arXiv 2010.07733, rank analysis, as far as we understand its formula.

    Example:
        >>> accumulate([Size(4, 6, 9), Size(6, 3, 5), Size(3, 1, 3)])[1]
        Accumulated(virtual_constraints=2, index=0)
    """
    found: list[Accumulated] = []
    gained = lacked = 0
    lowest: int | None = None
    for number, layer in enumerate(layers):
        virtual = gained - lacked
        here = layer.rank + virtual - layer.unknowns
        lowest = here if lowest is None else min(lowest, here)
        found.append(Accumulated(virtual, lowest))
        gained += max(layer.outputs - layer.unknowns, 0)
        if number > 0:
            lacked += layer.unknowns - layer.rank
    return tuple(found)
