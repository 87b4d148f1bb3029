"""Results made by hand, as audits of every outcome would give them."""

from __future__ import annotations

import numpy as np
import torch

from gradaudit.evidence import (
    ApproximateEvidence,
    Certificate,
    Check,
    LayerReport,
    RecordEvidence,
    SearchReport,
    Spectrum,
    Status,
)
from gradaudit.preprocessing import Column, Preprocessing
from gradaudit.result import AuditResult
from gradaudit.truth import Truth

MEAN, STD = (0.45, 0.41, 0.38), (0.27, 0.25, 0.26)
COLOUR = Preprocessing(image_shape=(3, 32, 32), mean=MEAN, std=STD)


def patches(number: int, seed: int = 0) -> np.ndarray:
    """Natural patches (number, 3, 32, 32) in [0, 1]; smooth random ones without scikit-image."""
    generator = np.random.default_rng(seed)
    try:
        from skimage.data import astronaut
    except ImportError:
        coarse = generator.random((number, 3, 4, 4))
        return coarse.repeat(8, axis=2).repeat(8, axis=3)
    photo = astronaut() / 255.0
    corners = generator.integers(0, 480, size=(8 * number, 2))
    cuts = np.stack([photo[y : y + 32, x : x + 32].transpose(2, 0, 1) for y, x in corners])
    # Those with something on them, so that redaction has something to hide.
    return cuts[np.argsort(-cuts.std(axis=(1, 2, 3)), kind="stable")[:number]]


def inputs(number: int, seed: int = 0) -> torch.Tensor:
    """The same patches as network inputs, flat."""
    mean, std = (np.asarray(v).reshape(1, 3, 1, 1) for v in (MEAN, STD))
    return torch.from_numpy((patches(number, seed) - mean) / std).reshape(number, -1)


def spectrum(rank: int, extra: int = 100) -> Spectrum:
    generator = np.random.default_rng(1)
    large = np.sort(generator.uniform(0.05, 3.0, rank))[::-1]
    small = np.sort(generator.uniform(0.2, 1.0, extra))[::-1] * 3e-9
    return Spectrum(
        singular_values=tuple(float(v) for v in (*large, *small)),
        numerical_rank=rank,
        threshold=2e-7,
        gap_ratio=float(large[-1] / small[0]),
        has_gap=True,
        largest_possible_rank=rank + extra,
        noise_level=1.3e-10,
        explanation=f"A gap after value {rank} separates the signal from the rounding of float32.",
    )


def evidence(number: int, certified: int, labels: bool = True) -> tuple[RecordEvidence, ...]:
    good = [
        RecordEvidence(
            recovered=True,
            vanishing_entries=97 + index % 11,
            vanishing_needed=21,
            half_space_rows=198,
            half_space_mismatches=0,
            activation_gradient_residual=3.1e-7 * (1 + index % 4),
            label=index % 10 if labels else None,
            copies=2 if index == 3 else 1,
        )
        for index in range(certified)
    ]
    bad = RecordEvidence(
        recovered=False,
        vanishing_entries=18,
        vanishing_needed=21,
        half_space_rows=180,
        half_space_mismatches=14,
        reason="14 of 180 neurons contradict it; it is probably a mixture of two records",
    )
    return (*good, *[bad] * (number - certified))


def activation_gradients(number: int, neurons: int = 200) -> torch.Tensor:
    generator = np.random.default_rng(2)
    active = generator.random((neurons, number)) < 0.5
    return torch.from_numpy(generator.normal(size=(neurons, number)) * active)


CERTIFICATE = Certificate(
    kind="full_gradient",
    statement=(
        "The gradients of all three layers, recomputed from the recovered records with the given "
        "network, equal the observed ones to within the rounding of float32."
    ),
    checks=(
        Check("layer_gradient", 2.4e-7, 1e-5, True, "The first layer's gradient is explained."),
        Check("bias_gradient", 1.9e-7, 1e-5, True, "So is its bias gradient."),
        Check("full_gradient", 5.2e-7, 1e-4, True, "So are the gradients of all other layers."),
        Check("half_space", 0.0, 0.0, True, "No neuron contradicts a record."),
    ),
)

LAYERS = (
    LayerReport("fc1", (200, 3072), "input", True, Status.RECOVERED, "The first layer.", None),
    LayerReport("fc2", (200, 200), "interior", False, None, "Its inputs are no records.", None),
    LayerReport("fc3", (10, 200), "output", False, None, "Used to find the labels.", None),
)

SEARCH = SearchReport(
    attack="spear",
    reason="A ReLU layer of width 200 and a batch of 16 are within its reach.",
    setting="gradients at the layer's output are sparse",
    counters={"submatrices": 1_284_096.0, "directions": 212.0, "acceptance": 0.000165},
    seconds={"factor": 0.041, "search": 7.9, "certify": 0.32},
    seed=7,
    device="cpu",
    observed_dtype="float32",
    versions={"gradaudit": "0.1.0", "torch": "2.13.0", "numpy": "2.4.0"},
)

COMMON = {
    "search": SEARCH,
    "layers": LAYERS,
    "assumptions": (
        "The weights before the update and the update itself, as a server sees them.",
        "The update is one gradient of one batch.",
        "The network's architecture, for the certificate alone.",
    ),
    "update_sha256": "9f2c" * 16,
    "source": {"round-12.safetensors": "ab34" * 16},
    "created": "2026-03-05T14:22:31+00:00",
}


def recovered(number: int = 16, certified: int | None = None, **changes: object) -> AuditResult:
    """All, or with `certified` some, of a batch of photos recovered."""
    certified = number if certified is None else certified
    full = certified == number
    values = {
        "status": Status.RECOVERED if full else Status.PARTIAL,
        "cause": "Every direction of the batch was found and verified."
        if full
        else f"{number - certified} directions were not found before the search ended.",
        "remedy": "Aggregate updates of several clients securely before the server sees them, "
        "or train with differential privacy.",
        "layer": "fc1",
        "batch_size": number,
        "spectrum": spectrum(number),
        "records": inputs(number),
        "activation_gradients": activation_gradients(number),
        "evidence": evidence(number, certified),
        "certificate": CERTIFICATE,
        "preprocessing": COLOUR,
        **COMMON,
        **changes,
    }
    return AuditResult(**values)


def approximate(number: int = 3, certified: int = 0, **changes: object) -> AuditResult:
    """Some records known approximately, beside some certified ones."""
    photos = inputs(certified + number)
    values = {
        "status": Status.PARTIAL if certified else Status.BUDGET_EXHAUSTED,
        "cause": "The time budget of 30 seconds is used up.",
        "records": photos[:certified] if certified else None,
        "activation_gradients": activation_gradients(certified) if certified else None,
        "evidence": evidence(certified, certified),
        "batch_size": 16,
        "approximate_records": photos[certified:],
        "approximate_evidence": tuple(
            ApproximateEvidence(0.05 + 0.01 * index, 0.07 + 0.01 * index) for index in range(number)
        ),
        **changes,
    }
    return recovered(16, **values)


def table(number: int = 5, **changes: object) -> AuditResult:
    """Rows of a table recovered."""
    columns = (
        Column("age", mean=38.6, scale=13.6),
        Column("workclass", ("Private", "State-gov", "Self-emp")),
        Column("hours-per-week", mean=40.4, scale=12.3),
        Column("native-country", ("United-States", "Mexico", "?")),
    )
    generator = np.random.default_rng(3)
    rows = np.zeros((number, 8))
    rows[:, 0] = (generator.integers(18, 80, number) - 38.6) / 13.6
    rows[np.arange(number), 1 + generator.integers(0, 3, number)] = 1
    rows[:, 4] = (generator.integers(10, 60, number) - 40.4) / 12.3
    rows[np.arange(number), 5 + generator.integers(0, 3, number)] = 1
    preprocessing = Preprocessing(columns=columns, class_names=("<=50K", ">50K"))
    values = {
        "records": torch.from_numpy(rows),
        "preprocessing": preprocessing,
        "evidence": tuple(
            RecordEvidence(True, 60, 12, 198, 0, 1e-7, label=index % 2, copies=1)
            for index in range(number)
        ),
        **changes,
    }
    return recovered(number, **values)


def without_records(status: Status, **changes: object) -> AuditResult:
    """One of the outcomes that end without a reconstruction."""
    causes = {
        Status.NOT_RECOVERED: "None of 212 candidate directions passed the half-space test.",
        Status.BUDGET_EXHAUSTED: "The time budget of 600 seconds is used up.",
        Status.NOT_APPLICABLE: "The update holds no fully connected layer.",
    }
    values = {
        "status": status,
        "cause": causes[status],
        "remedy": "Run it again with a longer time budget, or try another attack.",
        **COMMON,
        "layers": (LayerReport("conv1", (16, 3, 3, 3), "other", False, None, "No linear layer."),),
    }
    if status is not Status.NOT_APPLICABLE:
        values |= {"spectrum": spectrum(16), "batch_size": 16, "layer": "fc1"}
    return AuditResult(**values | changes)


def every_status() -> dict[str, AuditResult]:
    """One result of each status, and one of each kind of record."""
    ended = {s.value: without_records(s) for s in Status if not s.leak_proven}
    return {
        "recovered": recovered(),
        "partial": recovered(16, 11),
        "table": table(),
        "vectors": recovered(4, preprocessing=None),
        **ended,
    }


def truth_of(result: AuditResult, seed: int = 5) -> Truth:
    """The originals in another order, apart by the rounding of float32."""
    assert result.records is not None
    order = np.random.default_rng(seed).permutation(len(result.records))
    originals = result.records[torch.from_numpy(order)].float()
    labels = torch.tensor([result.evidence[int(i)].label or 0 for i in order])
    return Truth(originals, labels, result.preprocessing)
