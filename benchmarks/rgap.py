"""R-GAP: accuracy, time and memory of the recursion, against the record that a client used.

python benchmarks/rgap.py [--again]
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

import torch
from _cases import CIFAR, MNIST, UNIT, source
from _measure import PeakMemory
from _results import Results, parser, table
from torch import Tensor, nn

import gradaudit as ga
from gradaudit.models.loaded import load_model
from gradaudit.models.losses import get_loss
from gradaudit.rgap import Candidate, invert, invert_many
from gradaudit.rgap.gradient_map import GradientMap
from gradaudit.rgap.observed import observe
from gradaudit.rgap.refine import refine

LOSS = "binary_cross_entropy"
LENET = (1, 28, 28)
CNN6 = (3, 32, 32)


@dataclass(frozen=True)
class Setting:
    """A network and what is measured with it.

    Attributes:
        data: A file of the data folder.
        shape: Of a record.
        network: A function of `gradaudit.models`.
        dtype: Of the network and its gradient.
        options: Of the network.
        images: How many, each with weights of its own.
        refined: Whether the refinement on all gradients follows.
    """

    data: str
    shape: tuple[int, int, int]
    network: str
    dtype: str = "float32"
    options: tuple[tuple[str, str], ...] = ()
    images: int = 10
    refined: bool = False

    def model(self, seed: int) -> nn.Sequential:
        """The network, drawn from a seed."""
        make = getattr(ga.models, self.network)
        return make(self.shape, num_classes=1, seed=seed, dtype=self.dtype, **dict(self.options))


def _lenet(activation: str, init: str) -> Setting:
    return Setting(MNIST, LENET, "lenet", options=(("activation", activation), ("init", init)))


SETTINGS = {
    "CNN6, float32": Setting(CIFAR, CNN6, "cnn6"),
    "CNN6, float64": Setting(CIFAR, CNN6, "cnn6", "float64", images=3),
    "CNN6-d, float32": Setting(CIFAR, CNN6, "cnn6_d", images=2),
    **{
        f"LeNet, {activation}, {init}{', refined' * refined}": replace(
            _lenet(activation, init), refined=refined
        )
        for activation in ("sigmoid", "leaky_relu")
        for init in ("pytorch", "uniform")
        for refined in (False, True)
    },
}
MANY, AUDIT = "CNN6, float32, ten at once", "CNN6, float32, audited"
# What was measured of the authors' code on a machine like this one, with two images.
THEIRS = "15 and 20 dB, 720 to 1,138 s an image, 6.8 GiB"


def sent(
    setting: Setting, number: int, weights: int | None = None
) -> tuple[ga.Update, Tensor, int]:
    """A client's update of one image, the image, and its label; labels alternate.

    But with the other label where the network is so sure of the first one that the gradient is
    zero in the network's type: large weights make logits of hundreds.
    """
    chosen = source(setting.data + UNIT).batch(1, seed=number, dtype=getattr(torch, setting.dtype))
    client = ga.clients.FedSGD(setting.model(number if weights is None else weights), loss=LOSS)
    image = chosen.inputs[0].double()
    for label in (number % 2, 1 - number % 2):
        update, _ = client.update(chosen.inputs, torch.tensor([label]), chosen.preprocessing)
        if any(bool(gradient.any()) for gradient in update.observed.values()):
            return update, image, label
    raise ValueError(f"image {number} has no gradient with either label")


def likely(candidates: Sequence[Candidate]) -> Candidate:
    """Of the candidates that lie between 0 and 1, or else all, the brightest: no look at the truth.

    Of two multiples with the same gradient the smaller one is often next to black.
    """
    possible = [
        c for c in candidates if float((c.inputs - c.inputs.clamp(0, 1)).abs().max()) < 0.05
    ]
    return max(possible or candidates, key=lambda c: float(c.inputs.norm()))


def mean_square(found: Tensor, image: Tensor) -> float:
    return float((found - image).square().mean())


def decibels(error: float) -> float:
    """PSNR of pixels between 0 and 1."""
    return float(-10 * torch.tensor(error).log10())


def measure(setting: Setting, number: int) -> dict[str, Any]:
    """One image: the recursion, and the refinement if it is asked for."""
    update, image, label = sent(setting, number)
    model = setting.model(number)
    memory = PeakMemory()
    started, worked = time.perf_counter(), time.process_time()
    one = likely(invert(model, update, input_shape=setting.shape, loss=LOSS))
    inputs = one.inputs
    if setting.refined:
        inputs = _refined(model, update, one)
    seconds, work = time.perf_counter() - started, time.process_time() - worked
    return {
        "image": number,
        "mse": mean_square(inputs, image),
        "predicted_error": one.error,
        "label_right": one.label == label,
        "deficits": one.deficits,
        "residual": one.residual,
        "condition": max(float(layer.condition[0]) for layer in one.layers),
        "iterations": {layer.layer: layer.iterations for layer in one.layers},
        "seconds": round(seconds, 3),
        "core_seconds": round(work, 3),
        "peak_mib": memory.mib(),
    }


def _refined(model: nn.Module, update: ga.Update, one: Candidate) -> Tensor:
    loaded = load_model(model, update)
    labels = torch.tensor([one.label])
    of = GradientMap(loaded, get_loss(LOSS), labels, observe([update], [loaded]))
    return refine(of, one.inputs[None]).inputs[0]


def measure_many(setting: Setting) -> dict[str, Any]:
    """Ten updates of the same weights, together."""
    pairs = [sent(setting, number, weights=0) for number in range(setting.images)]
    memory = PeakMemory()
    started, worked = time.perf_counter(), time.process_time()
    found = invert_many(
        setting.model(0), [update for update, _, _ in pairs], input_shape=setting.shape, loss=LOSS
    )
    seconds, work = time.perf_counter() - started, time.process_time() - worked
    errors = [
        mean_square(likely(candidates).inputs, image)
        for candidates, (_, image, _) in zip(found, pairs, strict=True)
    ]
    return {
        "image": -1,
        "mse": median(errors),
        "worst_mse": max(errors),
        "seconds": round(seconds / len(pairs), 3),
        "core_seconds": round(work / len(pairs), 3),
        "peak_mib": memory.mib(),
    }


def measure_audit(setting: Setting, number: int) -> dict[str, Any]:
    """The whole audit, with its certificate."""
    update, image, label = sent(setting, number)
    memory = PeakMemory()
    started, worked = time.perf_counter(), time.process_time()
    result = ga.audit(update, attack="rgap", model=setting.model(number), loss=LOSS)
    seconds, work = time.perf_counter() - started, time.process_time() - worked
    whole = result.records is not None and result.scale_identified
    return {
        "image": number,
        "status": result.status.value,
        "certificate": result.certificate.kind,
        "mse": mean_square(result.records[0], image.flatten()) if whole else None,
        "predicted_error": result.evidence[0].estimated_error if result.evidence else None,
        "label_right": result.labels == (label,),
        "seconds": round(seconds, 3),
        "core_seconds": round(work, 3),
        "peak_mib": memory.mib(),
    }


def page(results: Results) -> list[str]:
    """The figures for readers."""
    lines = [
        "# R-GAP",
        "",
        "The record behind the gradient of a batch of one, by linear algebra alone. Single logit,",
        "logistic loss, no biases; each image has weights of its own, labels alternate. MSE and",
        "PSNR are of pixels between 0 and 1, in the median and at worst; core seconds are those",
        "of one image with one thread; peak memory is what was added to the process.",
        "",
    ]
    head = ("setting", "images", "median MSE", "median dB", "worst dB", "core s", "peak MiB")
    rows = []
    for name in (*SETTINGS, MANY):
        found = results.rows(name)
        if not found or "LeNet" in name:
            continue
        errors = [row["mse"] for row in found]
        worst = max(row.get("worst_mse", row["mse"]) for row in found)
        count = SETTINGS["CNN6, float32"].images if name == MANY else len(found)
        rows.append(
            (
                name,
                f"{count}",
                f"{median(errors):.1e}",
                f"{decibels(median(errors)):.0f}",
                f"{decibels(worst):.0f}",
                f"{median(row['core_seconds'] for row in found):.2f}",
                f"{max(row['peak_mib'] or 0 for row in found):.0f}",
            )
        )
    lines += table(head, rows)
    lines += ["", f"The authors' code on CNN6 with float32 gradients, two images: {THEIRS}.", ""]
    lines += _losses(results) + _audits(results) + _lenets(results)
    return lines


def _losses(results: Results) -> list[str]:
    found = results.rows("CNN6-d, float32")
    if not found:
        return []
    deficits = sorted({f"{name}: {d}" for row in found for name, d in row["deficits"].items()})
    return [
        "CNN6-d has unknowns that no equation of their layer determines: "
        f"{', '.join(deficits)}. What the",
        "recursion gives then is no record, and none is claimed.",
        "",
    ]


def _audits(results: Results) -> list[str]:
    found = results.rows(AUDIT)
    if not found:
        return []
    rows = [
        (
            str(row["image"]),
            row["status"],
            row["certificate"],
            "" if row["mse"] is None else f"{row['mse'] ** 0.5:.1e}",
            "" if row["predicted_error"] is None else f"{row['predicted_error']:.1e}",
            f"{row['core_seconds']:.1f}",
            f"{row['peak_mib'] or 0:.0f}",
        )
        for row in found
    ]
    head = ("image", "status", "certificate", "RMS error", "predicted", "core s", "peak MiB")
    return [
        "The audit with R-GAP, CNN6, float32: recursion, recomputed gradient of all layers, error",
        "predicted from the gradient's derivative, and what two records would leave.",
        "",
        *table(head, rows),
        "",
    ]


def _lenets(results: Results) -> list[str]:
    rows = []
    for name in SETTINGS:
        found = results.rows(name)
        if not found or "LeNet" not in name:
            continue
        _, activation, init, *refined = name.split(", ")
        errors = [row["mse"] for row in found]
        rows.append(
            (
                "LeNet" if activation == "sigmoid" else "LeNet*",
                activation,
                init,
                "R-GAP, refined on all gradients" if refined else "R-GAP",
                f"{median(errors):.1e}",
                f"{max(errors):.1e}",
                f"{median(row['core_seconds'] for row in found):.2f}",
            )
        )
    if not rows:
        return []
    head = ("network", "activation", "weights", "attack", "median MSE", "worst MSE", "core s")
    return [
        "## The paper's Table 1",
        "",
        "LeNet on 28 x 28 digits, float32. The paper gives, for R-GAP and DLG, an MSE of 1.1e-4",
        "and 3.7e-8 on LeNet, and of 1.5e-10 and 5.2e-2 on LeNet*. So DLG is the more accurate of",
        "the two on LeNet and fails on LeNet*; a summary of the paper says it the other way round.",
        "LeNet* is taken to be LeNet with LeakyReLU. Weights are PyTorch's, or uniform between",
        "-0.5 and 0.5 as in DLG's published code. DLG's own rows are in gradient_matching.md.",
        "",
        *table(head, rows),
    ]


def main() -> None:
    options = parser(__doc__ or "", seconds=60.0)
    arguments = options.parse_args()
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    results = Results(arguments.out / "rgap.json", [*SETTINGS, MANY, AUDIT], again=arguments.again)
    # Let libraries load what they need on first use, which is nobody's time.
    measure(replace(SETTINGS["CNN6, float32"], images=1), 0)
    for name, setting in SETTINGS.items():
        results.begin(name)
        for number in range(len(results.rows(name)), setting.images):
            results.add(name, measure(setting, number))
    single = SETTINGS["CNN6, float32"]
    results.begin(MANY)
    if not results.rows(MANY):
        results.add(MANY, measure_many(single))
    results.begin(AUDIT)
    for number in range(len(results.rows(AUDIT)), 3):
        results.add(AUDIT, measure_audit(single, number))
    results.page(page(results))


if __name__ == "__main__":
    main()
