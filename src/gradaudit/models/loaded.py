"""A caller's model with an update's weights in it, and the update under the model's own names."""

from __future__ import annotations

import copy
from collections import OrderedDict
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from gradaudit.errors import InputError
from gradaudit.update import Update, outer_prefix, strip_wrappers


@dataclass(frozen=True, eq=False)
class LoadedModel:
    """A copy of a model in evaluation mode, to be run with ``torch.func.functional_call``.

    Attributes:
        module: The copy; its own weights are not used.
        tensors: The update's weights and buffers, by the module's own names.
        observed: The observed change by the same names, in the dtype it was observed in.
        prefix: Where in the module the caller's network lies, such as ``"net."``; mostly empty.
    """

    module: nn.Module
    tensors: dict[str, Tensor]
    observed: dict[str, Tensor]
    prefix: str = ""

    @property
    def network(self) -> nn.Module:
        """The copy without what was put around it to match the update's names."""
        return self.module.get_submodule(self.prefix.rstrip("."))


def load_model(
    model: nn.Module,
    update: Update,
    *,
    dtype: torch.dtype = torch.float64,
    device: torch.device | str = "cpu",
) -> LoadedModel:
    """Copy a model and pair its parameters with an update's weights and observed change.

    Args:
        model: Any module, in a data-parallel wrapper or not; it is not touched. Where the update
            is that of a module around it (a LightningModule), it is put into such a module.
        update: Whose weights to put in.
        dtype: Of the copy and the weights.
        device: Where to compute.

    Returns:
        The pairing.

    Raises:
        InputError: The model's parameters are not the update's.

    Example:
        >>> weights = {"weight": torch.ones(2, 3), "bias": torch.zeros(2)}
        >>> loaded = load_model(nn.Linear(3, 2), Update(weights, gradient=weights))
        >>> torch.func.functional_call(loaded.module, loaded.tensors, torch.ones(3).double())
        tensor([3., 3.], dtype=torch.float64)
    """
    # Torch runs no data-parallel wrapper with other weights than its own.
    while isinstance(model, (nn.DataParallel, nn.parallel.DistributedDataParallel)):
        model = model.module
    # Tensors made in inference mode could not be differentiated later.
    with torch.inference_mode(False):
        network = copy.deepcopy(model).to(device=device, dtype=dtype).eval()
    _remove_opacus_hooks(network)
    prefix = outer_prefix(dict(network.state_dict()), update.weights)
    module = _nested(network, prefix)
    names = strip_wrappers("model", dict(module.state_dict()))
    own = dict(zip(names, module.state_dict(), strict=True))
    tensors: dict[str, Tensor] = {}
    for name, full in own.items():
        tensor = update.weights.get(name)
        if tensor is None:
            if names[name].dtype.is_floating_point:
                raise InputError(
                    "model",
                    f"a parameter {name!r} that the update's weights do not have",
                    "the model whose update this is",
                )
            continue
        if tensor.shape != names[name].shape:
            raise InputError(
                "model",
                f"{name!r} of shape {tuple(names[name].shape)}",
                f"{tuple(tensor.shape)}, the update's",
                "give the model whose update this is",
            )
        with torch.inference_mode(False):
            tensors[full] = tensor.to(device=device, dtype=dtype, copy=True)
    for name in update.observed:
        if name not in own:
            raise InputError(
                "model", f"no parameter {name!r}, which the update has", "the update's model"
            )
    observed = {own[name]: change.to(device) for name, change in update.observed.items()}
    return LoadedModel(module, tensors, observed, prefix)


def _remove_opacus_hooks(module: nn.Module) -> None:
    """Take Opacus's hooks off a copy: they keep gradients of records and fail on unusual passes."""
    for handle in getattr(module, "autograd_grad_sample_hooks", ()):
        handle.remove()


def _nested(module: nn.Module, prefix: str) -> nn.Module:
    """The same network under a prefix such as ``"model.net."``."""
    for name in reversed(prefix.split(".")[:-1]):
        try:
            # A new module is in training mode.
            module = nn.Sequential(OrderedDict([(name, module)])).eval()
        except KeyError:
            raise InputError(
                "model",
                f"parameters without the prefix {prefix!r} of the update's",
                "the model whose update this is",
            ) from None
    return module
