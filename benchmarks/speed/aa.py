"""A/A runs: the same suite, unchanged, in many fresh processes.

PYTHONPATH=src python3 benchmarks/speed/aa.py --out aa.json --processes 20
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import runs


def measure(options: argparse.Namespace, name: str) -> dict[str, Any]:
    """One case, measured once, with every round."""
    import torch

    from pytest_torch_compile.speed.measure import measure_compile
    from suites.speed.cases import CASES

    module, inputs, settings = CASES[name].build(torch.device(options.device))
    seconds = 0.01 if options.only_compile else options.seconds
    sample = measure_compile(
        module,
        kwargs=inputs,
        seconds=seconds,
        precision=options.precision,
        raw=True,
        backend=options.backend,
        **(settings if options.backend == "inductor" else {**settings, "mode": None}),
    )
    return compact(sample)


def compact(sample: Any) -> dict[str, Any]:
    """What a reader needs to recompute: microseconds per call of every round and profiler session."""
    times = {q: {leg: runs.micros(v) for leg, v in legs.items()} for q, legs in sample.raw.items() if legs["eager"]}
    memory = sample.memory and [round(sample.memory.eager), round(sample.memory.compiled)]
    return {
        **times,
        "calls": sample.calls_per_round,
        "kernels": sample.kernels,
        "memory": memory,
        "cold": [round(s, 3) for s in sample.cold_start],
        "device_uuid": sample.environment.get("uuid"),
        "state": sample.state.get("after"),
        "problems": sample.problems,
    }


def main() -> None:
    """Drive the runs, or be one of them."""
    options = runs.parser(__doc__ or "").parse_args()
    if options.tiny:
        options.cases, options.seconds, options.backend = "bert-forward-default,mobilenet-forward-default", 0.3, "eager"
    if options.turn >= 0:
        runs.serve(options, measure)
    else:
        runs.drive(__file__, options, sys.argv[1:])


if __name__ == "__main__":
    main()
