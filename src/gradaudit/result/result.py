"""The result of an audit: a status with evidence."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from jaxtyping import Float
from torch import Tensor

from gradaudit.errors import InputError
from gradaudit.evidence import (
    ApproximateEvidence,
    Certificate,
    LayerReport,
    RecordEvidence,
    SearchReport,
    Spectrum,
    Status,
)
from gradaudit.preprocessing import Preprocessing
from gradaudit.result.file import ARRAYS, SCHEMA, SCHEMA_VERSION, plain, read_result, write_result
from gradaudit.result.request import Request


@dataclass(frozen=True, eq=False)
class AuditResult:
    """What an audit found, with the evidence for it.

    Attributes:
        status: What was established.
        cause: Why this status, in one sentence.
        remedy: What to do about it, in one sentence.
        layer: The layer whose inputs the records are; None where they are the network's own, found
            from all layers together.
        batch_size: Number of distinct records whose signal is visible, or None when unknown.
        spectrum: The singular values that decided the batch size, or None.
        records: One recovered input a row, in no particular order (the order of a batch leaves no
            trace in a gradient); float64; None when there is no reconstruction at all.
        activation_gradients: Loss gradient at the layer's output, one column a record; None
            without records.
        scale_identified: False when the layer has no bias gradient: records are then unit vectors,
            right up to a positive factor each.
        evidence: What speaks for each record.
        certificate: The proof that needs no ground truth.
        approximate_records: Estimates of further records that are not recovered, one a row, or
            None; of network inputs, if the records are features that were inverted. They prove
            nothing and are counted nowhere.
        approximate_evidence: How far off each of these is expected to be.
        layers: What was analysed, what not, and why.
        search: How the search went.
        assumptions: What the attacker was assumed to know, and what the proof rests on.
        preprocessing: How to show the records, if known.
        update_sha256: Digest of the audited update's content.
        source: Files the update was read from, with their digests.
        request: What the audit was asked; None when unknown, as in results of schema version 1.
        created: When, in ISO 8601, UTC.

    Raises:
        InputError: Records, activation gradients and evidence are not of one count.

    Example:
        >>> result = AuditResult(Status.NOT_RECOVERED, "The rank is full.", "Try a smaller batch.")
        >>> result.summary()
        'The attack ran and did not recover any record. The rank is full.'
    """

    status: Status
    cause: str
    remedy: str
    layer: str | None = None
    batch_size: int | None = None
    spectrum: Spectrum | None = None
    records: Float[Tensor, "b n"] | None = None
    activation_gradients: Float[Tensor, "m b"] | None = None
    scale_identified: bool = True
    evidence: tuple[RecordEvidence, ...] = ()
    certificate: Certificate = field(default_factory=Certificate)
    approximate_records: Float[Tensor, "a p"] | None = None
    approximate_evidence: tuple[ApproximateEvidence, ...] = ()
    layers: tuple[LayerReport, ...] = ()
    search: SearchReport = field(default_factory=SearchReport)
    assumptions: tuple[str, ...] = ()
    preprocessing: Preprocessing | None = None
    update_sha256: str = ""
    source: Mapping[str, str] = field(default_factory=dict)
    created: str = ""
    request: Request | None = None

    def __post_init__(self) -> None:
        estimates = self.approximate_records
        if estimates is not None and len(estimates) != len(self.approximate_evidence):
            raise InputError(
                "result",
                f"{len(estimates)} approximate records, {len(self.approximate_evidence)} errors",
                "one of each",
            )
        if self.records is None:
            return
        counts = {"records": len(self.records), "evidence": len(self.evidence)}
        if self.activation_gradients is not None:
            counts["activation_gradients"] = self.activation_gradients.shape[-1]
        if self.records.ndim != 2 or len(set(counts.values())) != 1:
            found = ", ".join(f"{number} {name}" for name, number in counts.items())
            raise InputError(
                "result",
                f"{found} with records {tuple(self.records.shape)}",
                "one of each",
            )

    @property
    def recovered(self) -> tuple[bool, ...]:
        """Per record, whether it is certified."""
        return tuple(record.recovered for record in self.evidence)

    @property
    def labels(self) -> tuple[int | None, ...]:
        """Per record, its class if it was determined."""
        return tuple(record.label for record in self.evidence)

    @property
    def records_recovered(self) -> int:
        """Number of certified records."""
        return sum(self.recovered)

    @property
    def records_are_features(self) -> bool:
        """Whether the estimates are network inputs and the records features of these."""
        both = self.records is not None and self.approximate_records is not None
        return both and self.records.shape[1] != self.approximate_records.shape[1]  # type: ignore[union-attr]

    def shaped_records(self) -> Tensor | None:
        """The records in the network's input shape when it is known, else flat."""
        if self.records is None or self.preprocessing is None:
            return self.records
        shape = self.preprocessing.image_shape
        if shape is None or math.prod(shape) != self.records.shape[1]:
            return self.records
        return self.records.reshape(-1, *shape)

    @property
    def _origin(self) -> str:
        return "the whole network" if self.layer is None else f"layer {self.layer!r}"

    def summary(self) -> str:
        """The verdict in one sentence."""
        if self.status.leak_proven and self.certificate.kind == "within_noise":
            count = self.records_recovered
            what, each = ("1 record was", "") if count == 1 else (f"{count} records were", "each ")
            return (
                f"Proven leak: {what} recovered from {self._origin}, {each}to within an estimated "
                "error; noise may hide others."
            )
        if self.status is Status.RECOVERED:
            what = f"all {self.batch_size} distinct records of the batch were"
            if self.batch_size == 1:
                what = "the only distinct record of the batch was"
            return f"Proven leak: {what} recovered from {self._origin} and certified."
        if self.status is Status.PARTIAL:
            were = "was" if self.records_recovered == 1 else "were"
            return (
                f"Proven leak: {self.records_recovered} of {self.batch_size} records {were} "
                f"recovered from {self._origin} and certified."
            )
        return f"{self.status.meaning} {self.cause}"

    def to_json(self) -> dict[str, Any]:
        """Everything but the arrays, as plain JSON values under the documented schema.

        Numbers that JSON cannot hold, infinities and nan, become None.
        """
        value = {
            "schema": SCHEMA,
            "schema_version": SCHEMA_VERSION,
            "status": self.status.value,
            "cause": self.cause,
            "remedy": self.remedy,
            "summary": self.summary(),
            "leak_proven": self.status.leak_proven,
            "layer": self.layer,
            "batch_size": self.batch_size,
            "records_recovered": self.records_recovered,
            "scale_identified": self.scale_identified,
            "spectrum": None if self.spectrum is None else asdict(self.spectrum),
            "evidence": [asdict(record) for record in self.evidence],
            "certificate": asdict(self.certificate),
            "approximate_evidence": [asdict(record) for record in self.approximate_evidence],
            "layers": [asdict(layer) for layer in self.layers],
            "search": asdict(self.search),
            "assumptions": list(self.assumptions),
            "preprocessing": None if self.preprocessing is None else self.preprocessing.to_json(),
            "update_sha256": self.update_sha256,
            "source": dict(self.source),
            "created": self.created,
            "request": None if self.request is None else asdict(self.request),
            "arrays": None,
        }
        return {key: plain(item) for key, item in value.items()}

    def save(self, path: str | Path, *, keep_records: bool = True) -> None:
        """Write the JSON and, beside it, the arrays as ``NAME.safetensors``.

        Both are replaced atomically, arrays first, and the JSON names the arrays' digest, so that
        a pair from two different runs is noticed when it is read.

        Args:
            path: The JSON file.
            keep_records: False leaves out the arrays, which are personal data.

        Raises:
            InputError: The path cannot be written to, or is itself a ``.safetensors`` path.
        """
        arrays = {name: tensor for name in ARRAYS if (tensor := getattr(self, name)) is not None}
        write_result(path, self.to_json(), arrays if keep_records else {})

    @classmethod
    def load(cls, path: str | Path) -> AuditResult:
        """Read what `save` wrote, and check it: types, keys, counts, and the arrays' digest.

        Raises:
            InputError: Not such a file, a schema version that this one does not read, or arrays of
                another run.
        """
        fields, derived = read_result(path)
        result = cls(**fields)
        expected = result.to_json()
        for key in ("leak_proven", "records_recovered"):
            if derived[key] != expected[key]:
                raise InputError(
                    f"{path}: {key}",
                    repr(derived[key]),
                    f"{expected[key]!r}, as status and evidence say",
                )
        if result.status.leak_proven and not any(result.recovered):
            raise InputError(
                f"{path}: status",
                f"{result.status.value!r} without a certified record",
                "one or more",
            )
        return result
