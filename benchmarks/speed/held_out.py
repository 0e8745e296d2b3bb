"""Each run that the committed baselines store as a new one, and whether the gate would have been red.

    PYTHONPATH=src python3 benchmarks/speed/held_out.py

Of the other runs of its test some confirm, a third of them and four at most, and the rest are stored. They are of eleven
devices, so that this tells what another device and another session do, of tests that have not changed.
"""

from __future__ import annotations

import argparse
import json
import random
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

from misses import UNCHANGED, Measured, judged

from pytest_torch_compile.speed import record
from pytest_torch_compile.speed.held import Held
from pytest_torch_compile.speed.reference import priors_of
from pytest_torch_compile.speed.verdict import MAX_PROCESSES, Verdict

BASELINES = Path(__file__).resolve().parents[2] / "baselines" / "NVIDIA-H200_torch-2.11_cuda-13.0" / "speed.json"


def verdict_on(number: int, entry: dict[str, Any], against: Any, rng: random.Random) -> Verdict:
    """The verdict on one stored run, the others being drawn to be stored or to confirm."""
    runs = [
        {"plain": run, "code": code, "problems": []}
        for run, code in zip(record.runs_of(entry), record.codes_of(entry), strict=True)
    ]
    others = [run for index, run in enumerate(runs) if index != number]
    rng.shuffle(others)
    confirming = min(MAX_PROCESSES - 1, len(others) // 3)
    stored = others[confirming:]
    held = partial(against, [run["plain"] for run in stored], [run["code"] for run in stored])
    further = [Measured(run, UNCHANGED) for run in others[:confirming]]
    return judged(held, Measured(runs[number], UNCHANGED), further)[0]


def main() -> None:
    """Read the baselines and print how many runs got which verdict."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("baselines", type=Path, nargs="?", default=BASELINES)
    options.add_argument("--draws", type=int, default=20)
    options.add_argument("--seed", type=int, default=0)
    chosen = options.parse_args()
    entries = {entry["fullname"]: entry for entry in json.loads(chosen.baselines.read_text())["benchmarks"]}
    priors = priors_of([alike for entry in entries.values() for alike in record.runs_by_source(entry)])
    against, rng = partial(Held.of, tests=len(entries), priors=priors), random.Random(chosen.seed)
    runs = [(test, number) for test, entry in entries.items() for number in range(len(record.runs_of(entry)))]
    found: Counter[str] = Counter()
    for _ in range(chosen.draws):
        for test, number in runs:
            verdict = verdict_on(number, entries[test], against, rng)
            found[verdict.outcome] += 1
            for change in verdict.changed("regressed"):
                print(f"{test}, run {number}: {change.metric} {change.percent:+.1f} %")
    print(f"{len(runs)} runs of {len(entries)} tests, {chosen.draws} draws: {dict(found)}")


if __name__ == "__main__":
    main()
