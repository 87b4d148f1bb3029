"""What the names in a state dict say."""

from __future__ import annotations

# Put before a module's name by wrappers: Opacus, DataParallel and DDP, torch.compile.
WRAPPER_PREFIXES = ("_module.", "module.", "_orig_mod.")

# BatchNorm's state: in a state dict, but never differentiated.
BUFFER_SUFFIXES = ("running_mean", "running_var", "num_batches_tracked")


def layer_name(weight_name: str) -> str:
    """The module path of a weight: its name without ``.weight`` (``""`` for a bare layer)."""
    return weight_name[: -len("weight")].rstrip(".")


def without_wrappers(name: str) -> str:
    """A name without the prefixes that wrappers put before it.

    Example:
        >>> without_wrappers("_orig_mod._module.fc.weight")
        'fc.weight'
    """
    while prefix := next((p for p in WRAPPER_PREFIXES if name.startswith(p)), ""):
        name = name[len(prefix) :]
    return name


def is_buffer(name: str) -> bool:
    """Whether a name is of BatchNorm's running statistics.

    Example:
        >>> is_buffer("bn1.running_mean"), is_buffer("bn1.weight")
        (True, False)
    """
    return name.rpartition(".")[2] in BUFFER_SUFFIXES
