"""Recompute the error rates from the committed samples: false alarms, misses, and other rules on the same figures.

    PYTHONPATH=src python3 benchmarks/speed/replay.py --aa benchmarks/speed/data/aa*.json \
        --inject benchmarks/speed/data/inject*.json --out benchmarks/speed/data/rates.json
"""

from __future__ import annotations

import argparse
import json
import math
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pytest_torch_compile.speed.sample import Figures
from pytest_torch_compile.speed.statistics import fmean, log_ratios, mann_whitney, median, trimmed_mean
from pytest_torch_compile.speed.verdict import METRICS, judge, needs_confirmation, prior_spread, split_wall

BASELINE_RUNS = 10
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
    if case.get("memory"):
        eager_bytes, compiled_bytes = case["memory"]
        found["memory"] = (eager_bytes, compiled_bytes, math.log(compiled_bytes / eager_bytes))
    return found


def priors(stored: dict[str, list[Figures]]) -> dict[str, float]:
    """The typical spread of each metric over the suite, as the gate computes it."""
    return {m: prior_spread(m, [[r[m][2] for r in runs if m in r] for runs in stored.values()]) for m in METRICS}


def gate(stored: list[Figures], first: Figures, second: Figures, tests: int, prior: dict[str, float]) -> tuple[str, bool]:
    """The gate's verdict and whether it asked for a second process."""
    if not needs_confirmation(stored, first, prior):
        return "pass", False
    return judge(stored, [first, second], tests=tests, priors=prior).outcome, True


def mean_5(base: list[float], new: list[float]) -> bool:
    """pytest-benchmark's --benchmark-compare-fail=mean:5%."""
    return fmean(new) > 1.05 * fmean(base)


def min_5(base: list[float], new: list[float]) -> bool:
    """pytest-benchmark's --benchmark-compare-fail=min:5%."""
    return min(new) > 1.05 * min(base)


def asv(base: list[float], new: list[float]) -> bool:
    """asv's rule: a factor of 1.1 on the medians, and a Mann-Whitney p under 0.002."""
    return median(new) > 1.1 * median(base) and mann_whitney(base, new) < 0.002


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


def false_alarms(processes: Sequence[Process], count: int, rng: random.Random) -> dict[str, Any]:
    """Resampled suite runs: ten processes are the baseline, one is the run, one more confirms."""
    known = [{name: figures(case) for name, case in p["cases"].items()} for p in processes]
    names = sorted(set.intersection(*(set(k) for k in known)))
    red = dict.fromkeys(["gate", *RULES], 0)
    confirmations = inconclusive = improved = 0
    for _ in range(count):
        drawn = rng.sample(range(len(known)), BASELINE_RUNS + 2)
        base, run, again = drawn[:BASELINE_RUNS], drawn[-2], drawn[-1]
        stored = {n: [known[i][n] for i in base] for n in names}
        prior = priors(stored)
        answers = [gate(stored[n], known[run][n], known[again][n], len(names), prior) for n in names]
        red["gate"] += any(outcome == "regressed" for outcome, _ in answers)
        inconclusive += any(outcome == "inconclusive" for outcome, _ in answers)
        improved += any(outcome == "improved" for outcome, _ in answers)
        confirmations += sum(asked for _, asked in answers)
        for rule, wrong in RULES.items():
            red[rule] += any(wrong(wall(processes, base[0], n), wall(processes, run, n)) for n in names)
    return {
        "processes": len(processes),
        "cases": len(names),
        "suites": count,
        "red": red,
        "rate": {rule: round(number / count, 5) for rule, number in red.items()},
        "suites with improved": improved,
        "suites with inconclusive": inconclusive,
        "confirmations per suite": round(confirmations / count, 3),
        "spread": {m: {n: round(_spread([k[n][m][2] for k in known]), 5) for n in names if all(m in k[n] for k in known)}
                   for m in ("wall", "host", "device")},
        "range of compiled wall": {n: round(_range([k[n]["wall"][1] for k in known]), 4) for n in names},
        "range of ratio": {n: round(_range([math.exp(k[n]["wall"][2]) for k in known]), 4) for n in names},
        "range of device ratio": {n: round(_range([math.exp(k[n]["device"][2]) for k in known]), 4) for n in names
                                  if all("device" in k[n] for k in known)},
    }


def wall(processes: Sequence[Process], index: int, name: str) -> list[float]:
    """The compiled wall time of every round."""
    return processes[index]["cases"][name]["wall"]["compiled"]


def _spread(values: list[float]) -> float:
    mean = fmean(values)
    return math.sqrt(sum((v - mean) ** 2 for v in values) / (len(values) - 1))


def _range(values: list[float]) -> float:
    return max(values) / min(values) - 1


def leg_rounds(case: dict[str, Any], leg: str) -> dict[str, Any]:
    """A leg of an injection run in the form of an A/A case, against the eager leg of the same rounds."""
    plain, slowed = case["legs"]["compiled"]["rounds"], case["legs"][leg]["rounds"]
    return {q: {"eager": plain[q]["eager"], "compiled": slowed[q]["compiled"]} for q in slowed}


def misses(processes: Sequence[Process], draws: int, rng: random.Random) -> list[dict[str, Any]]:
    """For each kind and size of slowdown, how many of the slowed runs each rule caught."""
    names = sorted(set.intersection(*({n for n, c in p["cases"].items() if "legs" in c} for p in processes)))
    legs = sorted({leg for p in processes for n in names for leg in p["cases"][n]["legs"]} - {"compiled"})
    known = {
        (i, n, leg): figures(leg_rounds(p["cases"][n], leg))
        for i, p in enumerate(processes) for n in names for leg in p["cases"][n]["legs"]
    }  # fmt: skip
    return [_level(processes, known, names, leg, draws, rng) for leg in legs]


def _level(
    processes: Sequence[Process], known: dict[Any, Figures], names: list[str], leg: str, draws: int, rng: random.Random
) -> dict[str, Any]:
    side, percent = leg.split("-")
    cases = [n for n in names if all(leg in p["cases"][n]["legs"] for p in processes)]
    caught = dict.fromkeys(["gate", "gate, right side", *RULES], 0)
    by_case: dict[str, list[int]] = {n: [] for n in cases}
    total, actual = 0, []
    for _ in range(draws):
        drawn = rng.sample(range(len(processes)), len(processes))
        run, again, base = drawn[0], drawn[1], drawn[2 : 2 + BASELINE_RUNS]
        stored = {n: [known[i, n, "compiled"] for i in base] for n in names}
        prior = priors(stored)
        for n in cases:
            first, second = known[run, n, leg], known[again, n, leg]
            outcome, _ = gate(stored[n], first, second, len(names), prior)
            caught["gate"] += outcome == "regressed"
            by_case[n].append(outcome == "regressed")
            split = split_wall(stored[n], [first, second])
            caught["gate, right side"] += outcome == "regressed" and split is not None and split.side.startswith(side)
            slow, plain = leg_rounds(processes[run]["cases"][n], leg), leg_rounds(processes[base[0]]["cases"][n], "compiled")
            for rule, wrong in RULES.items():
                caught[rule] += wrong(plain["wall"]["compiled"], slow["wall"]["compiled"])
            metric = "device" if side == "kernel" else "wall"
            actual.append(first[metric][2] - known[run, n, "compiled"][metric][2])
            total += 1
    return {
        "side": side, "percent": int(percent), "cases": len(cases), "processes": len(processes),
        "slowed runs": len(cases) * len(processes), "draws": total,
        "measured percent": round(100 * math.expm1(fmean(actual)), 2) if actual else None,
        "caught": {rule: round(number / total, 4) if total else None for rule, number in caught.items()},
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


def main() -> None:
    """Read the samples, write the rates, draw the curve."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--aa", type=Path, nargs="+", required=True)
    options.add_argument("--inject", type=Path, nargs="*", default=[])
    options.add_argument("--suites", type=int, default=2000)
    options.add_argument("--draws", type=int, default=300)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--out", type=Path)
    options.add_argument("--plot", type=Path)
    chosen = options.parse_args()
    rng = random.Random(chosen.seed)
    rates: dict[str, Any] = {"schema_version": 1, "false alarms": false_alarms(_runs(chosen.aa), chosen.suites, rng)}
    rates["misses"] = misses(_runs(chosen.inject), chosen.draws, rng) if chosen.inject else []
    if chosen.out:
        chosen.out.write_text(json.dumps(rates, indent=1, sort_keys=True) + "\n")
    if chosen.plot:
        plot(rates, chosen.plot)
    print(json.dumps(rates["false alarms"], indent=1))
    for row in sorted(rates["misses"], key=lambda r: (r["side"], r["percent"])):
        print(f"{row['side']:6} {row['percent']:3} % (measured {row['measured percent']}) n={row['slowed runs']}", row["caught"])


def _runs(paths: Sequence[Path]) -> list[Process]:
    return [run for path in paths for run in json.loads(path.read_text())["runs"]]


if __name__ == "__main__":
    main()
