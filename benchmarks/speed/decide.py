"""Apply the gate to recorded runs, and compute the tables of the study. ``--ablate`` shows the effect of each part of
the gate's rule.

    PYTHONPATH=src python3 benchmarks/speed/decide.py            # writes data/rates.json and prints the tables
    PYTHONPATH=src python3 benchmarks/speed/decide.py --ablate   # the same with one part of the rule changed at a time

There are three kinds of recordings. `aa-*.json` and `inject-*.json` contain processes that measured a suite without
changes and with slowdowns of known size; the processes of a file share a compile cache. The committed baselines contain
fresh compilations of unchanged suites. `changes-*.json` contains changes of compiled code. Sessions are sampled from
the recordings: stored runs, a first run, and as many additional runs as the rule requests.
"""

from __future__ import annotations

import argparse
import json
import math
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any
from unittest import mock

from pytest_torch_compile.speed.deciding import constants, exact, times
from pytest_torch_compile.speed.deciding.statistics import log_ratios, trimmed_mean
from pytest_torch_compile.speed.sample import Exact, Run, Times

DATA = Path(__file__).with_name("data")
ROOT = Path(__file__).resolve().parents[2]
BASELINES = ROOT / "baselines" / "NVIDIA-H200_torch-2.11_cuda-13.0" / "speed.json"
NAMES = ("wall", "host", "device")


@dataclass(frozen=True)
class Measured:
    """One test in one process, with its times and counts."""

    run: Run
    counted: Exact = field(default_factory=Exact)


@dataclass(frozen=True)
class Process:
    """One process: each case without changes, and with slowdowns such as ``"kernel 2"``."""

    unchanged: Mapping[str, Measured]
    slowed: Mapping[str, Mapping[str, Measured]] = field(default_factory=dict)


def measured(figures: Mapping[str, Any], code: str = "", kept: bool = True) -> Measured:
    """Return the measurements of a test in one process. ``figures`` contains the eager and compiled rounds of each
    quantity, or the eager time, the compiled time and their log ratio.
    """
    three = {name: _times(figures[name]) for name in NAMES if name in figures}
    counts = {new: figures[old][1] for old, new in _COUNTS.items() if figures.get(old)}
    return Measured(Run(**three, code=code, kept_cache=kept), Exact(**{k: int(v) for k, v in counts.items()}))


_COUNTS = {"kernels": "kernels", "python-calls": "python_calls", "python_calls": "python_calls"}


def _times(figures: Any) -> Times:
    if isinstance(figures, Mapping):
        ratios = log_ratios(figures["eager"], figures["compiled"])
        ratio = trimmed_mean(ratios) if len(ratios) > 3 else fmean(ratios)
        return Times(median(figures["eager"]), median(figures["compiled"]), ratio)
    return Times(*figures[:3])


def processes(*names: str) -> list[Process]:
    """Return the processes in these recordings, without cases that were disturbed."""
    found = []
    for entry in (entry for name in names for entry in _read(name)["runs"]):
        cases = {case: one for case, one in entry["cases"].items() if not (one.get("problems") or [])}
        plain = {case: one.get("plain", one) for case, one in cases.items()}
        slowed: dict[str, dict[str, Measured]] = defaultdict(dict)
        for case, one in cases.items():
            for side in ("kernel", "host"):
                for level, figures in (one.get(side, {}) if "plain" in one else {}).items():
                    # Quantities that were not measured again are taken from the unchanged case.
                    slowed[f"{side} {level}"][case] = measured({**plain[case], **figures})
        found.append(Process({case: measured(one) for case, one in plain.items() if not one.get("problems")}, slowed))
    return found


def _read(name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((DATA / name).read_text())
    return document


def decide(stored: Sequence[Run], runs: Iterator[Run], tests: int) -> tuple[str, int]:
    """Return the gate's decision on the times of a test, and the number of runs that it used."""
    new = [next(runs)]
    while True:
        verdict = times.judge(stored, new, tests=tests)
        following = next(runs, None) if verdict.undecided and len(new) < constants.MAX_COMPILATIONS else None
        if following is None:
            return verdict.outcome, len(new)
        new.append(following)


def red_suites(histories: Mapping[str, Sequence[Run]], stored: int, draws: int) -> dict[str, Any]:
    """Return how many unchanged suites fail, and how many additional runs a suite requests on average."""
    chance, red, further = random.Random(0), 0, 0
    for _ in range(draws):
        outcomes = []
        for runs in histories.values():
            order = chance.sample(list(runs), len(runs))
            outcome, took = decide(order[:stored], iter(order[stored:]), len(histories))
            outcomes.append(outcome)
            further += took - 1
        red += "regressed" in outcomes
    return {"red": red, "draws": draws, "further runs": round(further / draws, 2)}


def caught(unchanged: Sequence[Process], slowed: Sequence[Process], stored: int, draws: int) -> dict[str, Any]:
    """Return, for each slowdown, the percentage of slowed tests that fail because of counts or times, the percentage
    that fail because of times alone, and the number of tests.
    """
    chance = random.Random(0)
    rows: dict[str, list[tuple[bool, bool]]] = defaultdict(list)
    tests = len(unchanged[0].unchanged)
    for _ in range(draws):
        if unchanged is slowed:
            order = chance.sample(unchanged, len(unchanged))
            old, later = order[:stored], order[stored:]
        else:
            old, later = chance.sample(unchanged, stored), chance.sample(slowed, len(slowed))
        for level, cases in later[0].slowed.items():
            for case, first in cases.items():
                known = [process.unchanged[case] for process in old if case in process.unchanged]
                new = [process.slowed[level][case] for process in later if case in process.slowed.get(level, {})]
                outcome, _ = decide([one.run for one in known], (one.run for one in [first, *new[1:]]), tests)
                counts = exact.merged({}, [one.counted for one in known], changed=True)
                both = exact.differences(counts, [one.counted for one in new[:2]])
                more = len(new) > 1 and any(difference.worse for difference in both)
                rows[level].append((more or outcome == "regressed", outcome == "regressed"))
    order = sorted(rows, key=lambda level: (level.split()[0], int(level.split()[1])))
    return {
        level: [*(round(100 * fmean(column), 1) for column in zip(*rows[level], strict=True)), len(rows[level])]
        for level in order
    }


def compilations() -> dict[str, list[Run]]:
    """Return the fresh compilations of each test, with one run for each compilation."""
    histories = {}
    for entry in json.loads(BASELINES.read_text())["benchmarks"]:
        ours = entry["extra_info"]["torch_compile"]
        codes = ours.get("codes") or [""] * len(ours["runs"])
        one_each = {code: measured(run, code, kept=False).run for run, code in zip(ours["runs"], codes, strict=True)}
        if len(one_each) >= 10:
            histories[entry["fullname"].split("::")[-1]] = list(one_each.values())
    return histories


def by_case(recorded: Sequence[Process]) -> dict[str, list[Run]]:
    """Return the unchanged runs of each case."""
    cases = sorted(set.intersection(*(set(process.unchanged) for process in recorded)))
    return {case: [process.unchanged[case].run for process in recorded] for case in cases}


def changed_legs() -> list[dict[str, Any]]:
    """Return each recorded change of compiled code, with its effect on times, memory and counts within its process."""
    rows = [row for path in sorted(DATA.glob("changes-*.json")) for row in json.loads(path.read_text())["rows"]]
    plain = {(row["case"], row["process"]): row for row in rows if not row["change"] and "error" not in row}
    found = []
    for row in rows:
        before = plain.get((row["case"], row["process"]))
        if not row["change"] or "error" in row or before is None:
            continue
        counts = {name: [value] for name, value in before["exact"].items()}
        differences = exact.differences(counts, [Exact(**row["exact"])])
        sizes = {name: math.expm1(row["times"][name][2] - before["times"][name][2]) for name in ("device", "wall")}
        memory = row["exact"]["memory"] / before["exact"]["memory"] - 1
        found.append(
            {
                **{name: row[name] for name in ("case", "change")},
                **{name: round(100 * size, 1) for name, size in {**sizes, "memory": memory}.items()},
                "worse": [str(difference) for difference in differences if difference.worse],
                "better": [str(difference) for difference in differences if not difference.worse],
            }
        )
    return found


def scatter(histories: Mapping[str, Sequence[Run]]) -> dict[str, dict[str, float]]:
    """Return the standard deviation between compilations, in percent, of the device time and the wall time relative to
    eager.
    """
    return {
        name: {
            metric: round(100 * stdev(getattr(run, metric).log_ratio for run in runs if getattr(run, metric)), 2)
            for metric in ("device", "wall")
        }
        for name, runs in histories.items()
    }


def tables(draws: int) -> dict[str, Any]:
    """Compute the rates at which slowed tests and unchanged suites fail."""
    quiet, quiet_slowed = processes("aa-1.json", "aa-2.json"), processes("inject-1.json")
    few, fewer, many = (processes(f"inject-{number}.json") for number in (6, 7, 8))
    fresh = compilations()
    return {
        "caught": {
            "quiet host, 15 stored": caught(quiet, quiet_slowed, 15, draws // 10),
            "set 1, 8 stored": caught(few, few, 8, draws // 10),
            "set 2, 6 stored": caught(fewer, fewer, 6, draws // 10),
            "set 3, 15 stored": caught(many, many, 15, draws // 10),
        },
        "unchanged": {
            "quiet host, 13 stored": red_suites(by_case(quiet), 13, draws),
            "set 1, 8 stored": red_suites(by_case(few), 8, draws),
            "set 3, 15 stored": red_suites(by_case(many), 15, draws),
            **{
                f"fresh compilations of {len(fresh)} tests, {stored} stored": red_suites(fresh, stored, draws)
                for stored in (5, 6, 7)
            },
        },
    }


def as_markdown(rates: Mapping[str, Any]) -> str:
    """Format the tables of the study as Markdown."""
    lines = ["| slowdown | " + " | ".join(rates["caught"]) + " |", "| --- " * (1 + len(rates["caught"])) + "|"]
    levels = dict.fromkeys(level for rows in rates["caught"].values() for level in rows)
    for level in levels:
        cells = [rows.get(level) for rows in rates["caught"].values()]
        shown = [f"{one[0]:.0f}% ({one[1]:.0f}%) of {one[2]:,}" if one else "" for one in cells]
        lines.append(f"| {level}% | {' | '.join(shown)} |")
    lines += ["", "| unchanged suites | red | further compilations a suite |", "| --- | --- | --- |"]
    for name, row in rates["unchanged"].items():
        lines.append(f"| {name} | {row['red']:,} of {row['draws']:,} | {row['further runs']:.1f} |")
    lines += ["", "| case | change | device | wall | memory | counted |", "| --- | --- | --- | --- | --- | --- |"]
    for row in rates["changes"]:
        counted = [*row["worse"], *(f"{text} (better)" for text in row["better"])]
        sizes = " | ".join(f"{row[name]:+.1f}%" for name in ("device", "wall", "memory"))
        lines.append(f"| {row['case']} | {row['change']} | {sizes} | {', '.join(counted)} |")
    lines += ["", "| test | device time | wall time against eager |", "| --- | --- | --- |"]
    lines += [f"| {name} | {row['device']:.2f}% | {row['wall']:.2f}% |" for name, row in rates["scatter"].items()]
    return "\n".join(lines)


# Maps a description to the constants that it changes. Each entry changes one part of the rule, to show its effect.
ABLATIONS: dict[str, dict[str, Any]] = {
    "the rule": {},
    "three compilations are always enough": {"MIN_ORDERS": 1},
    "no typical spread for few runs": {"PRIOR_FREEDOM": 1},
    "one typical spread, taken from fresh compilations": {"SPREADS_OF_A_KEPT_CACHE": constants.SPREADS},
    "wall time always compared with the wall time of eager": {"HOST_BOUND": 0.0},
    "wall time always compared with the device time of eager": {"HOST_BOUND": math.inf},
    "no minimum change": {"FLOORS": dict.fromkeys(constants.FLOORS, 0.0)},
    "additional compilations requested half as often": {"SCREEN_OF_A_LOSS": 0.025},
    "additional compilations requested twice as often": {"SCREEN_OF_A_LOSS": 0.1},
}


def main() -> None:
    """Compute the tables, write them to a file, and print them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=2000)
    parser.add_argument("--ablate", action="store_true")
    options = parser.parse_args()
    document: dict[str, Any] = {"schema_version": 2}
    if options.ablate:
        for name, changes in ABLATIONS.items():
            with mock.patch.multiple(times, **changes) if changes else nullcontext():
                document[name] = tables(options.draws)
            print(name, json.dumps(document[name]), flush=True)
        (DATA / "ablations.json").write_text(json.dumps(document, indent=1) + "\n")
        return
    document |= {**tables(options.draws), "changes": changed_legs(), "scatter": scatter(compilations())}
    (DATA / "rates.json").write_text(json.dumps(document, indent=1) + "\n")
    print(as_markdown(document))


if __name__ == "__main__":
    main()
