"""Measure the same unchanged suite in many fresh processes (A/A runs).

PYTHONPATH=src python3 benchmarks/speed/aa.py --out aa.json --processes 20
"""

from __future__ import annotations

import argparse
from typing import Any

import runs


def measure(options: argparse.Namespace, name: str) -> dict[str, Any]:
    """Measure one case once, and return the times of every round."""
    import torch

    from pytest_torch_compile.speed.measuring.bench import measure_compile
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
    return runs.compact(sample)


if __name__ == "__main__":
    runs.main(__file__, __doc__ or "", measure, tiny="bert-forward-default,mobilenet-forward-default")
