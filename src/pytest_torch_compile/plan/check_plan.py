"""``check_plan``: run ``torch.compile`` for a GPU in a fresh process on a machine without a GPU, and check the plan."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from .. import advice
from .._torch import support
from .._torch.planning import COMPILER, VARIABLE, missing
from ..budget import Budget, as_budget
from ..check.conclude import conclude
from ..check.describe import rerun_command, target_name
from ..check.exact_limits import Figure, Figures, limit_findings
from ..check.judge import judge
from ..check.requirements import require_factory
from ..disk import TemporaryFolder
from ..events import doing
from ..findings import CompileUsageError, Finding
from ..fresh.process import Ended, run_fresh
from ..legs.calls import Call, as_calls
from ..legs.compiling import Compiling
from ..legs.keywords import clear_keywords
from ..report.failure_text import count, failure_text
from .cards import Card, as_card
from .collect import Loss, Planned, Work, planned
from .records import Plan
from .shapes import packed_tensors
from .values import Judge, require_small_and_real

_NOT_PLANNED = ("max_memory_ratio", "max_syncs")


@clear_keywords("calls")
def check_plan(
    model: Any,
    /,
    *args: Any,
    calls: Iterable[Any] | None = None,
    gpu: str | Card = "H100",
    train: bool | Loss = False,
    optimizer: Callable[[Any], torch.optim.Optimizer] | None = None,
    values: bool = False,
    compiled: bool = False,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    max_kernels: int | Mapping[str, int] | None = None,
    max_graph_breaks: int | Mapping[str, int] | None = None,
    max_recompiles: int | Mapping[str, int] | None = None,
    budget: Budget | None = None,
    timeout: float = 600.0,
    **kwargs: Any,
) -> Plan:
    """Run ``torch.compile`` for a CUDA GPU on a machine without that GPU, and check the resulting plan against a
    budget.

    A plan contains the code that Inductor generates for the GPU, and predicts the number of kernels and the peak
    memory. The calls run in a fresh process, on fake tensors, as if the model and its arguments were on the GPU. Unless
    ``values`` is true, these tensors have no values, so weights are neither needed nor copied, and the model can be on
    the ``meta`` device. Nothing runs on a GPU, and nothing is measured. This function requires torch 2.11 or newer, and
    torch's default wheel for Linux, which is built with CUDA and installs Triton.

    Args:
        model: A module, function or other callable. The parameters and buffers of a module are treated as if they were
            on the GPU.
        *args: The arguments of a single call, if ``calls`` is not set.
        calls: The calls, as in ``check_compile``; ``call(x, mask=m)`` passes arguments by name.
        gpu: The GPU to plan for: ``"A100"``, ``"H100"``, ``"H200"``, ``"L4"``, ``"L40S"`` or another known name, or a
            ``Card``, which describes any other GPU.
        train: If False, run the calls under ``torch.no_grad``. If True, also run the backward pass from every output
            that requires a gradient. If ``train`` is a loss function, call the function with the output, and run the
            backward pass from the loss.
        optimizer: A function that creates an optimizer from the parameters. The optimizer's step runs after the
            backward pass of each call.
        values: If True, also run the generated code on the CPU, and compare its results with eager results, as
            ``check_compile`` does. The model and its arguments must have values and be on the CPU, and they should be
            small.
        compiled: If True, also compile each kernel for the GPU, which need not be present. The check reports compile
            errors, register spills, and kernels that need more shared memory than the GPU has.
        fullgraph: Passed to ``torch.compile``.
        dynamic: Passed to ``torch.compile``.
        mode: Passed to ``torch.compile``. Settings that would make Inductor time candidates on the GPU, such as
            ``max_autotune``, are turned off in a plan; ``Plan.fixed`` lists the settings that the plan overrides.
        options: Passed to ``torch.compile``, except for the options that are fixed in every plan.
        max_kernels: The maximum number of Triton kernel launches and library calls, counted together, in one call of
            the model.
        max_graph_breaks: The maximum number of graph breaks, as in ``check_compile``; 0 by default.
        max_recompiles: The maximum number of recompiles, as in ``check_compile``; 0 by default.
        budget: Further limits: ``max_graphs``, ``max_guards``, ``max_cudagraphs``, and ``max_memory`` in bytes, which
            is compared with ``Plan.peak_memory``.
        timeout: The time limit for the fresh process, in seconds.
        **kwargs: The keyword arguments of the single call.

    Returns:
        The plan, which contains the generated code.

    Raises:
        CompileCheckFailed: If there are findings. The exception's ``.report`` is the plan.
        CompileUsageError: If this machine cannot create the plan, or an argument is invalid.
    """
    __tracebackhide__ = True
    support.require_supported_torch()
    require_factory(optimizer)
    card, given = as_card(gpu), as_calls(args, kwargs, calls)
    limits = as_budget(budget, max_graph_breaks, max_recompiles, None, max_kernels)
    work = Work(Compiling("inductor", mode, options, dynamic, fullgraph), train, optimizer, compiled=compiled)
    task = prepared(model, given, work, card, limits, values=values)
    with doing(f"planning for {card.name}"):
        ended = run_tasks([task], timeout)
    return conclude(completed(task, ended.value[0] if ended.value else ended))


@dataclass(frozen=True)
class Task:
    """A plan to create: the pickled target and calls, the limits that the plan must meet, and, with ``values=True``,
    the ``Judge`` that compares the computed values.
    """

    plan: Plan
    payload: bytes
    calls: Sequence[Call]
    compiling: Compiling
    limits: Budget
    judge: Judge | None = None


def prepared(
    model: Any, calls: Sequence[Call], work: Work, card: Card, limits: Budget, *, values: bool = False
) -> Task:
    """Pickle the model and its calls for the planning process. The values of tensors are included only if ``values`` is
    true.

    Raises:
        CompileUsageError: If the plan cannot be created.
    """
    if not callable(model):
        raise CompileUsageError(f"the target is {model!r}, which is not callable; pass a module or a function")
    if why_not := missing():
        raise CompileUsageError(f"this machine cannot create a plan: {why_not}")
    limits = limits.on(support.torch_version())
    if unknown := [name for name in _NOT_PLANNED if name in limits.limits()]:
        raise CompileUsageError(f"a plan cannot check {unknown[0]}: remove this limit")
    if values:
        require_small_and_real(model, calls)
    plan = Plan(
        target_name(model),
        work.compiling.checked_mode,
        work.compiling.name,
        str(torch.__version__),
        f"planned for {card.name}",
        budget=limits.limits(),
        rerun=rerun_command(),
        gpu=card,
    )
    payload = packed_tensors(model, calls, work, values=values)
    judge_values = Judge(model, calls, work.train, work.optimizer) if values else None
    return Task(plan, payload, calls, work.compiling, limits, judge_values)


def run_tasks(tasks: Sequence[Task], timeout: float) -> Ended:
    """Run tasks, all for the same GPU, in one fresh process. The ``value`` of the result is a list with one ``Planned``
    per task.
    """
    with TemporaryFolder("torch-compile-plan-") as cache:
        environment = {VARIABLE: "1", "CUDA_VISIBLE_DEVICES": "", "TORCHINDUCTOR_CACHE_DIR": str(cache)}
        payloads = [(task.payload, task.judge is not None) for task in tasks]
        preload = [planned.__module__, COMPILER]
        return run_fresh(
            planned, payloads, tasks[0].plan.gpu, seconds=timeout, environment=environment, preload=preload
        )


def completed(task: Task, answer: Planned | Ended) -> Plan:
    """Complete the task's plan, including its findings, and return it. ``answer`` is the result of the planning process
    or, if the process returned no result, describes how the process ended.
    """
    plan = task.plan
    if isinstance(answer, Planned):
        _fill(plan, answer, len(task.calls))
        plan.findings = answer.findings + _judged(task, raised=answer.raised)
        if task.judge is not None:
            places = {kernel.name: kernel.location for kernel in plan.kernels}
            plan.findings += task.judge.findings(answer.values, places)
            plan.observation.not_observable += task.judge.not_observable
        plan.findings += _of_card(plan)
    elif answer.raised is not None:
        message = f"the planning process raised {answer.raised.type}"
        plan.findings = [Finding("exception", message, answer.raised.location, answer.raised.text)]
    else:
        message = f"the planning process {answer.without_answer}"
        plan.findings = [Finding("exception", message, evidence=answer.log)]
    plan.findings = [replace(one, hint=advice.for_plan(one.hint, one.evidence)) for one in plan.findings]
    plan.text = plan_text(plan)
    return plan


def plan_text(plan: Plan) -> str:
    """Return the report of a plan as text, with its findings."""
    return f"{failure_text(plan)}\n\n{_summary(plan)}"


def _of_card(plan: Plan) -> list[Finding]:
    """Return the findings for kernels that spill registers or need more shared memory than the GPU has."""
    found = []
    for kernel in {one.name: one for one in plan.kernels}.values():
        what = f"kernel {kernel.name} ({', '.join(kernel.fuses)})"
        allowed = plan.gpu.shared_memory_per_block
        if kernel.spills:
            message = f"{what} spills {count(kernel.spills, 'byte')} of registers per thread"
            found.append(Finding("structure", message, kernel.location, subject=kernel.name))
        if kernel.shared_memory is not None and kernel.shared_memory > allowed:
            message = f"{what} needs {kernel.shared_memory:,} bytes of shared memory, but the GPU has {allowed:,}"
            found.append(Finding("compile-error", message, kernel.location, subject=kernel.name))
    return found


def _fill(plan: Plan, found: Planned, calls: int) -> None:
    plan.observation, plan.calls, plan.planned = found.seen, found.rows, tuple(found.graphs)
    plan.peak_memory, plan.cudagraphs = found.peak_memory, found.cudagraphs
    plan.assumed, plan.fixed = tuple(found.assumed), tuple(found.fixed)
    plan.launches = tuple(
        sum(graph.launches * graph.calls.count(number) for graph in plan.planned) for number in range(1, calls + 1)
    )
    plan.observation.not_observable += [f"assumed for {plan.gpu.name}: {rule}" for rule in plan.assumed]


def _judged(task: Task, *, raised: bool) -> list[Finding]:
    seen = task.plan.observation
    findings = judge(
        seen,
        task.limits,
        aborted=raised,
        cudagraphs=task.compiling.wants_cudagraphs,
        torch_limit=support.recompile_limit(),
        expects_graphs=not all(call.exceptions for call in task.calls),
    )
    figures = Figures(measured=_figures(task.plan))
    return findings + ([] if raised else limit_findings(task.limits, seen, figures))


def _figures(plan: Plan) -> dict[str, Figure]:
    most = [
        f"kernels and library calls in call {number}: {launches:,}" for number, launches in enumerate(plan.launches, 1)
    ]
    kernels = [f"{kernel.name}: {', '.join(kernel.fuses)}" for kernel in plan.kernels]
    memory = [f"planned peak: {plan.peak_memory:,} bytes"]
    return {
        "max_kernels": Figure(max(plan.launches, default=0), most + kernels),
        "max_memory": Figure(plan.peak_memory, memory),
        "max_cudagraphs": Figure(
            plan.cudagraphs, [(f"{count(plan.cudagraphs, 'graph')} would use CUDA graphs on the GPU")]
        ),
    }


def _summary(plan: Plan) -> str:
    kernels, libraries = count(len(plan.kernels), "kernel"), count(len(plan.library_calls), "library call")
    moved = "" if plan.bytes_moved is None else f", {plan.bytes_moved / 1e6:.2f} MB moved"
    figures = f"{kernels} and {libraries} in {count(len(plan.planned), 'graph')}"
    lines = [
        f"Planned for {plan.gpu.name} (nothing was measured): {figures}, "
        f"peak memory {plan.peak_memory / 1e6:.2f} MB{moved}"
    ]
    return "\n".join(lines + [f"  fixed in every plan: {choice}" for choice in plan.fixed])
