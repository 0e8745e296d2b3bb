"""Create a plan in the planning process, and complete it with its findings and its text."""

from __future__ import annotations

from dataclasses import replace

from .. import advice
from ..events import doing
from ..fresh.process import Ended
from ..report.failure_text import count, failure_text
from .graphs import Planned
from .plan_findings import budget_findings, kernel_findings
from .records import Plan
from .tasks import Task, run_tasks


def created(task: Task, timeout: float) -> Plan:
    """Create the plan of one task in a fresh process, and return it with its findings."""
    with doing(f"planning for {task.plan.gpu.name}"):
        ended = run_tasks([task], timeout)
    return completed(task, ended.value[0] if ended.value else ended)


def completed(task: Task, answer: Planned | Ended) -> Plan:
    """Complete the task's plan, including its findings, and return it. ``answer`` is the result of the planning process
    or, if the process returned no result, describes how the process ended.
    """
    plan = task.plan
    if isinstance(answer, Planned):
        _fill(plan, answer, len(task.calls))
        cudagraphs = task.options.compiling.wants_cudagraphs
        plan.findings = answer.findings + budget_findings(
            plan, task.limits, task.calls, cudagraphs=cudagraphs, raised=answer.raised
        )
        if task.judge is not None:
            places = {kernel.name: kernel.location for kernel in plan.kernels}
            plan.findings += task.judge.findings(answer.values, places)
            plan.observation.not_observable += task.judge.not_observable
        plan.findings += kernel_findings(plan)
    elif (failed := answer.failure("the planning process", "raised {}")) is not None:
        plan.findings = [failed]
    plan.findings = [replace(one, hint=advice.for_plan(one.hint, one.evidence)) for one in plan.findings]
    plan.text = plan_text(plan)
    return plan


def plan_text(plan: Plan) -> str:
    """Return the report of a plan as text, with its findings."""
    return f"{failure_text(plan)}\n\n{_summary(plan)}"


def _fill(plan: Plan, found: Planned, calls: int) -> None:
    plan.observation, plan.calls, plan.planned = found.seen, found.rows, tuple(found.graphs)
    plan.peak_memory, plan.cudagraphs = found.peak_memory, found.cudagraphs
    plan.assumed, plan.fixed = tuple(found.assumed), tuple(found.fixed)
    plan.launches = tuple(
        sum(graph.launches * graph.calls.count(number) for graph in plan.planned) for number in range(1, calls + 1)
    )
    plan.observation.not_observable += [f"assumed for {plan.gpu.name}: {rule}" for rule in plan.assumed]


def _summary(plan: Plan) -> str:
    kernels, libraries = count(len(plan.kernels), "kernel"), count(len(plan.library_calls), "library call")
    moved = "" if plan.bytes_moved is None else f", {plan.bytes_moved / 1e6:.2f} MB moved"
    figures = f"{kernels} and {libraries} in {count(len(plan.planned), 'graph')}"
    lines = [
        f"Planned for {plan.gpu.name} (nothing was measured): {figures}, "
        f"peak memory {plan.peak_memory / 1e6:.2f} MB{moved}"
    ]
    return "\n".join(lines + [f"  fixed in every plan: {choice}" for choice in plan.fixed])
