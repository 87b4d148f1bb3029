"""Which layers of a network R-GAP's recursion can invert, and how much it loses at the others."""

from gradaudit.rank.analyse import rank_analysis
from gradaudit.rank.architecture import Architecture
from gradaudit.rank.result import RankAnalysis, Variant
from gradaudit.rank.rows import LayerRow

__all__ = ["Architecture", "LayerRow", "RankAnalysis", "Variant", "rank_analysis"]
