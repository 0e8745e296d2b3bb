"""Every slowed run judged by the gate, against unchanged runs of other processes that share its compile cache.

    PYTHONPATH=src python3 benchmarks/speed/misses.py benchmarks/speed/data/inject-2.json

For each process others are drawn for a baseline, fifteen at most, and as many to confirm as the gate may ask for. A
confirming process that ran other compiled code confirms nothing, as in the gate. The unchanged leg of each process is
judged in the same way: a red one is a false alarm. What the gate would not judge and not store, as another process used
the device, is left out; so are slower hosts of cases that were bound by their launches in few of the processes only.
"""

from __future__ import annotations

import argparse
import json
import math
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from inject import KERNEL_SHARE

from pytest_torch_compile.speed.deciding import counts as counted
from pytest_torch_compile.speed.deciding.comparison import MIN_RUNS_OF_A_CODE, SpeedComparison
from pytest_torch_compile.speed.deciding.confirmation import MAX_PROCESSES, NoFigures, confirm
from pytest_torch_compile.speed.deciding.origin import side_of, split_wall
from pytest_torch_compile.speed.deciding.scatter import priors_of
from pytest_torch_compile.speed.deciding.verdict import Verdict

BASELINE_RUNS, CONFIRMING = 15, MAX_PROCESSES - 1
FEWEST_PROCESSES = MIN_RUNS_OF_A_CODE + MAX_PROCESSES
UNCHANGED = ("unchanged", "0")
Process = dict[str, Any]
Leg = tuple[str, str]


def legs_of(case: dict[str, Any]) -> Iterator[Leg]:
    """The unchanged leg of a case and its slowed ones, by side and percent."""
    yield UNCHANGED
    for side in ("kernel", "host"):
        for level in case.get(side, {}):
            yield side, level


def bound_by_launches(processes: Sequence[Process], share: float, few: bool) -> set[str]:
    """The cases that most processes, or a ``few``, slowed on the host, with kernels under this share of the time."""

    def bound(case: dict[str, Any]) -> bool:
        plain = case["plain"]
        return "host" in case and not ("device" in plain and plain["device"][1] > share * plain["wall"][1])

    taken = Counter(name for process in processes for name in process)
    found = Counter(name for process in processes for name, case in process.items() if bound(case))
    return {name for name, count in found.items() if few or count > taken[name] / 2}


class Judged(NamedTuple):
    """A verdict, the side it names, and how many further processes were asked for."""

    verdict: Verdict
    where: str
    asked: int


def verdicts(processes: Sequence[Process], index: int, rng: random.Random) -> Iterator[tuple[str, Leg, Judged]]:
    """Case, leg and what came of it, for every leg of one process."""
    others = rng.sample([p for i, p in enumerate(processes) if i != index], len(processes) - 1)
    taken = {name: [p[name] for p in others if name in p] for name in sorted(processes[index])}
    bases = {name: cases[CONFIRMING : CONFIRMING + BASELINE_RUNS] for name, cases in taken.items()}
    alike = [[c["plain"] for c in base if c["code"] == code] for base in bases.values()
             for code in {c["code"] for c in base}]  # fmt: skip
    priors = priors_of(alike)
    for name, base in bases.items():
        case = processes[index][name]
        runs, codes = [c["plain"] for c in base], [c["code"] for c in base]
        against = partial(SpeedComparison.of, runs, codes, tests=len(bases), priors=priors)
        for leg in legs_of(case):
            further = [Measured(c, leg) for c in taken[name][:CONFIRMING] if leg in legs_of(c)]
            yield name, leg, judged(against, Measured(case, leg), further)


@dataclass(frozen=True)
class Measured:
    """One leg of a case as the gate sees a process."""

    case: dict[str, Any]
    leg: Leg

    @property
    def code(self) -> str:
        """The code that ran."""
        return self.case["code"]

    @property
    def problems(self) -> list[str]:
        """Why it must not be gated."""
        return self.case["problems"]

    def figures(self) -> Any:
        """What the leg measured."""
        return self.case["plain"] if self.leg == UNCHANGED else self.case[self.leg[0]][self.leg[1]]


def judged(against: Callable[..., SpeedComparison], first: Measured, further: Sequence[Measured]) -> Judged:
    """The gate's verdict on a leg, with further processes as far as it asks for them."""
    left = iter(further)

    def another(comparison: SpeedComparison) -> Measured:
        for process in left:
            return process
        raise NoFigures("no process is left")

    confirmation = confirm(against, first, another)
    verdict = confirmation.verdict()
    where = side_of(verdict, split_wall(confirmation.comparison.runs, confirmation.figures)) or ""
    return Judged(verdict, where, len(further) - len(list(left)))


def time_alone(case: dict[str, Any]) -> dict[str, Any]:
    """The case without what was counted, in every leg."""

    def timed(run: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in run.items() if not name.startswith(tuple(counted.TITLES))}

    slowed = {
        side: {level: timed(run) for level, run in case[side].items()} for side, _ in legs_of(case) if side in case
    }
    return {**case, "plain": timed(case["plain"]), **slowed}


def at_least(caught: int, runs: int, confidence: float = 0.95) -> float:
    """The one-sided lower bound of Clopper and Pearson for a share."""
    low, high = 0.0, caught / runs
    for _ in range(50):
        share = (low + high) / 2
        chance = sum(math.comb(runs, k) * share**k * (1 - share) ** (runs - k) for k in range(caught, runs + 1))
        low, high = (share, high) if chance < 1 - confidence else (low, share)
    return low


@dataclass
class Tally:
    """What came of every leg of every process, in all draws: outcomes, and for slowed legs which side was named."""

    draws: int
    outcomes: dict[Leg, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    caught: dict[Leg, list[int]] = field(default_factory=dict)
    sides: Counter[Leg] = field(default_factory=Counter)
    wrong: dict[Leg, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    red_suites: int = 0
    asked: Counter[Leg] = field(default_factory=Counter)

    def draw(self, processes: Sequence[Process], rng: random.Random) -> None:
        """Judge every leg of every process once."""
        before = {leg: counts["regressed"] for leg, counts in self.outcomes.items()}
        for index in range(len(processes)):
            found = list(verdicts(processes, index, rng))
            self.red_suites += any(leg == UNCHANGED and its.verdict.outcome == "regressed" for _, leg, its in found)
            for name, leg, (verdict, where, asked) in found:
                self.asked[leg] += asked
                self.outcomes[leg][verdict.outcome] += 1
                self.sides[leg] += verdict.outcome == "regressed" and where.startswith(leg[0])
                if (verdict.outcome == "regressed") == (leg == UNCHANGED):
                    self.wrong[leg][f"{name} {verdict.outcome}"] += 1
        for leg, counts in self.outcomes.items():
            self.caught.setdefault(leg, []).append(counts["regressed"] - before.get(leg, 0))

    def lines(self, processes: Sequence[Process]) -> Iterator[str]:
        """A table, with a row for each side and size."""
        yield "| slowdown | measured | slowed runs | caught | in one draw | at least (95 %) | right side | not caught |"
        yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
        for leg in sorted(self.outcomes.keys() - {UNCHANGED}, key=lambda leg: (leg[0] != "kernel", int(leg[1]))):
            runs, caught = self.outcomes[leg].total() // self.draws, self.caught[leg]
            share, bound = sum(caught) / (self.draws * runs), at_least(sum(caught) // self.draws, runs)
            side = self.sides[leg] / max(1, sum(caught))
            missed = ", ".join(f"{what} {count}" for what, count in self.wrong[leg].most_common(4))
            yield (f"| {leg[0]} {leg[1]} % | {measured(processes, leg):.1f} % | {runs} | {100 * share:.1f} % | {min(caught)} to {max(caught)} | "
                   f"{100 * bound:.1f} % | {100 * side:.1f} % | {missed} |")  # fmt: skip


def measured(processes: Sequence[Process], leg: Leg) -> float:
    """By how many percent the leg's time against eager's rose in the same process, the median of all cases."""
    quantity = "device" if leg[0] == "kernel" else "wall"
    rises = [case[leg[0]][leg[1]][quantity][2] - case["plain"][quantity][2]
             for process in processes for case in process.values() if leg in legs_of(case)]  # fmt: skip
    return 100 * math.expm1(median(rises))


def read(options: argparse.Namespace) -> list[Process]:
    """The processes of all files, as the options want them."""
    runs = [run for path in options.samples for run in json.loads(path.read_text())["runs"]]
    if min(len(runs), options.processes or len(runs)) < FEWEST_PROCESSES:
        raise SystemExit(f"{FEWEST_PROCESSES} processes at least are needed, to store five and ask seven")
    source = "cache/" if options.one_source else ""

    processes = [
        {
            name: {**case, "code": source + case["code"]}
            for name, case in run["cases"].items()
            if sound(case, options.all)
        }
        for run in runs
    ]
    hosts = bound_by_launches(processes, options.kernel_share, few=options.all)

    def seen(name: str, case: dict[str, Any]) -> dict[str, Any]:
        case = case if name in hosts else but_host(case)
        return time_alone(case) if options.time_alone else case

    return [{name: seen(name, case) for name, case in process.items()} for process in processes]


def sound(case: dict[str, Any], disturbed: bool) -> bool:
    """Whether the gate would judge and store what was measured, or what was ``disturbed`` counts too."""
    return "plain" in case and (disturbed or not case["problems"])


def but_host(case: dict[str, Any]) -> dict[str, Any]:
    """The case without its slower hosts."""
    return {name: value for name, value in case.items() if name != "host"}


def main() -> None:
    """Read the samples and print the table."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("samples", type=Path, nargs="+")
    options.add_argument(
        "--draws", type=int, default=12, help="of stored and of confirming processes, for each process"
    )
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--processes", type=int, help="so many of them only, others in each draw")
    options.add_argument("--one-source", action="store_true", help="take codes for tunings of one source")
    options.add_argument(
        "--all", action="store_true", help="leave out neither disturbed cases nor hosts of few processes"
    )
    options.add_argument("--time-alone", action="store_true", help="leave out what was counted")
    options.add_argument(
        "--kernel-share",
        type=float,
        default=KERNEL_SHARE,
        help="slower hosts of busier cases are left out; 1 keeps all",
    )
    chosen = options.parse_args()
    processes, rng, tally = read(chosen), random.Random(chosen.seed), Tally(chosen.draws)
    for _ in range(chosen.draws):
        tally.draw(rng.sample(processes, chosen.processes) if chosen.processes else processes, rng)
    unchanged = ", ".join(f"{count} {outcome}" for outcome, count in tally.outcomes[UNCHANGED].most_common())
    red = "".join(f"; {what} {count}" for what, count in tally.wrong[UNCHANGED].items())
    judged_cases = sum(map(len, processes))
    print(f"{judged_cases} cases in {len(processes)} processes, {chosen.draws} draws; unchanged: {unchanged}")
    suites = chosen.draws * (chosen.processes or len(processes))
    asked = tally.asked[UNCHANGED] / suites
    print(f"{tally.red_suites} of {suites} unchanged suites red{red}; {asked:.1f} further processes for each")
    print("\n".join(tally.lines(processes)))


if __name__ == "__main__":
    main()
