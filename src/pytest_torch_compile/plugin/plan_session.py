"""Plan the code of a test for a GPU, under ``--compile-plan``, and compare the plan with its baseline."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from .. import settings
from ..findings import CompileUsageError
from . import collected_tests, payload, unwritten

if TYPE_CHECKING:
    from ..legs.calls import Call
    from ..speed.deciding.exact import AllowMore


class CompilePlanWarning(UserWarning):
    """Issued if a planned test has no baseline."""


def begin(config: pytest.Config) -> None:
    """Register the hooks of ``--compile-plan`` if the option is set."""
    if settings.current.plan:
        from ..plan.planned_counts import PlanSession

        def planned(reporter: pytest.TerminalReporter) -> list[tuple[bool, dict[str, Any]]]:
            """Return a (passed, result) pair for each test that was planned."""
            return [(report.passed, result) for report, sent in payload.received(reporter) for result in sent.plans]

        folder = settings.below_root(config.rootpath, settings.current.baselines)
        session = PlanSession(folder, planned, collected_tests.plannable_tests, unwritten.say)
        config.pluginmanager.register(session, "torch-compile-plan")


def compare_plan(
    item: pytest.Item,
    target: Any,
    calls: Sequence[Call],
    options: Mapping[str, Any],
    allow_more: AllowMore | None = None,
    *,
    stacklevel: int = 3,
) -> None:
    """Plan the calls, and compare the planned counts with the test's baseline.

    Raises:
        CompileCheckFailed: If a count is worse than its baseline, or the plan cannot be completed.
        CompileUsageError: If the test already has a plan, or this machine cannot create plans.
    """
    from ..plan.gate import planned_test

    if payload.of(item).plans:
        raise CompileUsageError("only one plan can be compared with the baseline in each test")
    folder = settings.below_root(item.config.rootpath, settings.current.baselines)
    planned = planned_test(item.nodeid, target, calls, options, folder=folder, allow_more=allow_more)
    payload.of(item).plans.append(planned.result)
    if planned.failure:
        raise planned.failure
    if planned.result["outcome"] == "no-baseline" and not settings.current.update_baselines:
        text = f"{item.nodeid}: no-baseline: {planned.result['summary']}"
        warnings.warn(CompilePlanWarning(text), stacklevel=stacklevel)
