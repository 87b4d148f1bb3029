"""What could not fit into this machine's memory is refused before it is tried."""

from __future__ import annotations

from torch import nn

from gradaudit.errors import InputError
from gradaudit.memory import size_text, total_memory

# A record is held as pixels, as a float64 input while it is made, and as the network's input.
_RECORD_COPIES = 3
# The network itself, the client's copy, the weights that are sent, and their gradient.
_WEIGHT_COPIES = 4
# A layer's output, its activation, and the gradient of it.
_OUTPUT_COPIES = 3
_FLOAT64_BYTES = 8


def check_records(batch_size: int, features: int | None) -> None:
    """Check that a batch of records could be held.

    Args:
        batch_size: Records.
        features: Values of a record; None when unknown.

    Raises:
        InputError: It could not.
    """
    needed = batch_size * (features or 0) * _RECORD_COPIES * _FLOAT64_BYTES
    _check("batch_size", f"{batch_size:,} records", needed)


def check_network(network: nn.Module, batch_size: int, bytes_per_number: int) -> None:
    """Check that a network's gradient of a batch could be computed.

    Convolutions take more than is counted here.

    Args:
        network: The network.
        batch_size: Records.
        bytes_per_number: Of the floating-point type that the client computes in.

    Raises:
        InputError: It could not.
    """
    weights = sum(p.numel() for p in network.parameters())
    _check("model", f"{weights:,} weights", weights * _WEIGHT_COPIES * bytes_per_number)
    outputs = sum(len(p) for p in network.parameters() if p.ndim >= 2)
    needed = batch_size * outputs * _OUTPUT_COPIES * bytes_per_number
    _check("batch_size", f"{batch_size:,} records with {outputs:,} neurons each", needed)


def _check(argument: str, found: str, needed: int) -> None:
    memory = total_memory()
    if memory is not None and needed > memory:
        raise InputError(
            argument,
            f"{found}, which need {size_text(needed)} or more",
            f"what fits into this machine's {size_text(memory)} of memory",
        )
