"""Recompute what the page says of compilations: how one test scatters between compile caches, and what two rules make of it.

PYTHONPATH=src python3 benchmarks/speed/compilations.py
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from sessions import figures

from pytest_torch_compile.speed.deciding.comparison import SpeedComparison
from pytest_torch_compile.speed.deciding.scatter import priors_of
from pytest_torch_compile.speed.sample import Figures

DATA = Path(__file__).with_name("data")
Caches = dict[str, dict[str, list[Figures]]]


def read() -> Caches:
    """For each case, the sessions of each compile cache; ``a`` is the one of the page's other sessions."""
    found: Caches = {}
    earlier = [run for run in _runs("sessions-1.json") if run["what"].startswith("record")]
    later = [run for run in _runs("compilations-1.json") if "slowed" not in run["what"]]
    for run in [*({**run, "cache": "a"} for run in earlier), *later]:
        for case, measured in run["cases"].items():
            found.setdefault(case, {}).setdefault(run["cache"], []).append(_in_seconds(figures(measured)))
    return found


def _in_seconds(run: Figures) -> Figures:
    """The earlier sessions are kept in microseconds."""
    unit = 1e-6 if run["wall"][0] > 1 else 1.0
    return {name: (eager * unit, compiled * unit, ratio) for name, (eager, compiled, ratio) in run.items()}


def _runs(name: str) -> list[dict[str, Any]]:
    return json.loads((DATA / name).read_text())["runs"]


def scatter(sessions: Caches) -> list[str]:
    """Compiled device time: the range of the caches' means, and of the sessions of one cache."""
    lines = ["| case | between compile caches | between sessions of one |", "| --- | --- | --- |"]
    for case, caches in sorted(sessions.items()):
        times = {cache: [math.log(run["device"][1]) for run in runs] for cache, runs in caches.items()}
        within = max(_range(values) for values in times.values())
        lines.append(f"| {case} | {_percent(_range([fmean(v) for v in times.values()]))} | {_percent(within)} |")
    return lines


def _range(values: Sequence[float]) -> float:
    return max(values) - min(values)


def _percent(log_ratio: float) -> str:
    return f"{100 * math.expm1(log_ratio):.1f} %"


def draws(sessions: Caches, stored: int, *, told_apart: bool) -> dict[str, int]:
    """Suites red: some caches are the baseline, another is what the session compiled, two more what it compiles anew.

    Told apart, runs of another cache are other code. Else they are all taken for processes of one code, and the session's
    own runs confirm each other, as without this rule.
    """
    caches = sorted(next(iter(sessions.values())))
    found = {"suites": 0, "red": 0, "with an inconclusive test": 0}
    for base in itertools.combinations(caches, stored):
        for now in itertools.permutations([c for c in caches if c not in base], 3):
            outcomes = _suite(sessions, base, now, told_apart)
            found["suites"] += 1
            found["red"] += "regressed" in outcomes
            found["with an inconclusive test"] += "inconclusive" in outcomes
    return found


def _suite(sessions: Caches, base: Sequence[str], now: Sequence[str], told_apart: bool) -> set[str]:
    groups = [sessions[case][cache] for case in sessions for cache in base]
    priors = priors_of(groups)
    return {_outcome(sessions[case], base, now, told_apart, len(sessions), priors) for case in sessions}


def _outcome(
    caches: Mapping[str, list[Figures]], base: Sequence[str], now: Sequence[str], told_apart: bool, tests: int,
    priors: Mapping[str, float],
) -> str:  # fmt: skip
    runs = [run for cache in base for run in caches[cache]]
    codes = [cache if told_apart else "" for cache in base for _ in caches[cache]]
    comparison = SpeedComparison.of(runs, codes, now[0] if told_apart else "", tests=tests, priors=priors)
    further = [caches[cache][0] for cache in now] if told_apart else (caches[now[0]] * 3)[:3]
    new = further[:1]
    while len(new) < len(further) and comparison.needs_another(new):
        new = further[: len(new) + 1]
    return comparison.judge(new).outcome


def main() -> None:
    """Print everything."""
    sessions = read()
    print("\n".join(scatter(sessions)))
    for stored in (1, 2, 3, 4):
        for told_apart in (False, True):
            print(f"{stored} caches stored, told apart {told_apart}: {draws(sessions, stored, told_apart=told_apart)}")


if __name__ == "__main__":
    main()
