"""Why a part of a network has no equations of ours, and what could be done: in words, by kind."""

from __future__ import annotations

OTHER_ATTACK = "audit the fully connected layers with the attack 'auto', which needs no chain"

MIXED = (
    "the records of a batch are mixed there",
    "take a forward that keeps the first dimension, one entry a record",
)
TRAINING = (
    "in training mode its output depends on the other records or on chance",
    "call model.eval() if the client computed its gradient in evaluation mode; else "
    + OTHER_ATTACK,
)
AFTER_ACTIVATION = (
    "average pooling behind an activation leaves the means of what an activation bent, which "
    "determine no single entry",
    "pool before the activation; or " + OTHER_ATTACK,
)
NOT_INVERTIBLE = (
    "a channel is multiplied by zero there",
    "take weights from later in training; or " + OTHER_ATTACK,
)

_REASONS = {
    "computed weight": (
        "its weight is computed from other parameters, so that its own gradient is not observed",
        "fold the parametrisation into a plain weight",
    ),
    "shared weight": (
        "it uses weights that another layer uses too, so that their gradients are summed",
        "give each layer its own weights",
    ),
    "batched linear": (
        "a fully connected layer acts on each of several rows of a record",
        "take an equal convolution of kernel 1",
    ),
    "padding mode": ("the padding is not with zeros", "pad with zeros"),
    "uneven padding": (
        "the padding of its two sides differs",
        "take an odd kernel, or give the padding as a number",
    ),
    "uneven pooling": ("its windows are not of one size", "take a size that divides the input's"),
    "pooling without channels": ("it pools something else than images", OTHER_ATTACK),
    "threshold": ("its threshold is not 20, as torch has it", "leave the threshold out"),
    "functional layer": (
        "its weight is not that of a module of its own",
        "call a module, torch.nn.Linear or Conv2d, inside the network",
    ),
    "falling": ("it does not rise everywhere, so that an output fits two inputs", OTHER_ATTACK),
}

_BY_WORD = (
    ("max_pool", "max pooling keeps one entry of a window and hides the others"),
    ("maxpool", "max pooling keeps one entry of a window and hides the others"),
    ("pool", "pooling of this kind is not described"),
    ("gelu", "it does not rise everywhere, so that an output fits two inputs"),
    ("silu", "it does not rise everywhere, so that an output fits two inputs"),
    ("mish", "it does not rise everywhere, so that an output fits two inputs"),
    ("hardswish", "it does not rise everywhere, so that an output fits two inputs"),
    ("norm", "normalisation by the record's own statistics is not linear"),
    ("softmax", "a softmax forgets what is added to all of its inputs"),
    ("hardtanh", "it is flat on both sides, so that an output fits many inputs"),
    ("relu6", "it is flat on both sides, so that an output fits many inputs"),
    ("attention", "attention is not linear in its input"),
)


def reason_for(kind: str) -> tuple[str, str]:
    """Reason and remedy for a kind of step that is not described.

    Args:
        kind: A key of this file, or the name of a module's class or of a function.

    Example:
        >>> reason_for("MaxPool2d")[0]
        'max pooling keeps one entry of a window and hides the others'
    """
    if kind in _REASONS:
        return _REASONS[kind]
    if kind in ("linear", "conv2d"):
        return _REASONS["functional layer"]
    for word, reason in _BY_WORD:
        if word in kind.lower():
            return reason, OTHER_ATTACK
    return f"{kind} is not among the steps that are described", OTHER_ATTACK
