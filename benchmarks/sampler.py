"""Speed and peak memory of SPEAR's sampler, as ratios within one run.

python benchmarks/sampler.py [--submatrices 20000]
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import torch

from gradaudit.experiments.machine import machine
from gradaudit.linear.factor import factor_gradient
from gradaudit.linear.problem import Setting, build_problem
from gradaudit.linear.proposers import SubmatrixSampler
from gradaudit.update import LinearLayer

INPUTS = 256


def measure(width: int, batch: int, threads: int, submatrices: int) -> dict[str, float]:
    """Best of three runs in this process; the memory is what the case added to the peak."""
    torch.set_num_threads(threads)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    generator = torch.Generator().manual_seed(0)
    draw = {"generator": generator, "dtype": torch.float64}
    sparse = torch.randn(width, batch, **draw) * (torch.rand(width, batch, **draw) < 0.5)
    weight = torch.randn(width, INPUTS, **draw)
    gradient = sparse @ torch.randn(batch, INPUTS, **draw)
    layer = LinearLayer("fc", weight, None, gradient, None)
    factors = factor_gradient(gradient, generator=generator)
    problem = build_problem(layer, factors, Setting.SPARSE_GRADIENT)
    sampler = SubmatrixSampler(problem, round_size=submatrices)
    minimum = int(0.4 * width)
    while sampler.propose(generator, minimum).tried < submatrices:
        pass
    seconds = []
    for _ in range(3):
        started = time.perf_counter()
        sampler.propose(generator, minimum)
        seconds.append(time.perf_counter() - started)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"per_second": submatrices / min(seconds), "peak_mib": (peak - before) / 1024}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--submatrices", type=int, default=20_000)
    parser.add_argument("--case", type=int, nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.case:
        print(json.dumps(measure(*arguments.case, arguments.submatrices)))
        return
    rows = []
    for width in (200, 2000):
        for batch in (8, 16, 24):
            for threads in (1, 2):
                # A process a case: the peak of one must not hide that of the next.
                command = [sys.executable, __file__, "--submatrices", str(arguments.submatrices)]
                command += ["--case", str(width), str(batch), str(threads)]
                output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
                row = {"width": width, "batch_size": batch, "threads": threads}
                rows.append(row | json.loads(output))
    reference = rows[0]["per_second"]
    for row in rows:
        row["relative"] = row["per_second"] / reference
        print(row)
    folder = Path(__file__).parent / "results"
    result = {"environment": machine(), "submatrices": arguments.submatrices, "rows": rows}
    (folder / "sampler.json").write_text(json.dumps(result, indent=2) + "\n")
    lines = [
        "# Speed of SPEAR's sampler",
        "",
        "Submatrices a second, screen included, best of three rounds of "
        f"{arguments.submatrices:,}; relative to the first line of the same run. Peak memory is "
        "what the case, factoring included, added to the process. Two threads gain nothing, and "
        "lose much, while another process uses one of the cores.",
        "",
        "| m | b | threads | submatrices/s | relative | peak MiB |",
        "|---:|---:|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {r['width']} | {r['batch_size']} | {r['threads']} | {r['per_second']:,.0f} | "
        f"{r['relative']:.2f} | {r['peak_mib']:.0f} |"
        for r in rows
    ]
    lines += ["", f"Environment: `{json.dumps(machine())}`", ""]
    (folder / "sampler.md").write_text("\n".join(lines))


if __name__ == "__main__":
    main()
