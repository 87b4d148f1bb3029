"""From an update to a result: layers, applicability, attack, certification."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor, nn

from gradaudit.applicability import ATTACKS, NETWORK_ATTACKS, update_refusal
from gradaudit.budget import Budget, Control
from gradaudit.errors import InputError
from gradaudit.gradient_matching import METHODS, Knowledge, Method
from gradaudit.layers import plan_layers
from gradaudit.models import parse_model
from gradaudit.models.losses import AUTO, Loss
from gradaudit.result import AuditResult
from gradaudit.session import Network, NetworkMaker, Session, Setup, note_request
from gradaudit.session.precision import full_float32
from gradaudit.update import Update


@full_float32()
def audit(
    update: Update,
    *,
    model: nn.Module | str | None = None,
    loss: str | Loss | Callable[[Tensor, Tensor], Tensor] = AUTO,
    layer: str = "auto",
    attack: str = "auto",
    knowledge: Knowledge | None = None,
    method: Method | None = None,
    invert_features: bool = False,
    budget: Budget | None = None,
    seed: int = 0,
    device: str = "auto",
    control: Control | None = None,
) -> AuditResult:
    """Try to recover the records behind an update, and prove what was recovered.

    Weights and gradient suffice for fully connected layers. With a model (given, or guessed where
    the weights form a chain of such layers) labels are recovered too, and the proof extends to the
    gradient of all layers; a guess that does not reproduce the gradient is dropped.

    Args:
        update: What was observed.
        model: The network, for labels and the full-gradient proof, or the text that names it
            (`gradaudit.models.parse_model`); its own weights do not matter.
        loss: The client's loss, by name or as a function giving one loss a record. ``"auto"``:
            binary_cross_entropy where the weights are a chain of layers that ends in a single
            logit, else cross_entropy.
        layer: Module path, or ``"auto"`` to examine every layer, inputs first, until a leak is
            proven.
        attack: ``"auto"`` (closed form for one record, else all that suit the layer and the batch,
            together), ``"halfspace"``, ``"peeling"``, ``"spear"``, ``"spear++"`` or
            ``"closed_form"``; ``"cocktail-party"`` (estimates of a batch of any size, proven by
            nothing); or, on all layers of a given model, ``"rgap"`` (a single record),
            ``"dlg"``, ``"idlg"`` (a single record) or ``"inverting-gradients"``.
        knowledge: What the attacker knows of the batch, for the attacks that match gradients.
        method: Settings of such an attack instead of its usual ones.
        invert_features: Where the recovered records are features, such as those behind
            convolutions, search for the input of each (`gradaudit.invert_features`), as an
            estimate; needs the model and the images' shape.
        budget: Limits of the search; the default is ten minutes.
        seed: Of every random choice, 0 or more. The same seed gives the same result on the same
            machine unless the time runs out.
        device: ``"auto"`` (a GPU if there is one), ``"cpu"``, ``"cuda"``, ...
        control: To watch or stop the search from outside; brings its own budget.

    Returns:
        The result; a failure is a status with a cause and a remedy, not an exception. Its
        ``request`` is what is asked for here, so that `gradaudit.rerun` can repeat it.

    Raises:
        InputError: An argument cannot be used.

    Example:
        >>> from gradaudit.clients import FedSGD
        >>> from gradaudit.models import mlp
        >>> inputs = torch.randn(4, 30, generator=torch.Generator().manual_seed(1)).double()
        >>> client = FedSGD(mlp(30, [60, 60], 3, dtype=torch.float64))
        >>> update, truth = client.update(inputs, torch.tensor([0, 1, 2, 0]))
        >>> audit(update).records_recovered
        4
    """
    if attack not in ATTACKS:
        raise InputError("attack", repr(attack), "one of " + ", ".join(ATTACKS))
    if budget is not None and control is not None:
        raise InputError("budget, control", "both", "one of them; a control has its own budget")
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**63:
        raise InputError("seed", repr(seed), "a whole number from 0 to 2**63 - 1")
    _check_matching(attack, knowledge, method)
    _check_features(invert_features, model, attack)
    place = _device(device)
    control = control or Control(budget or Budget())
    spec = model if isinstance(model, str) else None
    if isinstance(model, str):
        model = parse_model(model, seed=seed)
    request = note_request(
        update,
        network=None if model is None else Network(model, spec),
        loss=loss,
        layer=layer,
        attack=attack,
        knowledge=knowledge,
        method=method,
        invert_features=invert_features,
        budget=control.budget,
        seed=seed,
        device=device,
    )
    refused = update_refusal(update, attack)
    # What weight decay did to the weights is known, and no part of any gradient.
    gradients = update if refused is not None else update.without_decay()
    plan = plan_layers(gradients)
    network_of = NetworkMaker(gradients, plan, model, loss, place, control.budget.memory)
    names = [candidate.name for candidate, _ in plan.linear]
    if layer != "auto" and layer not in names:
        found = ", ".join(map(repr, names[:6])) or "none"
        raise InputError("layer", repr(layer), f"a fully connected layer of the update: {found}")
    generator = torch.Generator(place).manual_seed(seed)
    state = Session(
        update,
        Setup(
            gradients,
            plan,
            attack,
            seed,
            generator,
            control,
            network_of,
            place,
            knowledge or Knowledge(),
            method,
        ),
    )
    if attack in NETWORK_ATTACKS and layer != "auto":
        raise InputError("layer", repr(layer), f"no layer: {attack} is on all of them")
    if refused is not None:
        state.refuse(refused)
    elif attack in NETWORK_ATTACKS:
        state.attack_network()
    else:
        for candidate, role in plan.linear:
            state.visit(candidate, role, wanted=layer in ("auto", candidate.name))
        if invert_features:
            state.invert_features()
    return replace(state.result(), request=request)


def _check_features(wanted: bool, model: nn.Module | str | None, attack: str) -> None:
    """Whether features can be inverted at all, before anything is searched."""
    if wanted and model is None:
        raise InputError("model", "None", "the network whose features are to be inverted")
    if wanted and attack in NETWORK_ATTACKS:
        raise InputError(
            "invert_features",
            f"True with the attack {attack!r}, which gives inputs of the network",
            "False, or an attack on a single layer",
        )


def _check_matching(attack: str, knowledge: Knowledge | None, method: Method | None) -> None:
    """Whether what only gradient matching takes comes with such an attack."""
    for name, value in (("knowledge", knowledge), ("method", method)):
        if value is not None and attack not in METHODS:
            raise InputError(
                name, f"one with the attack {attack!r}", "none, or one of " + ", ".join(METHODS)
            )
    if method is not None and method.name != attack:
        raise InputError("method", repr(method.name), f"{attack!r}, the attack that is asked for")


def _device(device: str) -> torch.device:
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        place = torch.device(device)
        # Read back: the device "meta" makes tensors, but computes nothing.
        torch.ones(1, device=place).item()
    except (RuntimeError, AssertionError) as error:
        raise InputError(
            "device", repr(device), "a device that is present", "pass device='cpu'"
        ) from error
    return place
