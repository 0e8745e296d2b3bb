"""Recompute the error rates from the committed samples: false alarms, misses, and other rules on the same figures.

    PYTHONPATH=src python3 benchmarks/speed/replay.py --aa benchmarks/speed/data/aa*.json \
        --inject benchmarks/speed/data/inject-1.json --out benchmarks/speed/data/rates.json

It takes Mann-Whitney's test from scipy, and ``--plot`` draws with matplotlib.
"""

from __future__ import annotations

import argparse
import json
import math
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any

from pytest_torch_compile.speed.deciding.confirmation import MAX_PROCESSES
from pytest_torch_compile.speed.deciding.origin import side_of, split_wall
from pytest_torch_compile.speed.deciding.scatter import METRICS, control_of, log_ratio, priors_of
from pytest_torch_compile.speed.deciding.statistics import log_ratios, trimmed_mean
from pytest_torch_compile.speed.deciding.verdict import Verdict, judge, needs_another_process
from pytest_torch_compile.speed.sample import Figures

Process = dict[str, Any]


def figures(case: dict[str, Any]) -> Figures:
    """The figures of one case in one process, from its rounds, as the gate computes them."""
    found: Figures = {}
    for name in ("wall", "host", "device"):
        if name in case:
            eager, compiled = case[name]["eager"], case[name]["compiled"]
            ratios = log_ratios(eager, compiled)
            ratio = trimmed_mean(ratios) if len(ratios) > 3 else fmean(ratios)
            found[name] = (median(eager), median(compiled), ratio)
    for name, counts in (("kernels", case.get("kernels")), ("python-calls", case.get("python_calls"))):
        if counts and all(counts):
            found[name] = (*counts, math.log(counts[1] / counts[0]))
    if case.get("memory"):
        eager_bytes, compiled_bytes = case["memory"]
        found["memory"] = (eager_bytes, compiled_bytes, math.log(compiled_bytes / eager_bytes))
    return found


def gate(stored: list[Figures], new: list[Figures], tests: int, prior: dict[str, float]) -> tuple[Verdict, int]:
    """The gate's verdict, and how many of the ``new`` processes it asked for."""
    used = 1
    while used < len(new) and needs_another_process(stored, new[:used], tests=tests, priors=prior):
        used += 1
    return judge(stored, new[:used], tests=tests, priors=prior), used


def mean_5(base: list[float], new: list[float]) -> bool:
    """pytest-benchmark's --benchmark-compare-fail=mean:5%."""
    return fmean(new) > 1.05 * fmean(base)


def min_5(base: list[float], new: list[float]) -> bool:
    """pytest-benchmark's --benchmark-compare-fail=min:5%."""
    return min(new) > 1.05 * min(base)


def asv(base: list[float], new: list[float]) -> bool:
    """asv's rule: a factor of 1.1 on the medians, and a Mann-Whitney p under 0.002."""
    from scipy.stats import mannwhitneyu

    return median(new) > 1.1 * median(base) and mannwhitneyu(base, new, method="asymptotic").pvalue < 0.002


def fixed(percent: float) -> Callable[[list[float], list[float]], bool]:
    """A fixed factor on the medians."""
    return lambda base, new: median(new) > (1 + percent / 100) * median(base)


RULES: dict[str, Callable[[list[float], list[float]], bool]] = {
    "pytest-benchmark mean:5%": mean_5,
    "pytest-benchmark min:5%": min_5,
    "Mann-Whitney and factor 1.1": asv,
    "fixed 5 %": fixed(5),
    "fixed 200 %": fixed(200),
}


def false_alarms(processes: Sequence[Process], count: int, rng: random.Random, runs: int) -> dict[str, Any]:
    """Resampled suite runs: so many ``runs`` are the baseline, one is the run, the next ones confirm."""
    known = [{name: figures(case) for name, case in p["cases"].items()} for p in processes]
    names = sorted(set.intersection(*(set(k) for k in known)))
    red = dict.fromkeys(["gate", *RULES], 0)
    outcomes = dict.fromkeys(["inconclusive", "improved"], 0)
    further = 0
    for _ in range(count):
        drawn = rng.sample(range(len(known)), min(len(known), runs + MAX_PROCESSES))
        base, new = drawn[:runs], drawn[runs:]
        stored = {n: [known[i][n] for i in base] for n in names}
        prior = priors_of(list(stored.values()))
        answers = [gate(stored[n], [known[i][n] for i in new], len(names), prior) for n in names]
        red["gate"] += any(found.outcome == "regressed" for found, _ in answers)
        for outcome in outcomes:
            outcomes[outcome] += any(found.outcome == outcome for found, _ in answers)
        further += sum(used - 1 for _, used in answers)
        for rule, wrong in RULES.items():
            red[rule] += any(wrong(wall(processes, base[0], n), wall(processes, new[0], n)) for n in names)
    return {
        "processes": len(processes),
        "cases": len(names),
        "suites": count,
        "red": red,
        "rate": {rule: round(number / count, 5) for rule, number in red.items()},
        "suites with another verdict": outcomes,
        "further processes per suite": round(further / count, 3),
        "noise": {name: _noise([k[name] for k in known]) for name in names},
    }


def leave_one_out(processes: Sequence[Process]) -> dict[str, Any]:
    """Every real run once as the new one, against all the others: how many suites are red."""
    known = [{name: figures(case) for name, case in p["cases"].items()} for p in processes]
    names = sorted(set.intersection(*(set(k) for k in known)))
    red = []
    for run in range(len(known)):
        again = [(run + step) % len(known) for step in range(1, MAX_PROCESSES)]
        stored = {n: [k[n] for i, k in enumerate(known) if i != run and i not in again] for n in names}
        prior = priors_of(list(stored.values()))
        answers = [gate(stored[n], [known[i][n] for i in (run, *again)], len(names), prior)[0].outcome for n in names]
        red.append("regressed" in answers)
    return {"suite runs": len(red), "red": sum(red)}


def _noise(runs: list[Figures]) -> dict[str, Any]:
    """In percent over all processes: how the ratio to eager, the compiled leg alone, and what is gated scatter."""
    found = {}
    for metric in METRICS:
        if all(metric in run for run in runs):
            control = control_of(metric, runs)
            gated, paired, alone = (
                round(100 * stdev([log_ratio(run, metric, c) for run in runs]), 3) for c in (control, metric, "")
            )
            found[metric] = {"paired": paired, "alone": alone, "gated": gated, "control": control}
    return found


def wall(processes: Sequence[Process], index: int, name: str) -> list[float]:
    """The compiled wall time of every round."""
    return processes[index]["cases"][name]["wall"]["compiled"]


def misses(
    unchanged: Sequence[Process], slowed: Sequence[Process], draws: int, rng: random.Random, stored: int
) -> list[dict[str, Any]]:
    """For each side and size of slowdown, how many of the slowed runs each rule caught against A/A baselines."""
    names = sorted({n for p in unchanged for n in p["cases"]})
    known = [{name: figures(case) for name, case in p["cases"].items()} for p in unchanged]
    sizes = sorted({(side, level) for p in slowed for c in p["cases"].values() for side in ("kernel", "host")
                    for level in c.get(side, {})}, key=lambda pair: (pair[0], int(pair[1])))  # fmt: skip
    return [_level(side, level, names, known, unchanged, slowed, draws, rng, stored) for side, level in sizes]


def slowed_case(case: dict[str, Any], side: str, level: str) -> dict[str, Any]:
    """A slowed case in the form of an A/A case: what was not measured again is that of the unchanged leg."""
    return {**case["plain"], **case[side][level]}


def slowed_wall(case: dict[str, Any], side: str, level: str) -> list[float]:
    """The wall time of the slowed leg, for the rules that look at nothing else."""
    return case[side][level]["slowed_wall"] if side == "kernel" else case[side][level]["wall"]["compiled"]


def _level(
    side: str, level: str, names: list[str], known: list[dict[str, Figures]], unchanged: Sequence[Process],
    slowed: Sequence[Process], draws: int, rng: random.Random, count: int,
) -> dict[str, Any]:  # fmt: skip
    runs = {n: [p["cases"][n] for p in slowed if level in p["cases"].get(n, {}).get(side, {})] for n in names}
    runs = {n: cases for n, cases in runs.items() if len(cases) >= 2}
    slow = {n: [figures(slowed_case(c, side, level)) for c in cases] for n, cases in runs.items()}
    caught = dict.fromkeys(["gate", "gate, right side", *RULES], 0)
    by_case: dict[str, list[bool]] = {n: [] for n in runs}
    for _ in range(draws):
        base = rng.sample(range(len(known)), min(count, len(known)))
        stored = {n: [known[i][n] for i in base] for n in names}
        prior = priors_of(list(stored.values()))
        for n, cases in runs.items():
            drawn = rng.sample(range(len(cases)), min(MAX_PROCESSES, len(cases)))
            new = [slow[n][i] for i in drawn]
            verdict, used = gate(stored[n], new, len(names), prior)
            red = verdict.outcome == "regressed"
            by_case[n].append(red)
            caught["gate"] += red
            place = side_of(verdict, split_wall(stored[n], new[:used]))
            caught["gate, right side"] += red and (place or "").startswith(side)
            plain, now = wall(unchanged, base[0], n), slowed_wall(cases[drawn[0]], side, level)
            for rule, wrong in RULES.items():
                caught[rule] += wrong(plain, now)
    total = sum(len(hits) for hits in by_case.values())
    metric = "device" if side == "kernel" else "wall"
    real = [run[metric][1] / fmean([k[n][metric][1] for k in known]) - 1 for n in slow for run in slow[n]]
    return {
        "side": side, "percent": int(level), "cases": len(runs), "processes": len(slowed),
        "slowed runs": sum(map(len, runs.values())), "draws": total,
        "measured percent": round(100 * median(real), 2),
        "caught": {rule: round(number / total, 4) for rule, number in caught.items()},
        "by case": {n: round(fmean(hits), 3) for n, hits in by_case.items()},
    }  # fmt: skip


def plot(rates: dict[str, Any], path: Path) -> None:
    """The share caught over the size of the slowdown, one panel for each side."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(11, 4.2), sharey=True)
    for axis, side in zip(axes, ("kernel", "host"), strict=True):
        levels = sorted((row for row in rates["misses"] if row["side"] == side), key=lambda row: row["percent"])
        for rule in ("gate", *RULES):
            xs, ys = [row["percent"] for row in levels], [100 * row["caught"][rule] for row in levels]
            axis.plot(xs, ys, marker="o", linewidth=2.5 if rule == "gate" else 1, label=rule)
        runs = levels[0]["slowed runs"] if levels else 0
        axis.set(title=f"{side}-side slowdowns ({runs} slowed runs at each size)", xscale="log", xlabel="slowdown, %")
        axis.set_xticks([1, 2, 3, 5, 10, 20], ["1", "2", "3", "5", "10", "20"])
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("caught, %")
    alarms = rates["false alarms"]["rate"]
    lines, labels = axes[0].get_legend_handles_labels()
    named = [f"{label} (red without cause: {100 * alarms[label]:.1f} %)" for label in labels]
    figure.legend(lines, named, loc="lower center", ncol=2, frameon=False, fontsize=8)
    figure.subplots_adjust(bottom=0.32, left=0.07, right=0.98, top=0.92, wspace=0.06)
    figure.savefig(path, dpi=110)


def markdown(rates: dict[str, Any]) -> str:
    """The tables of docs/speed.md."""
    rules = ["gate", *RULES]
    alarms = rates["false alarms"]
    lines = ["| rule | red suites without cause |", "| --- | --- |"]
    lines += [
        f"| {rule} | {100 * alarms['rate'][rule]:.2f} % ({alarms['red'][rule]} of {alarms['suites']}) |"
        for rule in rules
    ]
    lines += [
        "",
        "| slowdown | measured | slowed runs | " + " | ".join(rules) + " |",
        "| --- " * (3 + len(rules)) + "|",
    ]
    for row in sorted(rates["misses"], key=lambda row: (row["side"] != "kernel", row["percent"])):
        caught = " | ".join(f"{100 * row['caught'][rule]:.1f} %" for rule in rules)
        title = f"{row['side']} {row['percent']} %"
        lines.append(f"| {title} | {row['measured percent']:.1f} % | {row['slowed runs']} | {caught} |")
    lines += ["", "| case | wall, paired | wall, as gated | device, as gated |", "| --- | --- | --- | --- |"]
    for name, noise in alarms["noise"].items():
        wall, device = noise["wall"], noise["device"]
        held = f" against {wall['control']}" if wall["control"] != "wall" else ""
        lines.append(f"| {name} | {wall['paired']:.2f} % | {wall['gated']:.2f} %{held} | {device['gated']:.2f} % |")
    return "\n".join(lines)


def main() -> None:
    """Read the samples, write the rates, draw the curve."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--aa", type=Path, nargs="+", required=True)
    options.add_argument("--inject", type=Path, nargs="*", default=[])
    options.add_argument("--suites", type=int, default=2000)
    options.add_argument("--draws", type=int, default=300)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--baseline-runs", type=int, default=15)
    options.add_argument("--out", type=Path)
    options.add_argument("--plot", type=Path)
    chosen = options.parse_args()
    rng = random.Random(chosen.seed)
    unchanged, slowed, stored = _runs(chosen.aa), _runs(chosen.inject), chosen.baseline_runs
    rates: dict[str, Any] = {"schema_version": 1, "false alarms": false_alarms(unchanged, chosen.suites, rng, stored)}
    rates["leave one out"] = leave_one_out(unchanged)
    rates["misses"] = misses(unchanged, slowed, chosen.draws, rng, stored) if slowed else []
    if chosen.out:
        chosen.out.write_text(json.dumps(rates, indent=1, sort_keys=True) + "\n")
    print(markdown(rates))
    if chosen.plot:
        plot(rates, chosen.plot)
    print(rates["leave one out"])


def _runs(paths: Sequence[Path]) -> list[Process]:
    found = [run for path in paths for run in json.loads(path.read_text())["runs"]]
    return [{**run, "cases": {n: c for n, c in run["cases"].items() if "error" not in c}} for run in found]


if __name__ == "__main__":
    main()
