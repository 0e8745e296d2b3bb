"""Plan the changes of `changes.py` on a machine without a GPU, and compare what the plans show with what the card counted.

    PYTHONPATH=src:. python -m benchmarks.speed.planned plan      # an hour on two cores, resumed if interrupted
    PYTHONPATH=src:. python -m benchmarks.speed.planned compare   # the table

Changes around compiled code (synchronizations, copied inputs, Python calls) are not part of a plan, and are left out.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from benchmarks.speed import changes
from pytest_torch_compile import CompileCheckFailed, Plan, call, check_plan
from pytest_torch_compile.disk import write_atomically
from pytest_torch_compile.speed.deciding.exact import differences
from pytest_torch_compile.speed.sample import Exact
from tests.plan.every_case import built

DATA = Path(__file__).parent / "data"
FILE = DATA / "planned-1.json"
HOOKS = {
    "graph break": changes.breaks,
    "opaque op": changes.opaque,
    "kept activation": changes.keeps,
    "300 guards": changes.reads_much,
}
SETTINGS = {
    "no fusion": {"max_fusion_size": 1},
    "no pattern matcher": {"pattern_matcher": False},
    "no layout optimization": {"layout_optimization": False},
    "no split reductions": {"split_reductions": False},
    "no pointwise tuning": {"triton.autotune_pointwise": False, "triton.max_tiles": 1},
}
PLANNED = {"", *HOOKS, *SETTINGS, "layer in float32", "dynamic shapes", "no CUDA graphs"}
# A card does not count the bytes that kernels move, and a plan counts neither guards nor Python calls.
COUNTED_BY_BOTH = {"kernels", "memory", "graphs", "graph_breaks", "recompiles", "cuda_graphs", "cudagraph_skips"}


def measured() -> dict[tuple[str, str], dict[str, Any]]:
    """The first process's row of each case and change."""
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for file in sorted(DATA.glob("changes-*.json")):
        for row in json.loads(file.read_text(encoding="utf-8"))["rows"]:
            rows.setdefault((row["case"], row["change"]), row)
    return rows


def counts(case: str, change: str) -> dict[str, int]:
    """The planned counts of a case with a change."""
    try:
        chosen = built(f"suites/speed/{case}")
    except KeyError:
        chosen = built(case)
    mode, options, dynamic = chosen.mode, None, chosen.dynamic
    if change in HOOKS:
        changes.middle(chosen.model).register_forward_hook(HOOKS[change])
    elif change in SETTINGS:
        options = {**(torch._inductor.list_mode_options(mode) if mode else {}), **SETTINGS[change]}
        mode = None
    elif change == "layer in float32":
        changes.in_float32(chosen.model)
    elif change == "dynamic shapes":
        dynamic = True
    elif change == "no CUDA graphs":
        mode = None
    later = call(**chosen.calls[-1])
    try:
        plan = check_plan(
            chosen.model,
            calls=[later, later],
            gpu="H200",
            train=chosen.train or False,
            optimizer=chosen.optimizer,
            mode=mode,
            options=options,
            dynamic=dynamic,
            max_graph_breaks=99,
            max_recompiles=99,
        )
    except CompileCheckFailed as failed:
        if not isinstance(failed.report, Plan):
            raise
        plan = failed.report
    return plan.exact.counted()


def plan_all() -> None:
    """Plan every change that was measured and that a plan can show."""
    done = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
    for case, change in measured():
        if change in PLANNED and f"{case}, {change}" not in done:
            done[f"{case}, {change}"] = counts(case, change)
            write_atomically(FILE, json.dumps(done, indent=1) + "\n")
            print(f"{case}, {change}", flush=True)


def compared() -> Iterator[dict[str, Any]]:
    """Each change: what the card counted as worse, what the plan shows as worse, and the change of the device's time."""
    planned, rows = json.loads(FILE.read_text(encoding="utf-8")), measured()
    for key, after in planned.items():
        case, _, change = key.partition(", ")
        before = planned.get(f"{case}, ")
        if not change or before is None:
            continue
        old, new = rows[case, ""], rows[case, change]
        stored = {name: [value] for name, value in old["exact"].items() if name in COUNTED_BY_BOTH}
        found = {name: value for name, value in new["exact"].items() if name in COUNTED_BY_BOTH}
        shown = differences({name: [value] for name, value in before.items()}, [Exact(**after)], planned=True)
        yield {
            "case": case,
            "change": change,
            "card": [str(one) for one in differences(stored, [Exact(**found)]) if one.worse],
            "plan": [str(one) for one in shown if one.worse],
            "device": new["times"]["device"][1] / old["times"]["device"][1] - 1,
        }


def main() -> None:
    if sys.argv[1:] == ["plan"]:
        plan_all()
    rows = list(compared())
    for row in rows:
        same = "agree" if bool(row["card"]) == bool(row["plan"]) else "differ"
        print(
            f"{same} | {row['case']} | {row['change']} | {row['device']:+.1%} | {', '.join(row['card'])} | {', '.join(row['plan'])}"
        )
    agree = sum(bool(row["card"]) == bool(row["plan"]) for row in rows)
    slower = [row for row in rows if row["device"] >= 0.05]
    print(
        f"{agree} of {len(rows)} agree; of {len(slower)} at least 5% slower on the device, the plan shows "
        f"{sum(bool(row['plan']) for row in slower)}, the card's counts {sum(bool(row['card']) for row in slower)}"
    )


if __name__ == "__main__":
    main()
