"""Send targets to the planning process, which creates their plans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .._torch import support
from .._torch.compiled import uncompiled
from .._torch.planning import COMPILER, VARIABLE, missing
from ..budget import Budget
from ..check.describe import rerun_command, target_name
from ..check.requirements import require_callable
from ..findings import CompileUsageError
from ..fresh.process import Ended, run_fresh
from ..legs.calls import Call
from .cards import Card
from .collect import planned
from .fake_leg import PlanOptions
from .records import Plan
from .shapes import packed_tensors
from .values import Judge, require_small_and_real

_NOT_PLANNED = ("max_memory_ratio", "max_syncs")


@dataclass(frozen=True)
class Task:
    """A plan to create: the pickled target and calls, the limits that the plan must meet, and, with ``values=True``,
    the ``Judge`` that compares the computed values.
    """

    plan: Plan
    payload: bytes
    calls: Sequence[Call]
    options: PlanOptions
    limits: Budget
    judge: Judge | None = None


def prepared(
    model: Any, calls: Sequence[Call], options: PlanOptions, card: Card, limits: Budget, *, values: bool = False
) -> Task:
    """Pickle the model and its calls for the planning process. The values of tensors are included only if ``values`` is
    true.

    Raises:
        CompileUsageError: If the plan cannot be created.
    """
    model = uncompiled(model)
    require_callable(model)
    if why_not := missing():
        raise CompileUsageError(f"this machine cannot create a plan: {why_not}")
    limits = limits.on(support.torch_version())
    if unknown := [name for name in _NOT_PLANNED if name in limits.limits()]:
        raise CompileUsageError(f"a plan cannot check {unknown[0]}: remove this limit")
    if values:
        require_small_and_real(model, calls)
    plan = Plan(
        target_name(model),
        options.compiling.checked_mode,
        options.compiling.name,
        str(torch.__version__),
        f"planned for {card.name}",
        budget=limits.limits(),
        rerun=rerun_command(),
        gpu=card,
    )
    payload = packed_tensors(model, calls, options, values=values)
    judge_values = Judge(model, calls, options.train, options.optimizer) if values else None
    return Task(plan, payload, calls, options, limits, judge_values)


def run_tasks(tasks: Sequence[Task], timeout: float) -> Ended:
    """Run tasks, all for the same GPU, in one fresh process. The ``value`` of the result is a list with one ``Planned``
    per task.
    """
    environment = {VARIABLE: "1", "CUDA_VISIBLE_DEVICES": ""}
    payloads = [(task.payload, task.judge is not None) for task in tasks]
    preload = [planned.__module__, COMPILER]
    return run_fresh(
        planned,
        payloads,
        tasks[0].plan.gpu,
        seconds=timeout,
        environment=environment,
        empty_cache=True,
        preload=preload,
    )
