"""What the plan says an audit takes, against what it takes, at sizes that were not used to fit it.

Run alone on an idle core: ``OMP_NUM_THREADS=1 python benchmarks/plan.py``.
"""

from __future__ import annotations

from _cases import CIFAR, Case, simulate
from _measure import measure, warm_up
from _results import Results, parser, table

import gradaudit as ga

# None of them is among the settings of exact_recovery or growth.
SETTINGS = ((12, 150), (30, 300), (50, 600), (90, 800), (120, 1500))
LAYERS = 6
INPUTS, CLASSES = 3072, 10
FACTOR = 3.0

INTRODUCTION = """# Predicted and measured seconds

Core seconds of `gradaudit audit` on CIFAR-10, six layers of m neurons, normalised inputs, at five
settings that were not used to fit `theory/costs.py`; the prediction is `ga.plan`'s with the
calibration of the machine as it was then. Factor: the larger of the two over the smaller.
"""


def main() -> None:
    """Run what is missing, and write the results."""
    chosen = parser(__doc__, seconds=120.0).parse_args()
    names = [f"b = {b}, m = {m}" for b, m in SETTINGS]
    results = Results(chosen.out / "plan.json", names, again=chosen.again)
    warm_up()
    lines, worst = [], 1.0
    for name, (b, m) in zip(names, SETTINGS, strict=True):
        results.begin(name)
        if not results.rows(name):
            widths = [INPUTS, *[m] * (LAYERS - 1), CLASSES]
            said = ga.plan(widths=widths, batch_size=b, heat_map=False).by_attack("halfspace")
            sent = simulate(Case(CIFAR, b, (m,) * (LAYERS - 1)), 0)
            row = measure(sent, seed=0, seconds=chosen.seconds)
            results.add(name, {"predicted_core_seconds": said.seconds, **row})
        row = results.rows(name)[0]
        predicted, measured = row["predicted_core_seconds"], row["core_seconds"]
        factor = max(predicted / measured, measured / predicted)
        worst = max(worst, factor)
        lines.append([name, f"{predicted:.2f}", f"{measured:.2f}", f"{factor:.2f}", row["status"]])
    head = ("setting", "predicted core s", "measured core s", "factor", "status")
    verdict = f"Worst factor: {worst:.2f}; at most {FACTOR:g} was asked for."
    results.page([*INTRODUCTION.splitlines(), "", *table(head, lines), "", verdict])


if __name__ == "__main__":
    main()
