"""Every slowed run judged once by the gate, against unchanged runs of other processes that share its compile cache.

    PYTHONPATH=src python3 benchmarks/speed/misses.py benchmarks/speed/data/inject-2.json

For each process others are drawn for a baseline, fifteen at most, and as many to confirm as the gate may ask for. A
confirming process that ran other compiled code confirms nothing, as in the gate. The unchanged leg of each process is
judged in the same way: a red one is a false alarm.
"""

from __future__ import annotations

import argparse
import json
import math
import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from inject import KERNEL_SHARE

from pytest_torch_compile.speed import counted
from pytest_torch_compile.speed.held import FEWEST_RUNS, Held
from pytest_torch_compile.speed.reference import priors_of
from pytest_torch_compile.speed.verdict import MAX_PROCESSES, Verdict, side_of, split_wall

BASELINE_RUNS = 15
FEWEST_PROCESSES = FEWEST_RUNS + counted.MAX_PROCESSES
UNCHANGED = ("unchanged", "0")
Process = dict[str, Any]
Leg = tuple[str, str]


def legs_of(case: dict[str, Any]) -> Iterator[Leg]:
    """The unchanged leg of a case and its slowed ones, by side and percent."""
    yield UNCHANGED
    for side in ("kernel", "host"):
        for level in case.get(side, {}):
            yield side, level


def bound_by_launches(case: dict[str, Any], share: float) -> dict[str, Any]:
    """The case without its slower hosts where kernels take more than this share of the time."""
    plain = case["plain"]
    busy = "device" in plain and plain["device"][1] > share * plain["wall"][1]
    return {name: value for name, value in case.items() if not (busy and name == "host")}


def figures(case: dict[str, Any], leg: Leg) -> Any:
    """What one leg of a case measured."""
    return case["plain"] if leg == UNCHANGED else case[leg[0]][leg[1]]


def verdicts(processes: Sequence[Process], index: int, rng: random.Random) -> Iterator[tuple[str, Leg, Verdict, str]]:
    """Case, leg, verdict and where, for every leg of one process."""
    others = [p for i, p in enumerate(processes) if i != index]
    known = any("python-calls" in case["plain"] for case in processes[index].values())
    confirming = (counted.MAX_PROCESSES if known else MAX_PROCESSES) - 1
    drawn = rng.sample(others, min(len(others), BASELINE_RUNS + confirming))
    base, again = drawn[confirming:], drawn[:confirming]
    names = sorted(processes[index])
    alike = [[p[n]["plain"] for p in base if n in p and p[n]["code"] == code]
             for n in names for code in {p[n]["code"] for p in base if n in p}]  # fmt: skip
    priors = priors_of(alike)
    for name in names:
        case = processes[index][name]
        stored = [p[name] for p in base if name in p]
        held = Held.of(
            [c["plain"] for c in stored], [c["code"] for c in stored], case["code"], tests=len(names), priors=priors
        )
        for leg in legs_of(case):
            yield name, leg, *judged(held, case, leg, [p[name] for p in again if leg in legs_of(p.get(name, {}))])


def judged(held: Held, case: dict[str, Any], leg: Leg, again: Sequence[dict[str, Any]]) -> tuple[Verdict, str]:
    """The gate's verdict on a leg, with confirming processes as far as it asks for them, and the side it names."""
    new, problems, ran = [figures(case, leg)], list(case["problems"]), [case["code"]]
    for further in again:
        if problems or not held.needs_another(new):
            break
        if not held.admits(further["code"], ran):
            problems.append("the fresh process ran other compiled code")
        else:
            new.append(figures(further, leg))
            ran.append(further["code"])
    verdict = held.judge(new, problems)
    return verdict, side_of(verdict, split_wall(held.runs, new)) or ""


def as_if_counted(case: dict[str, Any]) -> dict[str, Any]:
    """The case as if Python calls had been counted, and the slower host made 10 % more of them."""

    def with_calls(run: dict[str, Any], calls: float) -> dict[str, Any]:
        return {**run, "python-calls": (1.0, calls, math.log(calls))}

    slowed = {level: with_calls(run, 1.1) for level, run in case.get("host", {}).items()}
    return {**case, "plain": with_calls(case["plain"], 1.0), **({"host": slowed} if slowed else {})}


def at_least(caught: int, runs: int, confidence: float = 0.95) -> float:
    """The one-sided lower bound of Clopper and Pearson for a share."""
    low, high = 0.0, caught / runs
    for _ in range(50):
        share = (low + high) / 2
        chance = sum(math.comb(runs, k) * share**k * (1 - share) ** (runs - k) for k in range(caught, runs + 1))
        low, high = (share, high) if chance < 1 - confidence else (low, share)
    return low


def main() -> None:
    """Read the samples and print the tables."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("samples", type=Path, nargs="+")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--one-source", action="store_true", help="take codes for tunings of one source")
    options.add_argument("--as-if-counted", action="store_true", help="as if slower hosts were known to call more")
    options.add_argument(
        "--kernel-share", type=float, default=KERNEL_SHARE, help="slower hosts of busier cases are left out"
    )
    chosen = options.parse_args()
    runs = [run for path in chosen.samples for run in json.loads(path.read_text())["runs"]]
    source = "cache/" if chosen.one_source else ""
    processes = [
        {
            n: bound_by_launches({**case, "code": source + case["code"]}, chosen.kernel_share)
            for n, case in run["cases"].items()
            if "plain" in case
        }
        for run in runs
    ]
    if len(processes) < FEWEST_PROCESSES:
        raise SystemExit(
            f"{len(processes)} processes: {FEWEST_PROCESSES} at least are needed, to store five and ask seven"
        )
    if chosen.as_if_counted:
        processes = [{name: as_if_counted(case) for name, case in process.items()} for process in processes]
    rng = random.Random(chosen.seed)
    outcomes: dict[Leg, Counter[str]] = defaultdict(Counter)
    sides: Counter[Leg] = Counter()
    open_by_case: dict[Leg, Counter[str]] = defaultdict(Counter)
    red_suites = 0
    for index in range(len(processes)):
        found = list(verdicts(processes, index, rng))
        red_suites += any(leg == UNCHANGED and v.outcome == "regressed" for _, leg, v, _ in found)
        for name, leg, verdict, where in found:
            outcomes[leg][verdict.outcome] += 1
            sides[leg] += verdict.outcome == "regressed" and where.startswith(leg[0])
            if (verdict.outcome == "regressed") == (leg == UNCHANGED):
                open_by_case[leg][f"{name} {verdict.outcome}"] += 1
    print(f"{len(processes)} processes; unchanged: {dict(outcomes[UNCHANGED])}, {red_suites} red suites", end="")
    print("".join(f", {what}" for what in open_by_case[UNCHANGED]))
    print(
        "| slowdown | slowed runs | caught | at least (95 %) | right side | not caught |\n| --- | --- | --- | --- | --- | --- |"
    )
    for leg in sorted(outcomes.keys() - {UNCHANGED}, key=lambda leg: (leg[0] != "kernel", int(leg[1]))):
        runs_of, caught = outcomes[leg].total(), outcomes[leg]["regressed"]
        missed = ", ".join(f"{what} {count}" for what, count in open_by_case[leg].most_common(4))
        print(f"| {leg[0]} {leg[1]} % | {runs_of} | {caught} ({100 * caught / runs_of:.1f} %) | "
              f"{100 * at_least(caught, runs_of):.1f} % | {sides[leg]} | {missed} |")  # fmt: skip


if __name__ == "__main__":
    main()
