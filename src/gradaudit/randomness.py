"""One rule for randomness: it comes from a generator that the caller can see."""

from __future__ import annotations

import torch

from gradaudit.errors import InputError


def make_generator(generator: torch.Generator | None, seed: int) -> torch.Generator:
    """The caller's generator, or a new one on the CPU from a seed.

    Args:
        generator: Used, and advanced, when given.
        seed: Starts a new generator otherwise; 0 or more, below 2**63.

    Raises:
        InputError: Neither is usable.

    Example:
        >>> make_generator(None, 7).initial_seed()
        7
    """
    if generator is not None:
        if not isinstance(generator, torch.Generator):
            raise InputError("generator", type(generator).__name__, "a torch.Generator")
        return generator
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**63:
        raise InputError("seed", repr(seed), "a whole number from 0 to 2**63 - 1")
    return torch.Generator().manual_seed(seed)
