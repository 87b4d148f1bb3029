"""The result of an audit: a status with evidence, to and from JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from jaxtyping import Float
from torch import Tensor

from gradaudit.errors import InputError
from gradaudit.evidence import (
    Certificate,
    Check,
    LayerReport,
    RecordEvidence,
    SearchReport,
    Spectrum,
    Status,
)
from gradaudit.preprocessing import Preprocessing
from gradaudit.tensorfile import check_file, read_tensors, replacing, sha256_of, write_tensors

SCHEMA = "gradaudit.audit-result"
SCHEMA_VERSION = "1"
MAX_JSON_BYTES = 64 * 2**20


@dataclass(frozen=True, eq=False)
class AuditResult:
    """What an audit found, with the evidence for it.

    Attributes:
        status: What was established.
        cause: Why this status, in one sentence.
        remedy: What to do about it, in one sentence.
        layer: The layer whose inputs the records are, or None.
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
        layers: What was analysed, what not, and why.
        search: How the search went.
        assumptions: What the attacker was assumed to know, and what the proof rests on.
        preprocessing: How to show the records, if known.
        update_sha256: Digest of the audited update's content.
        source: Files the update was read from, with their digests.
        created: When, in ISO 8601, UTC.
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
    layers: tuple[LayerReport, ...] = ()
    search: SearchReport = field(default_factory=SearchReport)
    assumptions: tuple[str, ...] = ()
    preprocessing: Preprocessing | None = None
    update_sha256: str = ""
    source: Mapping[str, str] = field(default_factory=dict)
    created: str = ""

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

    def shaped_records(self) -> Tensor | None:
        """The records in the network's input shape when it is known, else flat."""
        if self.records is None or self.preprocessing is None:
            return self.records
        shape = self.preprocessing.image_shape
        if shape is None or math.prod(shape) != self.records.shape[1]:
            return self.records
        return self.records.reshape(-1, *shape)

    def summary(self) -> str:
        """The verdict in one sentence."""
        if self.status is Status.RECOVERED:
            return (
                f"Proven leak: all {self.batch_size} distinct records of the batch were recovered "
                f"from layer {self.layer!r} and certified."
            )
        if self.status is Status.PARTIAL:
            return (
                f"Proven leak: {self.records_recovered} of {self.batch_size} records were "
                f"recovered from layer {self.layer!r} and certified."
            )
        return f"{self.status.meaning} {self.cause}"

    def to_json(self) -> dict[str, Any]:
        """Everything but the arrays, under the documented schema."""
        return {
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
            "layers": [
                {**asdict(layer), "outcome": layer.outcome.value if layer.outcome else None}
                for layer in self.layers
            ],
            "search": asdict(self.search),
            "assumptions": list(self.assumptions),
            "preprocessing": None if self.preprocessing is None else self.preprocessing.to_json(),
            "update_sha256": self.update_sha256,
            "source": dict(self.source),
            "created": self.created,
            "arrays": None,
        }

    def save(self, path: str | Path, *, keep_records: bool = True) -> None:
        """Write the JSON and, beside it, the arrays as ``NAME.safetensors``.

        Both are replaced atomically, arrays first, and the JSON names the arrays' digest, so that
        a pair from two different runs is noticed when it is read.

        Args:
            path: The JSON file.
            keep_records: False leaves out the arrays, which are personal data.
        """
        value = self.to_json()
        arrays = {
            name: tensor
            for name in ("records", "activation_gradients")
            if (tensor := getattr(self, name)) is not None
        }
        if arrays and keep_records:
            beside = Path(path).with_suffix(".safetensors")
            write_tensors(beside, arrays, {"format": SCHEMA, "version": SCHEMA_VERSION})
            value["arrays"] = {"file": beside.name, "sha256": sha256_of(beside)}
        with replacing(path) as temporary:
            temporary.write_text(
                json.dumps(_finite(value), indent=2, allow_nan=False, ensure_ascii=False) + "\n",
                encoding="utf-8",
            )

    @classmethod
    def load(cls, path: str | Path) -> AuditResult:
        """Read what `save` wrote.

        Raises:
            InputError: Not such a file, another schema version, or arrays of another run.
        """
        if check_file(path) > MAX_JSON_BYTES:
            raise InputError(str(path), "a file too large for a result", "a result's JSON")
        try:
            value = json.loads(Path(path).read_text(encoding="utf-8"))
            if value["schema"] != SCHEMA or value["schema_version"] != SCHEMA_VERSION:
                raise InputError(
                    str(path),
                    f"{value['schema']} version {value['schema_version']}",
                    f"{SCHEMA} version {SCHEMA_VERSION}",
                    "run the audit again with this version",
                )
            arrays = _load_arrays(Path(path), value["arrays"])
            return _from_json(value, arrays)
        except InputError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise InputError(
                str(path),
                f"no audit result ({type(error).__name__}: {error})",
                "the JSON that an audit writes",
            ) from error


def _finite(value: Any) -> Any:
    """Replace infinities and nan, which JSON cannot hold, by None."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _load_arrays(path: Path, arrays: Mapping[str, str] | None) -> dict[str, Tensor]:
    if arrays is None:
        return {}
    name = arrays["file"]
    if Path(name).name != name:
        raise InputError(str(path), f"arrays in {name!r}", "a file name without a folder")
    beside = path.with_name(name)
    check_file(beside)
    if sha256_of(beside) != arrays["sha256"]:
        raise InputError(
            str(beside), "arrays of another run", "the arrays that belong to this JSON"
        )
    return read_tensors(beside)[0]


def _from_json(value: Mapping[str, Any], arrays: Mapping[str, Tensor]) -> AuditResult:
    certificate = value["certificate"]
    preprocessing = value["preprocessing"]
    return AuditResult(
        status=Status(value["status"]),
        cause=value["cause"],
        remedy=value["remedy"],
        layer=value["layer"],
        batch_size=value["batch_size"],
        spectrum=_spectrum(value["spectrum"]),
        records=arrays.get("records"),
        activation_gradients=arrays.get("activation_gradients"),
        scale_identified=value["scale_identified"],
        evidence=tuple(RecordEvidence(**record) for record in value["evidence"]),
        certificate=Certificate(
            certificate["kind"],
            certificate["statement"],
            tuple(
                # Only a number that JSON cannot hold is None: an infinite residual.
                Check(**{**check, "value": _number(check["value"])})
                for check in certificate["checks"]
            ),
        ),
        layers=tuple(
            LayerReport(
                **{
                    **layer,
                    "shape": tuple(layer["shape"]),
                    "outcome": Status(layer["outcome"]) if layer["outcome"] else None,
                    "spectrum": _spectrum(layer["spectrum"]),
                }
            )
            for layer in value["layers"]
        ),
        search=SearchReport(**value["search"]),
        assumptions=tuple(value["assumptions"]),
        preprocessing=None if preprocessing is None else Preprocessing.from_json(preprocessing),
        update_sha256=value["update_sha256"],
        source=value["source"],
        created=value["created"],
    )


def _number(value: float | None) -> float:
    return math.inf if value is None else value


def _spectrum(value: Mapping[str, Any] | None) -> Spectrum | None:
    if value is None:
        return None
    return Spectrum(**{**value, "singular_values": tuple(value["singular_values"])})
