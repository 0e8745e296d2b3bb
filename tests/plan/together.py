"""Make many plans in one fresh process, which starts torch once: each as ``check_plan`` makes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_torch_compile import Budget, Plan
from pytest_torch_compile.legs.calls import as_calls
from pytest_torch_compile.legs.compiling import Compiling
from pytest_torch_compile.plan.cards import Card, as_card
from pytest_torch_compile.plan.completing import completed
from pytest_torch_compile.plan.fake_leg import PlanOptions
from pytest_torch_compile.plan.tasks import prepared, run_tasks


@dataclass(frozen=True)
class Case:
    """What ``check_plan`` is given; ``calls`` are the arguments of one call, or a list of calls."""

    model: Any
    calls: tuple[Any, ...] | list[Any]
    budget: Budget = field(default_factory=Budget)
    train: Any = False
    optimizer: Any = None
    mode: str | None = None
    dynamic: bool | None = None
    change: Any = None
    compiled: bool = False


def plans_of(
    cases: Mapping[str, Case], gpu: str | Card = "H100", seconds: float = 600.0, values: bool = False
) -> dict[str, Plan]:
    """The plans by name, with their findings."""
    tasks = [_task(case, gpu, values) for case in cases.values()]
    ended = run_tasks(tasks, seconds)
    answers: Sequence[Any] = ended.value or [ended] * len(tasks)
    return {name: completed(task, answer) for name, task, answer in zip(cases, tasks, answers, strict=True)}


def _task(case: Case, gpu: str | Card, values: bool) -> Any:
    compiling = Compiling("inductor", case.mode, None, case.dynamic, False)
    one = case.calls if isinstance(case.calls, tuple) else ()
    calls = as_calls(one, {}, case.calls if isinstance(case.calls, list) else None)
    return prepared(
        case.model,
        calls,
        PlanOptions(compiling, case.train, case.optimizer, case.change, case.compiled),
        as_card(gpu),
        case.budget,
        values=values,
    )
