"""What a plan says, as data: it knows no attack, so that views may show it."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from gradaudit.errors import InputError
from gradaudit.planning.client import PlannedClient

# Attacks in the order of the table, each with what people call it.
TITLES = {
    "halfspace": "half-space search (auto)",
    "spear": "SPEAR",
    "spear++": "SPEAR++",
    "peeling": "peeling",
    "cocktail-party": "Cocktail Party",
    "rgap": "R-GAP",
    "dlg": "gradient matching",
    "closed_form": "closed form",
}
MEASURED, EXTRAPOLATED = "measured range", "extrapolated"
CAVEAT = (
    "A plan is no protection: these are the limits of the attacks known here, as measured today. "
    "Better searches move them, other attacks have others, and records that are not recovered "
    "exactly may still be guessed."
)
GPU_CAVEAT = "Seconds on a GPU are a guess, 20 times this processor's speed: none was measured."


@dataclass(frozen=True)
class Expectation:
    """What an attack is expected to do.

    Attributes:
        attack: As `gradaudit.audit` takes it.
        applies: Whether its rules allow it at all.
        reason: Why not, or what limits it.
        records: Expected number of records recovered.
        share: The same over all records.
        seconds: Core seconds on this machine; None where it does not apply, or would not end.
        gpu_seconds: A guess for a data-centre GPU, not measured.
        confidence: `MEASURED` or `EXTRAPOLATED`; empty where it does not apply.
    """

    attack: str
    applies: bool
    reason: str
    records: float = 0.0
    share: float = 0.0
    seconds: float | None = None
    gpu_seconds: float | None = None
    confidence: str = ""

    def to_json(self) -> dict[str, object]:
        """The same as JSON."""
        return {"title": TITLES[self.attack], **asdict(self)}


@dataclass(frozen=True)
class Change:
    """One change, and what is left of an attack's records after it.

    Attributes:
        lever: ``batch size``, ``width``, ``noise``, ``first layer's bias`` or ``activation``.
        value: What it becomes, in words; None where no value that was tried suffices.
        share: Expected share of the records recovered after it; None where nothing was found.
    """

    lever: str
    value: str | None
    share: float | None

    def to_json(self) -> dict[str, object]:
        """The same as JSON."""
        return asdict(self)


@dataclass(frozen=True)
class HeatMap:
    """The half-space search's expected share of records, by batch and width.

    Attributes:
        batches: Records, ascending.
        widths: Neurons, ascending.
        shares: A row for each width, a column for each batch; from 0 to 1.
    """

    batches: tuple[int, ...]
    widths: tuple[int, ...]
    shares: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Plan:
    """What to expect.

    Attributes:
        client: As planned.
        core_seconds: That an attacker is taken to spend on one update, on this machine.
        machine_factor: Seconds here over those of the machine the formulas were fitted on.
        expectations: One for each attack.
        changes: For each attack that is expected to recover something, the smallest changes.
        heat_map: None where it was not asked for.
    """

    client: PlannedClient
    core_seconds: float
    machine_factor: float
    expectations: tuple[Expectation, ...]
    changes: dict[str, tuple[Change, ...]]
    heat_map: HeatMap | None

    def by_attack(self, attack: str) -> Expectation:
        """The expectation of one attack.

        Raises:
            InputError: There is no such attack.
        """
        for each in self.expectations:
            if each.attack == attack:
                return each
        raise InputError("attack", repr(attack), "one of " + ", ".join(TITLES))

    def to_json(self) -> dict[str, object]:
        """The plan as JSON."""
        client = self.client
        grid = self.heat_map
        return {
            "client": {
                "layer": client.layer.name,
                "inputs": client.inputs,
                "width": client.width,
                "records": client.records,
                "batch_size": client.batch_size,
                "clients": client.clients,
                "local_steps": client.steps,
                "noise": client.noise,
                "centred": client.centred,
                "bias": client.bias,
                "activation": client.layer.activation or None,
            },
            "core_seconds": self.core_seconds,
            "machine_factor": self.machine_factor,
            "attacks": [each.to_json() for each in self.expectations],
            "changes": {name: [c.to_json() for c in found] for name, found in self.changes.items()},
            "heat_map": None if grid is None else dict(vars(grid)),
            "caveats": [CAVEAT, GPU_CAVEAT],
        }
