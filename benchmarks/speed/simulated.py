"""What the rules call a regression, and how many processes they ask for: simulated, not measured.

    PYTHONPATH=src python3 benchmarks/speed/simulated.py

The ratio of a leg that waits for its host to eager is normal between processes. One of twelve tests is slower by nothing,
2, 3, 5 or 10 %: with 10 % more Python calls than any stored run; and by time alone, where the new processes scatter as
the stored ones do, or two and three times as much.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from statistics import fmean

from pytest_torch_compile.speed.deciding.confirmation import MAX_PROCESSES
from pytest_torch_compile.speed.deciding.verdict import judge, needs_another_process
from pytest_torch_compile.speed.sample import Figures

TESTS, STORED, DRAWS = 12, 10, 2000
CALLS, MORE_CALLS = 300, 330
SLOWER = (0, 2, 3, 5, 10)


def run(slower: float, calls: int) -> Figures:
    """A process whose compiled leg is slower by this log ratio."""
    pair = (2e-3, 1e-3 * math.exp(slower), math.log(0.5) + slower)
    return {"wall": pair, "host": pair, "python-calls": (900, calls, math.log(calls / 900))}


def called(slower: float, scatter: float, new_scatter: float, calls: int, rng: random.Random) -> tuple[bool, int]:
    """Whether one test is called a regression, and after how many processes it is decided."""
    stored = [run(rng.gauss(0, scatter), CALLS) for _ in range(STORED)]
    priors = {"wall": scatter, "wall/wall": scatter}
    new = [run(rng.gauss(slower, new_scatter), calls)]
    while len(new) < MAX_PROCESSES and needs_another_process(stored, new, tests=TESTS, priors=priors):
        new.append(run(rng.gauss(slower, new_scatter), calls))
    return judge(stored, new, tests=TESTS, priors=priors).outcome == "regressed", len(new)


def table(calls: int, scatters: Iterable[tuple[float, float]]) -> None:
    """The share called, and the mean number of processes."""
    print("| scatter | of new ones | " + " | ".join(f"{size} % slower" for size in SLOWER) + " |")
    print("| --- | --- |" + " --- |" * len(SLOWER))
    for scatter, times in scatters:
        rng, cells = random.Random(0), []
        for size in SLOWER:
            legs = math.log1p(size / 100), scatter / 100, times * scatter / 100
            drawn = [called(*legs, calls, rng) for _ in range(DRAWS)]
            share, asked = fmean(red for red, _ in drawn), fmean(count for _, count in drawn)
            cells.append(f"{100 * share:.1f} %, {asked:.1f} processes")
        print(f"| {scatter} % | {times * scatter:.1f} % | " + " | ".join(cells) + " |")


def main() -> None:
    """Print both tables."""
    print("With more Python calls:")
    table(MORE_CALLS, [(scatter, 1) for scatter in (0.3, 1.0, 2.0, 3.0, 4.5)])
    print("By time alone:")
    table(CALLS, [(scatter, times) for scatter in (1.0, 2.0, 4.0) for times in (1, 2, 3)])


if __name__ == "__main__":
    main()
