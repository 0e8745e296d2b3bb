"""``--compile-plan``: plan the target of a speed test or a check, and compare the plan with the baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from .. import settings
from ..baselines import files as baselines
from ..events import announce
from ..findings import CompileCheckFailed, Finding
from ..legs.calls import Call
from ..observation import Location
from ..report.safe_text import shell
from ..report.view import rank
from ..speed.deciding.exact import AllowMore
from ..speed.deciding.planned import PlannedChange, compare, label
from ..speed.fresh_process import leave_plan
from .completing import plan_text
from .plan_of_test import plan_of_test
from .records import Plan


@dataclass(frozen=True)
class PlannedTest:
    """The result of a planned test, as JSON-ready data, and the failure to raise, if any."""

    result: dict[str, Any]
    failure: CompileCheckFailed | None


def planned_test(
    test: str,
    target: Any,
    calls: Sequence[Call],
    options: Mapping[str, Any],
    *,
    folder: Path,
    allow_more: AllowMore | None = None,
) -> PlannedTest:
    """Plan calls of ``target`` for the GPU that ``--compile-plan`` specifies, and compare the planned counts with the
    baseline.

    ``options`` are keyword arguments of ``measure_compile`` or ``check_compile``; options that only limit or compare
    something are ignored. With ``--compile-perf=track`` or ``--compile-update-baselines``, a worse count is not a
    failure.

    Raises:
        CompileCheckFailed: If the plan cannot be completed, for example because the target does not compile, or if the
            baseline cannot be used.
        CompileUsageError: If this machine cannot create the plan, or an option is not supported with
            ``--compile-plan``.
    """
    gpu = str(settings.current.plan)
    plan = plan_of_test(target, calls, options, gpu)
    if plan.findings:
        announce(plan)
        raise CompileCheckFailed(plan.text, plan, plan.findings)
    entry, lines = _entry(test, plan)
    leave_plan(test, entry, {name: line.shown() for name, line in lines.items()}, allow_more)
    environment = baselines.plan_environment_name(gpu, torch.__version__)
    stored = baselines.load(folder, environment, "plan")
    gates = settings.current.perf != "track" and not settings.current.update_baselines
    if stored.problem and gates:
        announce(plan)
        raise CompileCheckFailed(f"the baseline cannot be used: {stored.problem}", plan)
    change = compare(stored.entries[test], entry, allow_more) if test in stored.entries else None
    missing = f"the baseline {stored.path} has no entry for this test" if stored.entries else stored.missing
    outcome, summary = (change.outcome, change.summary) if change else ("no-baseline", missing)
    exact = [difference.to_dict() for difference in change.differences] if change else []
    plan.compared = {"environment": environment, "outcome": outcome, "summary": summary, "exact": exact}
    failure = None
    if change and change.worse and gates:
        plan.findings = [_finding(change, lines, gpu, test)]
        plan.text = f"{plan_text(plan)}\n\nThe baseline is {stored.path}"
        failure = CompileCheckFailed(plan.text, plan, plan.findings)
    announce(plan)
    return PlannedTest({"test": test, **plan.compared, "entry": entry}, failure)


def _entry(test: str, plan: Plan) -> tuple[dict[str, Any], dict[str, Location]]:
    """Return the test's baseline entry, and the known locations of its graph breaks, ops and launches."""
    launched = plan.launched()
    entry = {
        "fullname": test,
        "counts": plan.exact.counted(),
        "launches": sorted((launch for launch, _ in launched), key=label),
        "graph_breaks": sorted(found.fingerprint for found in plan.graph_breaks),
    }
    lines = {found.fingerprint: found.location for found in plan.graph_breaks}
    for graph in plan.planned:
        lines = {**lines, **{op: line for op, line in graph.lines.items() if op not in lines}}
    return entry, lines | {label(launch): line for launch, line in launched if line is not None}


def _finding(change: PlannedChange, lines: Mapping[str, Location], gpu: str, test: str) -> Finding:
    """Return one finding that lists all worse counts. The finding's location is the line of the first new graph break,
    op or launch whose line is known.
    """
    kind = min((difference.quantity.kind for difference in change.worse), key=rank)
    new = {*change.new_breaks, *change.new_ops, *change.new}
    where = next((line for name, line in lines.items() if name in new), None)
    evidence = "\n".join(change.lines({name: line.shown() for name, line in lines.items()}))
    options = f"--compile-plan={gpu.replace(' ', '')} --compile-update-baselines"
    hint = f"if this is intended, run: pytest {shell(test)} {options}"
    worse = ", ".join(map(str, change.worse))
    return Finding(kind, f"planned for {gpu}: {worse}", where, evidence, hint, subject=change.worse[0].quantity.name)
