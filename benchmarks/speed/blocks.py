"""Measure whether times vary less between processes if each timed block starts with untimed calls. Uses a small GPT-2
on a CPU, eager and compiled alternately.

    PYTHONPATH=src python3 benchmarks/speed/blocks.py --out blocks.json --processes 12

Records the log ratio of compiled to eager time twice: with blocks timed as in the gate, and with half a block of
untimed calls before each block. Also records the time of each of the first calls in a block. ``--fixed`` fixes the hash
seed and the addresses (``setarch -R``). Without ``--processes``, prints the contents of a file.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

CALLS = 12


def measure(seconds: float) -> dict[str, Any]:
    """Measure in one process. Return both ratios, and the microseconds of the first calls, eager and compiled."""
    import copy
    from statistics import median
    from time import perf_counter

    import torch
    from inject import LeadIn
    from transformers import GPT2Config, GPT2Model

    from pytest_torch_compile.speed.deciding.statistics import log_ratios, trimmed_mean
    from pytest_torch_compile.speed.measuring import timing

    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = GPT2Model(GPT2Config(n_embd=16, n_layer=2, n_head=2, vocab_size=50, n_positions=32, use_cache=False)).eval()
    words = torch.randint(0, 50, (1, 8))
    legs = {"eager": model, "compiled": torch.compile(copy.deepcopy(model))}
    runs = {name: (lambda leg=leg: leg(input_ids=words)) for name, leg in legs.items()}
    timer = timing.Timer(torch.device("cpu"))
    kinds: dict[str, Any] = {"as timed": timer, "lead-in": LeadIn(timer)}
    first: dict[str, list[list[float]]] = {name: [] for name in runs}
    times = {kind: {name: [] for name in runs} for kind in kinds}
    with torch.no_grad(), timing.quiet_host():
        calls = {name: timing.calls_per_block(timing.warm_up(run, timer)[1]) for name, run in runs.items()}
        end = perf_counter() + seconds
        while perf_counter() < end:
            for kind, timed in kinds.items():
                for name, run in runs.items():
                    times[kind][name].append(timed.block(run, calls[name])[0])
            for name, run in runs.items():
                first[name].append([timer.block(run, 1)[0] for _ in range(CALLS)])
    ratios = {kind: trimmed_mean(log_ratios(legs["eager"], legs["compiled"])) for kind, legs in times.items()}
    micros = {name: [round(1e6 * median(call)) for call in zip(*calls, strict=True)] for name, calls in first.items()}
    return {"ratios": ratios, "first calls": micros}


def drive(options: argparse.Namespace) -> None:
    """Run fresh processes, one after the other."""
    command = [sys.executable, __file__, "--seconds", str(options.seconds), "--worker"]
    environment = {**os.environ, "PYTHONHASHSEED": "0" if options.fixed else "random"}
    for _ in range(options.processes):
        done = subprocess.run(
            ["setarch", "-R", *command] if options.fixed else command,
            env=environment, stdout=subprocess.PIPE, text=True, check=True,
        )  # fmt: skip
        runs = json.loads(options.out.read_text())["runs"] if options.out.exists() else []
        runs.append({"fixed": options.fixed, **json.loads(done.stdout.splitlines()[-1])})
        options.out.write_text(json.dumps({"schema_version": 1, "runs": runs}).replace('{"fixed"', '\n{"fixed"') + "\n")


def show(path: Path) -> None:
    """Print the standard deviation of each ratio over the processes, and the first calls of one process."""
    from statistics import stdev

    runs = json.loads(path.read_text())["runs"]
    groups = {"all": runs, "random": [r for r in runs if not r["fixed"]], "fixed": [r for r in runs if r["fixed"]]}
    for name, group in groups.items():
        for kind in runs[0]["ratios"] if len(group) > 1 else ():
            print(f"{name}, {kind}: {len(group)} processes, {100 * stdev(r['ratios'][kind] for r in group):.2f}%")
    print(runs[-1]["first calls"])


def main() -> None:
    """Measure, or show earlier measurements."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--out", type=Path, default=Path(__file__).parent / "data" / "blocks-1.json")
    options.add_argument("--processes", type=int, default=0)
    options.add_argument("--seconds", type=float, default=6.0)
    options.add_argument("--fixed", action="store_true")
    options.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.worker:
        print(json.dumps(measure(chosen.seconds)))
        return
    drive(chosen)
    show(chosen.out)


if __name__ == "__main__":
    main()
