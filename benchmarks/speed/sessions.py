"""Recompute what the page says of pytest sessions on a device, from what they left.

PYTHONPATH=src python3 benchmarks/speed/sessions.py
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from replay import gate

from pytest_torch_compile.speed.deciding.confirmation import MAX_PROCESSES
from pytest_torch_compile.speed.deciding.scatter import log_ratio, priors_of
from pytest_torch_compile.speed.deciding.verdict import changes_of
from pytest_torch_compile.speed.sample import Figures

DATA = Path(__file__).with_name("data")
Run = dict[str, Any]


def figures(case: dict[str, Any]) -> Figures:
    """The figures of one case in one session; medians of a script's rounds have no ratio of their own."""
    found: Figures = {}
    for name in ("wall", "host", "device"):
        eager, compiled, *ratio = case[name]
        found[name] = (eager, compiled, ratio[0] if ratio else math.log(compiled / eager))
    return found


def read(name: str) -> list[Run]:
    """The runs of a file, with the figures of every case."""
    runs = json.loads((DATA / name).read_text())["runs"]
    return [{**run, "figures": {n: figures(case) for n, case in run["cases"].items()}} for run in runs]


def depth(runs: list[Run]) -> list[str]:
    """Compiled wall time against eager's, in pytest over in a script, before the loops had room on the stack."""
    scripts = [run["figures"] for run in runs if run["what"] == "script"]
    sessions = [run["figures"] for run in runs if run["what"].startswith("pytest")]
    lines = ["| case | wall time against eager, pytest over script | device time |", "| --- | --- | --- |"]
    for case in sorted(scripts[0]):
        moved = []
        for metric in ("wall", "device"):
            before, after = (
                fmean(log_ratio(run[case], metric, metric) for run in found if case in run)
                for found in (scripts, sessions)
            )
            moved.append(f"{100 * math.expm1(after - before):+.1f} %")
        lines.append(f"| {case} | {' | '.join(moved)} |")
    return lines


def noise(runs: list[Run]) -> list[str]:
    """The standard deviation over sessions of the ratio to eager, in percent: how many, on how many devices."""
    devices = len({run["device_uuid"] for run in runs})
    lines = [f"{len(runs)} sessions on {devices} devices", "| case | wall | device |", "| --- | --- | --- |"]
    for case in sorted(runs[0]["figures"]):
        spreads = [100 * stdev(log_ratio(run["figures"][case], m, m) for run in runs) for m in ("wall", "device")]
        lines.append(f"| {case} | {spreads[0]:.2f} % | {spreads[1]:.2f} % |")
    return lines


def each_against_the_others(runs: list[Run]) -> dict[str, int]:
    """Every whole session as the new one, the next ones confirming, the rest its baseline: how many are red."""
    names = sorted(runs[0]["figures"])
    counts = {"sessions": len(runs), "red": 0, "with another verdict than pass": 0, "further processes": 0}
    for index in range(len(runs)):
        order = [(index + step) % len(runs) for step in range(MAX_PROCESSES)]
        rest = [run for i, run in enumerate(runs) if i not in order]
        stored = {n: [run["figures"][n] for run in rest] for n in names}
        prior = priors_of(list(stored.values()))
        new = {n: [runs[i]["figures"][n] for i in order] for n in names}
        answers = [gate(stored[n], new[n], len(names), prior) for n in names]
        outcomes = {found.outcome for found, _ in answers}
        counts["red"] += "regressed" in outcomes
        counts["with another verdict than pass"] += outcomes != {"pass"}
        counts["further processes"] += sum(used - 1 for _, used in answers)
    return counts


def slowed(runs: list[Run], baseline: list[Run]) -> list[str]:
    """What one process of each slowed session showed, of the slowed case and of the others."""
    stored = {n: [run["figures"][n] for run in baseline] for n in baseline[0]["figures"]}
    prior = priors_of(list(stored.values()))
    lines = []
    for run in runs:
        for case, found in run["figures"].items():
            changes = changes_of(stored[case], [found], prior)
            over = [c for c in changes if abs(c.effect) > c.floor and c.p_value < 0.01]
            lines += [f"{run['what']}: {case}: {c.metric} {c.percent:+.1f} %, p = {c.p_value:.1g}" for c in over]
    return lines


def main() -> None:
    """Print everything."""
    print("\n".join(depth(read("stack-depth.json"))))
    runs = read("sessions-1.json")
    recorded = [run for run in runs if run["what"].startswith("record")]
    whole = [run for run in runs if len(run["cases"]) == len(runs[0]["cases"]) and "slowed" not in run["what"]]
    print("\n".join(noise(whole)))
    print(each_against_the_others(whole))
    print("\n".join(slowed([run for run in runs if "slowed" in run["what"]], recorded)))
    cases = list(json.loads((DATA / "sessions-1.json").read_text())["order"])
    for run in runs:
        if "progress" in run:
            red = [case for case, mark in zip(cases, run["progress"], strict=False) if mark == "F"]
            print(f"{run['what']}: {len(run['progress'])} tests ended, red: {', '.join(red) or 'none'}")
        if "verdicts" in run:
            counts = {v: list(run["verdicts"].values()).count(v) for v in set(run["verdicts"].values())}
            print(f"{run['what']}: {counts}")


if __name__ == "__main__":
    main()
