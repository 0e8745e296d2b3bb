"""What the rule for counted work calls a regression, and how many processes it asks for: simulated, not measured.

    PYTHONPATH=src python3 benchmarks/speed/more_work.py

A leg that waits for its host does 10 % more Python calls than any stored run, and is slower by nothing, 2, 3, 5 or 10 %;
the ratio to eager is normal between processes, with the standard deviation of the first column. Twelve tests, ten stored
runs.
"""

from __future__ import annotations

import math
import random
from statistics import fmean

from pytest_torch_compile.speed.counted import MAX_PROCESSES
from pytest_torch_compile.speed.sample import Figures
from pytest_torch_compile.speed.verdict import judge, needs_another_process

TESTS, STORED, DRAWS = 12, 10, 1000
SCATTER = (0.3, 1.0, 2.0, 3.0, 4.5)
SLOWER = (0, 2, 3, 5, 10)


def run(slower: float, calls: int) -> Figures:
    """A process whose compiled leg is slower by this log ratio."""
    pair = (2e-3, 1e-3 * math.exp(slower), math.log(0.5) + slower)
    return {"wall": pair, "host": pair, "python-calls": (900, calls, math.log(calls / 900))}


def called(slower: float, scatter: float, rng: random.Random) -> tuple[bool, int]:
    """Whether one changed test is called a regression, and after how many processes it is settled."""
    stored = [run(rng.gauss(0, scatter), 300) for _ in range(STORED)]
    priors = {"wall": scatter, "wall/wall": scatter}
    new = [run(rng.gauss(slower, scatter), 330)]
    while len(new) < MAX_PROCESSES and needs_another_process(stored, new, tests=TESTS, priors=priors):
        new.append(run(rng.gauss(slower, scatter), 330))
    return judge(stored, new, tests=TESTS, priors=priors).outcome == "regressed", len(new)


def main() -> None:
    """Print the table: the share called, and the mean number of processes."""
    print("| scatter | " + " | ".join(f"{size} % slower" for size in SLOWER) + " |")
    print("| --- |" + " --- |" * len(SLOWER))
    for scatter in SCATTER:
        rng, cells = random.Random(0), []
        for size in SLOWER:
            drawn = [called(math.log1p(size / 100), scatter / 100, rng) for _ in range(DRAWS)]
            share, asked = fmean(red for red, _ in drawn), fmean(count for _, count in drawn)
            cells.append(f"{100 * share:.1f} %, {asked:.1f} processes")
        print(f"| {scatter} % | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
