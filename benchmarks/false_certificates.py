"""Wrong reconstructions put before every judge, and random clients audited: none may be certified.

    python benchmarks/false_certificates.py [--only PATTERN] [--blocks N] [--settings N] [--again]

Wrong reconstructions are drawn and judged as in tests/certify, clients as in tests/properties.
Writes benchmarks/results/false_certificates.json and .md after every block; an interrupted run goes
on where it was, and a larger number of blocks adds to what is known.
"""

from __future__ import annotations

import re
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# The clients and the wrong reconstructions are the tests' own.
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import torch
from _results import Results, parser, table
from certify.drawn import draw_client
from certify.other_trials import noisy_trials, partial_trials, reconstruction_trials
from certify.trials import Tally, Trial, layer_trials
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from properties.clients import ATTACKS, audit_client, clients

from gradaudit.errors import InputError

SETTINGS = "audits"
# Clients of one block of audits, and every how many-th client of the layer's judges is a large one.
AUDITS, LARGE = 50, 10
SHOWN = (
    "wrong, refused",
    "false",
    "right, certified",
    "right, refused",
    "mean of near-duplicates",
    "mean, called copies",
    "true, certified",
    "true, refused",
)

INTRODUCTION = """# False certificates

A *false certificate* is a record that is certified and is further from every record of the batch
than its verdict states: more than 50 times its predicted error, or three times under noise; or one
with another record's class. The prediction is a standard error, and the exact checks let ten of
them pass in the row space and in the scale and twelve in the zeros of single entries, which a
reconstruction made on purpose can use up together (27 were seen).

## Wrong reconstructions

Each row is a judge. Reconstructions are random records, shuffled features, noise from 1e-1 to 1e-9
of the size, on all records, on one, in the row space, along the direction that the gradient
determines least and along those that no neuron sees; scaled, negated, repeated, missing and
superfluous records; mixtures with any other record and the nearest one, from a tenth to a
billionth; means and halves of two; swapped labels; duplicates moved against each other; directions
mixed so that the zeros are as many as they can be while the gradient and the bias gradient are
explained to rounding; and descents on the judge's own residual, kept off the truth. They are judged
for clients with 1 to 40 records, 10 to 3072 features, layers of 20 to 700 neurons, one to six
layers, one to 50 classes, gradients times 1e-8 to 1e8, float64, float32 and bfloat16, with
duplicates, near-duplicates, multiples of one record, records of zeros, dead neurons, neurons that
are each other's copies, sparse inputs, tables, behind a convolution, and after local training.

*True* are the batches themselves, so that a judge cannot pass by refusing everything; what is
refused of them are batches that the layer does not determine (too few neurons or zeros). *Right*
are reconstructions so near the truth that their verdict would be right. *Means of near-duplicates*
are certified records within a hundredth of two or more records, of which they are a mean: two
classes, or rounding, make one record of them, which no verdict can see. *Called copies* are such
means of records that the network does not tell apart, certified with a number of copies.
"""
AUDITED = """
## Audits of random clients

Drawn by hypothesis: 1 to 12 records, one to six layers, PyTorch's, Kaiming's, Xavier's, uniform,
orthogonal and sparse initialisations times 1e-8 to 1e3, biases drawn, zero, large, equal or none,
dead neurons, ties, duplicates, four losses, five activations, float16 to float64, local training;
the attacks auto, spear, closed_form, rgap and inverting-gradients, a third of a second each. By the
status of the audit: what of the records that it showed was certified, and whether it was right.
"""


@dataclass(frozen=True)
class Group:
    """Trials that are counted together.

    Attributes:
        trials: Of one seed.
        seeds: In one block.
        blocks: As many as are run unless another number is asked for.
    """

    trials: Callable[[int], Iterator[Trial]]
    seeds: int
    blocks: int


def _layers(number: int) -> Iterator[Trial]:
    client = draw_client(number, largest=number % LARGE == 0)
    return layer_trials(client, layer=0 if number % 4 else 1)


GROUPS = {
    "layers": Group(_layers, 10, 20),
    "parts": Group(partial_trials, 10, 4),
    "noise": Group(noisy_trials, 4, 5),
    "whole networks": Group(reconstruction_trials, 4, 10),
}


def block(group: Group, number: int) -> dict[str, Any]:
    """Run one block of seeds; exceptions are counted like false certificates."""
    tally, started = Tally(), time.perf_counter()
    for offset in range(group.seeds):
        place = number * group.seeds + offset
        try:
            for trial in group.trials(place):
                if tally.add(trial) == "false":
                    print(f"FALSE, seed {place}: {tally.false[-1]}", flush=True)
        except Exception:
            traceback.print_exc()
            tally.false.append(f"an exception at seed {place}: {traceback.format_exc(limit=-1)}")
    return {
        "block": number,
        "seconds": round(time.perf_counter() - started, 1),
        "by_judge": {judge: dict(found) for judge, found in tally.by_judge.items()},
        "by_kind": {kind: dict(found) for kind, found in tally.by_kind.items()},
        "false": tally.false,
    }


def audits(number: int) -> dict[str, Any]:
    """Audit one block of random clients."""
    counts: Counter[str] = Counter()
    false: list[str] = []
    started = time.perf_counter()

    @seed(number)
    @settings(
        max_examples=AUDITS,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(clients(), st.booleans(), st.sampled_from(ATTACKS))
    def run(client: Any, with_model: bool, attack: str) -> None:
        said = f"{client}, {attack}, model given: {with_model}"
        known = len(false)
        try:
            found = audit_client(client, with_model=with_model, attack=attack)
        except InputError:
            counts["refused in one line"] += 1
        except Exception:
            false.append(f"exception of {said}: {traceback.format_exc(limit=-2)}")
            counts["exception"] += 1
        else:
            status = found.result.status.value
            shown = found.outcome if found.trial is not None else "no records shown"
            counts[f"{status}: {shown}"] += 1
            if found.outcome == "false" and found.trial is not None:
                false.append(f"{found.trial.describe()}: {said}")
            if found.missed:
                counts["recovered, but a record is missing"] += 1
                false.append(f"{found.missed} records missing: {said}")
        for line in false[known:]:
            print(line, flush=True)

    run()
    return {
        "block": number,
        "seconds": round(time.perf_counter() - started, 1),
        "counts": dict(counts),
        "false": false,
    }


def page(results: Results) -> list[str]:
    """The page's lines."""
    judges: dict[str, Counter[str]] = {}
    kinds: dict[str, Counter[str]] = {}
    for name in GROUPS:
        for row in results.rows(name):
            for into, key in ((judges, "by_judge"), (kinds, "by_kind")):
                for one, found in row[key].items():
                    into.setdefault(one, Counter()).update(found)
    lines = [INTRODUCTION]
    if judges:
        judges["all"] = sum(judges.values(), Counter())
        lines += table(["judge", *SHOWN], [_row(one, judges[one]) for one in judges])
        lines += ["", "By kind:", ""]
        lines += table(["kind", *SHOWN[:4]], [_row(one, kinds[one], 4) for one in sorted(kinds)])
    counts: Counter[str] = Counter()
    for row in results.rows(SETTINGS):
        counts.update(row["counts"])
    if counts:
        lines += [AUDITED]
        lines += table(
            ["status and records", "audits"], [[k, f"{counts[k]}"] for k in sorted(counts)]
        )
        lines += ["", f"{len(results.rows(SETTINGS)) * AUDITS:,} clients in all."]
    return lines


def _row(name: str, counts: Counter[str], columns: int = len(SHOWN)) -> list[str]:
    return [name, *(f"{counts[column]:,}" for column in SHOWN[:columns])]


def main() -> None:
    options = parser(__doc__ or "", seconds=0.3)
    options.add_argument("--only", default="", help="groups whose name has this pattern")
    options.add_argument("--blocks", type=int, help="of every group")
    options.add_argument("--settings", type=int, default=1000, help="clients that are audited")
    chosen = options.parse_args()
    torch.set_num_threads(1)
    results = Results(
        chosen.out / "false_certificates.json", [*GROUPS, SETTINGS], again=chosen.again
    )
    for name, group in GROUPS.items():
        if re.search(chosen.only, name):
            results.begin(name)
            for number in range(len(results.rows(name)), chosen.blocks or group.blocks):
                results.add(name, block(group, number))
                results.page(page(results))
    if re.search(chosen.only, SETTINGS):
        results.begin(SETTINGS)
        for number in range(len(results.rows(SETTINGS)), -(-chosen.settings // AUDITS)):
            results.add(SETTINGS, audits(number))
            results.page(page(results))


if __name__ == "__main__":
    main()
