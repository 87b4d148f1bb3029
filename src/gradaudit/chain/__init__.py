"""A network as a chain of steps that can be computed backwards, or that say why they cannot."""

from gradaudit.chain.activations import Activation
from gradaudit.chain.maps import AveragePool, ChannelScale
from gradaudit.chain.steps import Affine, Chain, Reshape, Skip, Step, Unsolvable
from gradaudit.chain.trace import chain_of

__all__ = [
    "Activation",
    "Affine",
    "AveragePool",
    "Chain",
    "ChannelScale",
    "Reshape",
    "Skip",
    "Step",
    "Unsolvable",
    "chain_of",
]
