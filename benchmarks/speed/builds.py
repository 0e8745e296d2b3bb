"""Determine why ratios of compiled to eager time vary: between repeated measurements, between builds in one process, or
between processes.

    PYTHONPATH=src python3 benchmarks/speed/builds.py --out builds.json --processes 7
    PYTHONPATH=src python3 benchmarks/speed/builds.py --show board-0.json board-1.json

Every process builds the eager and compiled code of a case several times. Older builds are kept, so that new builds are
placed elsewhere in memory. Every build is measured twice.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterable
from pathlib import Path
from statistics import fmean, stdev, variance
from typing import Any

import runs

BUILDS, REPEATS = 4, 2
FORWARD = "bert-forward-default,llama-forward-default,gpt2-forward-default,mobilenet-forward-default,captioner-forward-default"


def measure(options: argparse.Namespace, name: str) -> dict[str, Any]:
    """Measure one case, and return the log ratio of wall times for every build and repeat."""
    import torch

    from pytest_torch_compile.speed.deciding.statistics import log_ratios, trimmed_mean
    from pytest_torch_compile.speed.measuring import timing
    from pytest_torch_compile.speed.measuring.bench import Bench
    from pytest_torch_compile.speed.measuring.stack_depth import with_spare_stack
    from suites.speed.cases import CASES

    kept, ratios = [], []
    for _ in range(1 if options.only_compile else BUILDS):
        module, inputs, settings = CASES[name].build(torch.device(options.device))
        if options.backend != "inductor":
            settings |= {"mode": None, "backend": options.backend}
        torch.compiler.reset()
        bench = Bench(module, kwargs=inputs, **settings)
        kept.append(bench)
        legs = {leg: bench.legs[leg].run for leg in ("eager", "compiled")}
        calls = {leg: bench.legs[leg].calls for leg in legs}
        for _ in range(0 if options.only_compile else REPEATS):
            with timing.quiet_host():
                rounds = with_spare_stack(
                    timing.interleave, legs, calls, bench.timer, seconds=options.seconds, precision=options.precision
                )
            walls = [[wall for wall, _ in rounds[leg]] for leg in legs]
            ratios.append(round(trimmed_mean(log_ratios(*walls)), 6))
    return {"ratios": ratios}


def show(paths: Iterable[Path]) -> None:
    """Print the three standard deviations of each case in percent, and the standard deviations with one build and with
    four builds per process.
    """
    processes = [run for path in paths for run in json.loads(path.read_text())["runs"]]
    if len(processes) < 2:
        raise SystemExit("at least two processes are needed")
    print("| case | processes | of repeats | of builds | of processes | one build | four builds |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name in sorted({name for run in processes for name in run["cases"]}):
        nested = [run["cases"][name]["ratios"] for run in processes if run["cases"].get(name, {}).get("ratios")]
        builds = [[ratios[i : i + REPEATS] for i in range(0, len(ratios), REPEATS)] for ratios in nested]
        repeats = fmean(variance(build) for process in builds for build in process)
        between_builds = fmean(variance([fmean(build) for build in process]) for process in builds)
        means = [fmean(ratios) for ratios in nested]
        parts = repeats, between_builds - repeats / REPEATS, variance(means) - between_builds / BUILDS
        apart = " | ".join(f"{100 * math.sqrt(max(0.0, part)):.2f}%" for part in parts)
        first = stdev(fmean(process[0]) for process in builds)
        print(f"| {name} | {len(nested)} | {apart} | {100 * first:.2f}% | {100 * stdev(means):.2f}% |")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--show"]:
        show(map(Path, sys.argv[2:]))
    else:
        sys.argv[1:1] = ["--cases", FORWARD]  # options on the command line come later and take precedence
        runs.main(__file__, __doc__ or "", measure, tiny="mobilenet-forward-default")
