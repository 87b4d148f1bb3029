"""One rule for randomness: it comes from a generator that the caller can see."""

from __future__ import annotations

import hashlib

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


def make_own_generator(seed: int, purpose: str) -> torch.Generator:
    """A new generator on the CPU, of a stream that nothing else draws from for the same seed.

    Weights and noise that are drawn one after the other from equal generators are the same numbers
    in two guises: noise then leans on the weights, which no real noise does.

    Args:
        seed: As in `make_generator`.
        purpose: What it is for; another purpose is another stream.

    Raises:
        InputError: The seed is not usable.

    Example:
        >>> noise = make_own_generator(7, "noise")
        >>> noise.initial_seed() == make_own_generator(7, "noise").initial_seed()
        True
        >>> noise.initial_seed() == make_own_generator(7, "order").initial_seed()
        False
    """
    make_generator(None, seed)
    digest = hashlib.sha256(f"{purpose} {seed}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "big") >> 1)
