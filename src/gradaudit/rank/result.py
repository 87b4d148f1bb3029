"""The result of a rank analysis, as data, and what other networks would give."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from gradaudit.rank.architecture import Architecture
from gradaudit.rank.rows import LayerRow, rows_of
from gradaudit.rank.table import NO_PROMISE, summary, table, where_open
from gradaudit.rank.variants import change, usual_changes

# Of the layout of `RankAnalysis.to_json`.
SCHEMA = "gradaudit-rank-analysis/1"


@dataclass(frozen=True)
class RankAnalysis:
    """How much R-GAP's recursion can determine in a network, layer by layer.

    Attributes:
        architecture: The network's sizes.
        layers: One row a layer, from the input to the output.

    Example:
        >>> from gradaudit.models import cnn6_d
        >>> from gradaudit.rank import rank_analysis
        >>> analysis = rank_analysis(cnn6_d(), (3, 32, 32))
        >>> [(row.name, row.deficit) for row in analysis.losses]
        [('conv2', 280)]
    """

    architecture: Architecture
    layers: tuple[LayerRow, ...]

    @classmethod
    def of(
        cls, architecture: Architecture, *, measure: bool = False, seed: int = 0
    ) -> RankAnalysis:
        """Analyse an architecture; see `gradaudit.rank_analysis`."""
        return cls(architecture, rows_of(architecture, measure=measure, seed=seed))

    @property
    def losses(self) -> tuple[LayerRow, ...]:
        """Layers that leave something open, as the recursion meets them: the last layer first."""
        return tuple(row for row in reversed(self.layers) if row.deficit)

    @property
    def deficit(self) -> int:
        """Dimensions that are left open at all layers together."""
        return sum(row.deficit for row in self.layers)

    @property
    def where(self) -> str:
        """The first of these layers, with what they leave open, in words."""
        return where_open(self.layers)

    @property
    def summary(self) -> str:
        """What it says, in sentences."""
        return summary(self.layers)

    def __str__(self) -> str:
        return f"{table(self.layers)}\n\n{self.summary}"

    def to_json(self) -> dict[str, Any]:
        """Everything, for ``json.dump``.

        Example:
            >>> from gradaudit.models import mlp
            >>> from gradaudit.rank import rank_analysis
            >>> rank_analysis(mlp(4, [3], 2), (4,)).to_json()["layers"][0]["name"]
            'fc1'
        """
        return {
            "schema": SCHEMA,
            "input_shape": list(self.architecture.input_shape),
            "layers": [asdict(row) for row in self.layers],
            "losses": [row.name for row in self.losses],
            "deficit": self.deficit,
            "summary": self.summary,
        }

    def what_if(self) -> tuple[Variant, ...]:
        """Networks that differ in one decision each.

        Every convolution with the largest smaller number of channels at which its own equations
        leave something open; every convolution with twice its stride; every block without its skip
        connection. What no longer fits together is left out. `variant` takes any other change.

        Example:
            >>> from gradaudit.models import cnn6
            >>> from gradaudit.rank import rank_analysis
            >>> variants = rank_analysis(cnn6(), (3, 32, 32)).what_if()
            >>> next(v.title for v in variants if v.title.startswith("conv2"))
            'conv2 with 22 channels instead of 36'
        """
        changes = usual_changes(self.architecture)
        return tuple(
            Variant(title, RankAnalysis.of(changed), self.deficit) for title, changed in changes
        )

    def variant(
        self,
        *,
        channels: Mapping[str, int] | None = None,
        strides: Mapping[str, int] | None = None,
        without_skip: Collection[str] = (),
    ) -> RankAnalysis:
        """The analysis of the network with changes of one's own.

        Args:
            channels: New numbers of output channels, or neurons, by layer.
            strides: New strides, the same along both axes, by convolution.
            without_skip: Names of the blocks that lose their skip connection.

        Raises:
            InputError: A name is unknown, or the parts no longer fit.

        Example:
            >>> from gradaudit.models import cnn6
            >>> from gradaudit.rank import rank_analysis
            >>> rank_analysis(cnn6(), (3, 32, 32)).variant(channels={"conv2": 20}).deficit
            280
        """
        return RankAnalysis.of(
            change(self.architecture, channels=channels, strides=strides, without_skip=without_skip)
        )


@dataclass(frozen=True)
class Variant:
    """A changed network, as a question to its architect.

    Attributes:
        title: What is changed.
        analysis: Of the changed network.
        before: Dimensions left open in the network as it is.
    """

    title: str
    analysis: RankAnalysis
    before: int

    @property
    def where(self) -> str:
        """Layers that leave something open, the last layer first."""
        return self.analysis.where

    @property
    def advice(self) -> str:
        """What the change does to the recursion, in a sentence that promises nothing."""
        if not self.analysis.losses:
            return f"With {self.title} the recursion still determines every layer's input."
        return (
            f"With {self.title} the linear equations leave {self.analysis.deficit:,} dimensions "
            f"open instead of {self.before:,}, at {self.where}. {NO_PROMISE}"
        )

    def to_json(self) -> dict[str, Any]:
        """The change, and what it leaves open where."""
        return {
            "title": self.title,
            "deficit": self.analysis.deficit,
            "losses": {row.name: row.deficit for row in self.analysis.losses},
            "advice": self.advice,
        }
