"""The seeds of shards."""

from __future__ import annotations

import numpy as np


def shard_seed(seed: int, shard: int) -> int:
    """The seed of one shard; the first one's is the search's own.

    Args:
        seed: Of the whole search, from 0 to 2**63 - 1.
        shard: From 0 on.

    Example:
        >>> shard_seed(7, 0)
        7
        >>> shard_seed(7, 1) != shard_seed(8, 1)
        True
    """
    if shard == 0:
        return seed
    words = np.random.SeedSequence(seed, spawn_key=(shard,)).generate_state(1, np.uint64)
    return int(words[0]) >> 1
