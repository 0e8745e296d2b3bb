"""Measure what share of a cold check's time is spent on the comparison and the float64 run, for models of the suites
compiled with Inductor.

Each check runs in a fresh process with empty compile caches. Times are the processor times of the process and its
children (including the C++ compiler), so other work on the machine does not change the shares. Exits with 1 if the
share for the median model exceeds the limit.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any
from unittest import mock

LIMIT = 0.25
CASES = (
    "vision resnet inference bf16",
    "vision mobilenet_v3 inference fp32",
    "vision convnext inference bf16",
    "vision vit inference bf16",
    "vision resnet training fp32",
    "transformers bert inference bf16",
    "transformers gpt2 inference fp32",
    "transformers llama inference bf16",
    "transformers t5 inference fp32",
    "transformers bert training bf16",
)


def processor_time() -> float:
    """Return the processor time of this process and its children, in seconds."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def measured(name: str) -> dict[str, Any]:
    """Run one cold check in this process, and return its times."""
    import torch

    from pytest_torch_compile import check_compile
    from pytest_torch_compile.check import both_legs
    from suites._models import Case

    warnings.simplefilter("ignore")
    suite, model, test, dtype = name.split()
    models = __import__(f"suites.{suite}.models", fromlist=["MODELS"]).MODELS
    case = Case(next(m for m in models if m.name == model), test, dtype)
    torch.manual_seed(0)
    target, calls, comparing, compare = case.target(), case.calls(), 0.0, both_legs.compare_call

    def timed(*args: Any, **kwargs: Any) -> Any:
        nonlocal comparing
        started = processor_time()
        found = compare(*args, **kwargs)
        comparing += processor_time() - started
        return found

    started, clock = processor_time(), time.perf_counter()
    with mock.patch.object(both_legs, "compare_call", timed):
        report = check_compile(target, calls=calls, **case.options())
    total = processor_time() - started
    return {
        "case": name, "seconds": round(total, 2), "comparing": round(comparing, 3), "share": comparing / total,
        "wall": round(time.perf_counter() - clock, 2), "reference": report.numerics.reference, "calls": len(calls),
    }  # fmt: skip


def in_a_fresh_process(name: str) -> dict[str, Any]:
    """Run one cold check in a fresh process with empty caches, and return its times."""
    with tempfile.TemporaryDirectory() as folder:
        caches = {"TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor", "TRITON_CACHE_DIR": f"{folder}/triton"}
        environment = {**os.environ, **caches, "TORCHINDUCTOR_COMPILE_THREADS": "1", "OMP_NUM_THREADS": "1"}
        command = [sys.executable, __file__, "--one", name]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"case": name, "error": done.stderr.strip().splitlines()[-1][:300]}
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--one")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    sys.path.insert(0, str(Path(__file__).parents[1]))
    if options.one:
        print(json.dumps(measured(options.one)))
        return 0
    rows = []
    for name in CASES * options.rounds:
        rows.append(in_a_fresh_process(name))
        print(rows[-1], flush=True)
        if options.out:
            options.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    shares = sorted(row["share"] for row in rows if "share" in row)
    print(
        f"share: median {statistics.median(shares):.1%}, from {shares[0]:.1%} to {shares[-1]:.1%}, {len(shares)} checks"
    )
    return int(statistics.median(shares) > LIMIT)


if __name__ == "__main__":
    raise SystemExit(main())
