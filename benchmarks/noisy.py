"""Records recovered from gradients with Gaussian noise, beside what the noise allows.

    python benchmarks/noisy.py [--only PATTERN] [--seeds N] [--seconds S] [--again]

CIFAR-10, six layers. Needs the data folder named by GRADAUDIT_DATA (see CONTRIBUTING.md). Writes
benchmarks/results/noisy.json and .md after every seed; an interrupted run goes on where it was.
"""

from __future__ import annotations

import re
import statistics
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from _measure import warm_up
from _noise import measure, simulate
from _results import Results, parser, table

import gradaudit as ga

SMALL, MIDDLE, LARGE, HUGE = (20, 200), (65, 1000), (150, 1000), (150, 4000)
CLIP = 2.0
# Of SPEAR++'s table 3, at C = 2: its sigma as ours, and as DP-SGD's noise multiplier.
PUBLISHED = {
    (SMALL, 1e-4, False): "31.9 dB, 75 %",
    (SMALL, 1e-5, True): "31.9 dB, 75 %",
    (HUGE, 1e-6, False): "55.5 dB, 88 %",
}
NEAR_FLOOR_DB = 1.5
# A record that a person recognises.
RECOGNISED_DB = 19.0

INTRODUCTION = """# Gradients with noise

CIFAR-10, normalised; six layers, PyTorch's initialisation, float64. Every entry of the mean
gradient that is sent, of all layers, carries independent Gaussian noise of standard deviation
sigma; `attack="auto"`, which is told sigma. Another seed is another batch, network and noise.

**How records are counted.** A record *stands above the noise* where the first layer's gradient has
a singular value for it above the edge of the noise's spectrum, sigma (sqrt(m) + sqrt(n)); others
cannot be told from noise by the spectrum. A batch is *complete* when every record above the noise
is certified. PSNR is of pixels in [0, 1], not clipped, of certified records; the share above 19 dB
is the part of all records that is certified and better than that. *Inputs of later layers* are what
the audit certified there when it recovered nothing from the first.

**False** is a certified record further than three times its estimated error from every true one.

**The floor** is least squares with the true activation gradients, which nobody has: an error of
about sigma / |g_j| in every entry of record j. No attack on this layer alone does better without
knowing more of the data. The audit gets there by the network, which is read off the weights: see
docs/noise.md. Where layers are wide, later layers' gradients lead below it: a negative gap.

**By zeros alone** is the best that the first layer's zeros give, without the network: the joint fit
of all records, started from the true directions. What the zeros leave open mixes records, the more
the more alike they are.

**Estimated errors** are the audit's own, of the root mean square of a record's error; the true one
is measured afterwards.

**SPEAR++'s** figures are of its table 3 (arXiv 2510.24200), at C = 2. The range of its pixels, the
scale of its sigma and how it counts accuracy need not be ours: they stand beside ours for their
order, not for a decibel. At b = 20 and sigma = 1e-4 its 31.9 dB lie above our floor, so that its
sigma is hardly the noise in an entry of the mean gradient; as a noise multiplier, of a sum that is
divided by the batch size, it is our sigma C / b = 1e-5. Both rows show it.
"""
RECOVERED = (
    "setting",
    "SPEAR++",
    "batches",
    "status",
    "above the noise",
    "certified of these",
    "certified of all",
    "complete batches",
    "above 19 dB of all",
    "inputs of later layers",
    "false",
    "labels right",
    "median core s",
)
EXACTNESS = (
    "setting",
    "PSNR mean",
    "median",
    "least",
    "floor, same records",
    "floor, all records",
    "gap to the floor, mean",
    "median",
    "within 1.5 dB",
    "by zeros alone",
    "estimated within a factor of 2",
    "largest true over estimated",
)


@dataclass(frozen=True)
class Setting:
    """One row of the tables.

    Attributes:
        shape: Batch size and width.
        noise: Standard deviation in an entry of the mean gradient.
        seeds: How many.
        private: Whether it is DP-SGD's, which also clips each record's gradient at `CLIP`.
    """

    shape: tuple[int, int]
    noise: float
    seeds: int
    private: bool = False

    @property
    def name(self) -> str:
        """Of the row."""
        b, m = self.shape
        kind = f"DP-SGD, C = {CLIP:g}, sigma C / b" if self.private else "sigma"
        return f"b = {b}, m = {m}, {kind} = {self.noise:g}"

    def defense(self, level: float) -> ga.defenses.Defense:
        """What the client does, at a level of noise in the mean gradient."""
        if self.private:
            return ga.defenses.DPSGD(CLIP, level * self.shape[0] / CLIP)
        return ga.defenses.GaussianNoise(level)


def settings() -> Iterator[Setting]:
    """All rows, in the tables' order."""
    for noise in (1e-6, 1e-5, 3e-5, 1e-4):
        yield Setting(SMALL, noise, 10)
    for noise in (1.5e-4, 2e-4, 3e-4):
        yield Setting(SMALL, noise, 5)
    for noise in (1e-6, 1e-5):
        yield Setting(MIDDLE, noise, 10)
    yield Setting(LARGE, 1e-6, 1)
    yield Setting(HUGE, 1e-6, 3)
    for noise in (1e-5, 1e-4):
        yield Setting(SMALL, noise, 3, private=True)


def recovered(setting: Setting, rows: list[dict[str, Any]]) -> list[str]:
    """A row of the first table."""
    size = sum(row["size"] for row in rows)
    above = sum(row["above"] for row in rows)
    certified = sum(row["certified"] for row in rows)
    recognised = sum(record["psnr"] > RECOGNISED_DB for row in rows for record in row["records"])
    told = sum(row["labels_told"] for row in rows)
    statuses = Counter(row["status"] for row in rows)
    return [
        setting.name,
        PUBLISHED.get((setting.shape, setting.noise, setting.private), ""),
        str(len(rows)),
        ", ".join(f"{count} {status}" for status, count in statuses.most_common()),
        f"{above} of {size}",
        f"{certified / above:.1%}" if above else "",
        f"{certified / size:.1%}",
        str(sum(0 < row["above"] == row["certified"] for row in rows)),
        f"{recognised / size:.1%}",
        str(sum(row["elsewhere"] for row in rows)),
        str(sum(row["false"] for row in rows)),
        f"{sum(row['labels_right'] for row in rows)} of {told}" if told else "",
        f"{statistics.median(row['core_seconds'] for row in rows):.1f}",
    ]


def exactness(setting: Setting, rows: list[dict[str, Any]]) -> list[str]:
    """A row of the second table."""
    records = [record for row in rows for record in row["records"]]
    of_all = f"{statistics.fmean(row['floor_of_all'] for row in rows):.1f}"
    if not records:
        return [setting.name, "", "", "", "", of_all, *[""] * 6]
    psnr = [record["psnr"] for record in records]
    gaps = [record["floor"] - record["psnr"] for record in records]
    zeros = [r["from_truth"] for r in records if r["from_truth"] is not None]
    ratios = [record["true_over_estimated"] for record in records]
    return [
        setting.name,
        f"{statistics.fmean(psnr):.1f}",
        f"{statistics.median(psnr):.1f}",
        f"{min(psnr):.1f}",
        f"{statistics.fmean(record['floor'] for record in records):.1f}",
        of_all,
        f"{statistics.fmean(gaps):.1f}",
        f"{statistics.median(gaps):.1f}",
        f"{sum(gap <= NEAR_FLOOR_DB for gap in gaps) / len(gaps):.0%}",
        f"{statistics.fmean(zeros):.1f}" if zeros else "",
        f"{sum(0.5 <= ratio <= 2 for ratio in ratios) / len(ratios):.1%}",
        f"{max(ratios):.2f}",
    ]


def main() -> None:
    """Run the settings asked for, a seed at a time."""
    options = parser(__doc__ or "", seconds=400.0)
    options.add_argument("--only", default="", help="settings whose name matches this pattern")
    options.add_argument("--seeds", type=int, help="seeds of each setting")
    chosen = options.parse_args()
    known = {setting.name: setting for setting in settings()}
    results = Results(chosen.out / "noisy.json", list(known), again=chosen.again)
    warm_up()
    for name, setting in known.items():
        if not re.search(chosen.only, name):
            continue
        results.begin(name)
        for seed in range(chosen.seeds or setting.seeds):
            if any(row["seed"] == seed for row in results.rows(name)):
                continue
            sent = simulate(setting.shape, setting.noise, setting.defense, seed)
            results.add(name, measure(sent, seed=seed, seconds=chosen.seconds))
            write(results, known)
    write(results, known)


def write(results: Results, known: dict[str, Setting]) -> None:
    """The page, of all that is known so far."""
    done = [(known[each], entry["rows"]) for each, entry in results.entries.items()]
    results.page(
        [
            INTRODUCTION,
            "## What is recovered\n",
            *table(RECOVERED, [recovered(*each) for each in done]),
            "\n## How exactly (dB, of certified records)\n",
            *table(EXACTNESS, [exactness(*each) for each in done]),
        ]
    )


if __name__ == "__main__":
    main()
