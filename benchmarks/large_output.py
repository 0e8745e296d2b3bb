"""Measure the time and the additional memory that a check needs to compare one large output. The time is also shown as
a multiple of the time of `torch.testing.assert_close`.

Each measurement is a fresh process. The outputs are float32 (or bfloat16) and differ only by rounding:

- `near`: by at most 2 eps, which does not require a reference;
- `fp64`: by more, so they are compared with a float64 reference, and pass;
- `bf16`: like `fp64`, in bfloat16;
- `wrong`: one element is also wrong, so a second eager run and a run with perturbed rounding are compared as well.

Exits with 1 if a median ratio exceeds the limit.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

LIMIT = 3.0
CASES = ("near", "fp64", "bf16", "wrong")
JUDGES = ("assert_close", "check")


def legs(case: str, elements: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the eager output, the compiled output and the float64 reference. All temporary tensors are smaller."""
    dtype = torch.bfloat16 if case == "bf16" else torch.float32
    noise = {"near": 1e-7, "bf16": 2e-3}.get(case, 1e-6)
    generator = torch.Generator().manual_seed(0)
    true = torch.empty(elements // 1024, 1024, dtype=torch.float64)
    eager, compiled = true.to(dtype), true.to(dtype)
    for start in range(0, len(true), 1024):
        rows = slice(start, start + 1024)
        true[rows].normal_(generator=generator)
        for leg in (eager, compiled):
            leg[rows] = true[rows] * (1 + noise * torch.rand(true[rows].shape, generator=generator))
    if case == "wrong":
        compiled[-7, 5] += 1.0
    return eager, compiled, true


def by_assert_close(eager: torch.Tensor, compiled: torch.Tensor, true: torch.Tensor, case: str) -> None:
    try:
        torch.testing.assert_close(compiled, eager)
    except AssertionError:
        assert case == "wrong"


def by_check(eager: torch.Tensor, compiled: torch.Tensor, true: torch.Tensor, case: str) -> None:
    from pytest_torch_compile.numerics import CallRecord, ExtraRuns, Tolerances, compare_call

    comparison = compare_call(
        CallRecord(output=eager),
        CallRecord(output=compiled),
        ExtraRuns(
            float64=lambda: CallRecord(output=true),
            repeat=lambda: CallRecord(output=eager),
            perturbed=lambda: iter([CallRecord(output=eager)]),
        ),
        Tolerances(),
    )
    (leaf,) = comparison.leaves
    assert leaf.rule == ("tolerance" if case == "near" else "fp64")
    assert [finding.kind for finding in comparison.findings] == (["numerics"] if case == "wrong" else [])


def resident() -> float:
    """Return the largest resident memory of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure_here(judge: str, case: str, elements: int) -> dict[str, float]:
    judges: dict[str, Callable[..., None]] = {"assert_close": by_assert_close, "check": by_check}
    judges[judge](*legs(case, 1 << 20), case)  # warm up one-time imports and look-ups
    both = legs(case, elements)
    before, started = resident(), time.perf_counter()
    judges[judge](*both, case)
    return {"seconds": time.perf_counter() - started, "memory": resident() - before}


def measure_in_fresh_process(judge: str, case: str, elements: int) -> dict[str, float]:
    command = [sys.executable, __file__, "--measure", judge, case, str(elements)]
    done = subprocess.run(command, env=os.environ, check=True, stdout=subprocess.PIPE, text=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def row(case: str, rounds: int, elements: int, judges: list[str]) -> dict[str, object]:
    runs: dict[str, list[dict[str, float]]] = {judge: [] for judge in judges}
    for number in range(rounds):
        for judge in judges[:: 1 if number % 2 == 0 else -1]:
            runs[judge].append(measure_in_fresh_process(judge, case, elements))
    result: dict[str, object] = {"case": case, "elements": elements, "rounds": rounds}
    for judge, measured in runs.items():
        seconds = sorted(run["seconds"] for run in measured)
        result[judge] = {
            "median_s": round(statistics.median(seconds), 2), "from_s": round(seconds[0], 2),
            "to_s": round(seconds[-1], 2), "memory_mb": round(max(run["memory"] for run in measured)),
        }  # fmt: skip
    if len(judges) == len(JUDGES):
        ratios = sorted(a["seconds"] / b["seconds"] for a, b in zip(runs["check"], runs["assert_close"], strict=True))
        result["ratio"] = [round(ratio, 2) for ratio in (statistics.median(ratios), ratios[0], ratios[-1])]
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="number of fresh processes for each judge (default 5)")
    parser.add_argument("--case", choices=CASES, action="append", help="default: all")
    parser.add_argument("--judge", choices=JUDGES, action="append", help="default: both")
    parser.add_argument("--elements", type=int, default=1 << 28, help="default 2^28: 1 GB in float32")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--measure", nargs=3, metavar=("JUDGE", "CASE", "ELEMENTS"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        judge, case, elements = options.measure
        print(json.dumps(measure_here(judge, case, int(elements))))
        return 0
    rows = []
    for case in options.case or CASES:
        rows.append(row(case, options.rounds, options.elements, options.judge or list(JUDGES)))
        print(json.dumps(rows[-1]), flush=True)
        if options.out:
            document = {"torch": torch.__version__, "cores": os.cpu_count(), "rows": rows}
            options.out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return int(any(r["ratio"][0] > LIMIT for r in rows if "ratio" in r))  # type: ignore[index]


if __name__ == "__main__":
    raise SystemExit(main())
