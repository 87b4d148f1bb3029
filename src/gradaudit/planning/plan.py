"""``ga.plan``: every attack's prospects on a planned client, and what would change them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from torch import nn

from gradaudit.errors import InputError
from gradaudit.planning.changes import changes
from gradaudit.planning.client import PlannedClient, sizes_of_model, sizes_of_widths
from gradaudit.planning.expect import expect
from gradaudit.planning.machine import machine_factor
from gradaudit.planning.result import TITLES, Expectation, HeatMap, Plan
from gradaudit.theory.limits import WALL_SECONDS
from gradaudit.update import GradientStep, LocalTraining

# The map's batches and widths, each from this part of the client's own to this multiple of it.
MAP_STEPS, MAP_RATIO = 13, 16.0


def plan(
    model: nn.Module | None = None,
    *,
    widths: Sequence[int] | None = None,
    input_shape: Sequence[int] | None = None,
    batch_size: int = 1,
    clients: int = 1,
    training: GradientStep | LocalTraining | None = None,
    noise: float = 0.0,
    centred: bool = True,
    activation: str = "relu",
    bias: bool = True,
    core_seconds: float = WALL_SECONDS,
    calibrate: bool = True,
    heat_map: bool = True,
) -> Plan:
    """Say, from sizes alone, what each attack is expected to recover from a client's update.

    Args:
        model: The network; or say its ``widths``.
        widths: Inputs, neurons of every layer, outputs, of a fully connected network.
        input_shape: Of a record, with ``model``.
        batch_size: Distinct records of one client.
        clients: Whose updates a secure aggregation sums.
        training: What one update is; a single gradient by default.
        noise: Standard deviation of Gaussian noise in each entry of the mean gradient.
        centred: Whether inputs have a mean near zero.
        activation: With ``widths``.
        bias: With ``widths``: whether the first layer has a bias.
        core_seconds: That an attacker spends on one update.
        calibrate: Whether to time a matrix product, to scale seconds to this machine.
        heat_map: Whether to compute the map of batches by widths.

    Returns:
        The plan; nothing in it calls a client protected.

    Raises:
        InputError: An argument is out of range, or both or neither of ``model`` and ``widths``
            are given.

    Example:
        >>> said = plan(widths=[3072, 200, 200, 10], batch_size=20, calibrate=False)
        >>> said.by_attack("halfspace").records
        20.0
    """
    if not core_seconds > 0:
        raise InputError("core_seconds", repr(core_seconds), "a number above 0")
    if widths is not None and model is None:
        architecture = sizes_of_widths(widths, activation)
    elif model is not None and widths is None:
        if input_shape is None:
            raise InputError("input_shape", "none", "the shape of a record")
        architecture, bias = sizes_of_model(model, input_shape)
    else:
        given = "neither model nor widths" if model is None else "both model and widths"
        raise InputError("model", given, "one of the two")
    client = PlannedClient(
        architecture,
        bias=bias,
        batch_size=batch_size,
        clients=clients,
        training=GradientStep() if training is None else training,
        noise=noise,
        centred=centred,
    )
    factor = machine_factor() if calibrate else 1.0

    def expected(client: PlannedClient, attack: str) -> Expectation:
        return expect(client, attack, core_seconds=core_seconds, factor=factor)

    def share(attack: str, client: PlannedClient) -> float:
        return expected(client, attack).share

    found = tuple(expected(client, attack) for attack in TITLES)
    moves = {
        each.attack: changes(client, partial(share, each.attack))
        for each in found
        if each.share > 0
    }
    grid = _heat_map(client, core_seconds, factor) if heat_map else None
    return Plan(client, core_seconds, factor, found, moves, grid)


def _heat_map(client: PlannedClient, core_seconds: float, factor: float) -> HeatMap:
    batches, widths = (_around(client.records), _around(client.width))
    shares = tuple(
        tuple(
            expect(
                replace(client.with_width(width), batch_size=batch, clients=1),
                "halfspace",
                core_seconds=core_seconds,
                factor=factor,
            ).share
            for batch in batches
        )
        for width in widths
    )
    return HeatMap(batches, widths, shares)


def _around(value: int) -> tuple[int, ...]:
    """Numbers around one, evenly in the logarithm, with itself among them."""
    middle = MAP_STEPS // 2
    powers = [MAP_RATIO ** ((i - middle) / middle) for i in range(MAP_STEPS)]
    return tuple(sorted({max(1, round(value * power)) for power in powers}))
