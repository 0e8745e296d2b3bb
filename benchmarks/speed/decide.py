"""What the gate's rule says of recorded runs: the tables of the study, and what each part of the rule is worth.

    PYTHONPATH=src python3 benchmarks/speed/decide.py

Recorded are processes that measured a suite unchanged and with slowdowns of known size (`inject-*.json`, of one
compile cache each), fresh compilations of unchanged suites (the baselines), and changes of the compiled leg
(`changes-*.json`). A session is drawn from them as the gate would have seen it: stored runs, a first run, and
as many further ones as the rule asks for.
"""

from __future__ import annotations

import argparse
import json
import math
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_torch_compile.speed.deciding import constants, times
from pytest_torch_compile.speed.deciding.constants import MAX_COMPILATIONS
from pytest_torch_compile.speed.sample import Run, Times

DATA = Path(__file__).with_name("data")
ROOT = Path(__file__).resolve().parents[2]
BASELINES = ROOT / "baselines" / "NVIDIA-H200_torch-2.11_cuda-13.0" / "speed.json"
DRAWS = 2000


def run_of(figures: Mapping[str, Any], code: str = "", kept: bool = False) -> Run:
    """A run from figures as they were recorded: eager, compiled and log ratio of each time, in any unit."""
    three = {name: Times(*figures[name][:3]) for name in ("wall", "host", "device") if name in figures}
    return Run(**three, code=code, kept_cache=kept)


@dataclass(frozen=True)
class Process:
    """One process: each case unchanged, and slowed."""

    unchanged: Mapping[str, Run]
    slowed: Mapping[str, Mapping[str, Run]]  # by "kernel 2", then by case


def injected(name: str) -> list[Process]:
    """The processes of one recording that were not disturbed."""
    processes = []
    for entry in json.loads((DATA / name).read_text())["runs"]:
        slowed: dict[str, dict[str, Run]] = defaultdict(dict)
        unchanged = {}
        for case, one in entry["cases"].items():
            if one.get("problems") or not isinstance(one["plain"]["wall"], list):
                continue
            unchanged[case] = run_of(one["plain"], kept=True)
            for side in ("kernel", "host"):
                for level, figures in one.get(side, {}).items():
                    slowed[f"{side} {level}"][case] = run_of(figures, kept=True)
        processes.append(Process(unchanged, slowed))
    return processes


def decide(stored: Sequence[Run], runs: Iterator[Run], tests: int) -> tuple[str, int]:
    """What the gate says of a test, taking further runs as it asks for them; and how many it took."""
    new = [next(runs)]
    while True:
        verdict = times.judge(stored, new, tests=tests)
        if not verdict.undecided or len(new) >= MAX_COMPILATIONS:
            return verdict.outcome, len(new)
        following = next(runs, None)
        if following is None:
            return verdict.outcome, len(new)
        new.append(following)


def caught(processes: Sequence[Process], level: str, how_many: int, draws: int, seed: int = 0) -> tuple[float, int]:
    """The share of slowed tests that are red, with so many stored runs."""
    chance, red, all_of_them = random.Random(seed), 0, 0
    tests = len(processes[0].unchanged)
    for _ in range(draws):
        order = chance.sample(range(len(processes)), len(processes))
        old, later = order[:how_many], order[how_many:]
        for case in processes[later[0]].slowed[level]:
            stored = [processes[i].unchanged[case] for i in old if case in processes[i].unchanged]
            new = [processes[i].slowed[level][case] for i in later if case in processes[i].slowed[level]]
            red += decide(stored, iter(new), tests)[0] == "regressed"
            all_of_them += 1
    return red / max(1, all_of_them), all_of_them


def red_suites(histories: Mapping[str, Sequence[Run]], how_many: int, draws: int, seed: int = 0) -> tuple[int, float]:
    """How many of so many unchanged suites are red, and how many further runs a suite asks for."""
    chance, red, further = random.Random(seed), 0, 0
    for _ in range(draws):
        outcomes = []
        for runs in histories.values():
            order = chance.sample(runs, len(runs))
            outcome, took = decide(order[:how_many], iter(order[how_many:]), len(histories))
            outcomes.append(outcome)
            further += took - 1
        red += "regressed" in outcomes
    return red, further / draws


def compilations() -> dict[str, list[Run]]:
    """The fresh compilations of each test in the committed baselines, one run of each."""
    histories = {}
    for entry in json.loads(BASELINES.read_text())["benchmarks"]:
        ours = entry["extra_info"]["torch_compile"]
        codes = ours.get("codes", [""] * len(ours["runs"]))
        # In another cache the name of the code may be that of the cache: it is a compilation of its own all the same.
        one_each = {code: run_of(run, code) for run, code in zip(ours["runs"], codes, strict=True)}
        histories[entry["fullname"].split("::")[-1]] = list(one_each.values())
    return histories


def processes_by_case(processes: Sequence[Process]) -> dict[str, list[Run]]:
    """The unchanged runs of each case."""
    histories: dict[str, list[Run]] = defaultdict(list)
    for process in processes:
        for case, run in process.unchanged.items():
            histories[case].append(run)
    return histories


def tables(draws: int) -> dict[str, Any]:
    """Every figure of the study that is computed here."""
    result: dict[str, Any] = {"caught": {}, "unchanged": {}}
    for name, how_many in (("inject-6.json", 8), ("inject-7.json", 6), ("inject-8.json", 12), ("inject-8.json", 15)):
        processes = injected(name)
        for level in sorted({level for process in processes for level in process.slowed}):
            share, count = caught(processes, level, how_many, max(20, draws // 20))
            result["caught"][f"{name} {how_many} stored, {level} %"] = [round(100 * share, 1), count]
        red, further = red_suites(processes_by_case(processes), how_many, draws)
        result["unchanged"][f"{name} {how_many} stored"] = [red, draws, round(further, 2)]
    histories = {name: runs for name, runs in compilations().items() if len(runs) >= 10}
    for how_many in (5, 7):
        red, further = red_suites(histories, how_many, draws)
        result["unchanged"][f"compilations, {how_many} stored, {len(histories)} tests"] = [
            red,
            draws,
            round(further, 2),
        ]
    return result


ABLATIONS: dict[str, dict[str, Any]] = {
    "the rule": {},
    "first run counted as well": {"drop_first": False},
    "no prior": {"PRIOR_FREEDOM": 0},
    "no floor": {"FLOORS": dict.fromkeys(constants.FLOORS, 0.0)},
    "twice the typical spread": {"SPREADS": {k: 2 * v for k, v in constants.SPREADS.items()}},
    "half the typical spread": {"SPREADS": {k: v / 2 for k, v in constants.SPREADS.items()}},
    "wall time against eager's wall time always": {"HOST_BOUND": 0.0},
    "wall time against eager's device time always": {"HOST_BOUND": math.inf},
    "given up never": {"GIVEN_UP": 1.0},
}


def main() -> None:
    """Print every table as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=DRAWS)
    parser.add_argument("--ablate", action="store_true")
    options = parser.parse_args()
    for name, changes in (ABLATIONS if options.ablate else {"the rule": {}}).items():
        if "drop_first" in changes:
            continue
        before = {key: getattr(times, key) for key in changes}
        for key, value in changes.items():
            setattr(times, key, value)
        print(name, json.dumps(tables(options.draws), indent=1))
        for key, value in before.items():
            setattr(times, key, value)


if __name__ == "__main__":
    main()
