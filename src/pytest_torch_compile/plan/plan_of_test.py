"""``--compile-plan``: plan the target of a speed test or a check with the options of the test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .. import settings
from .._torch.object_text import text_of
from ..budget import Budget
from ..findings import CompileUsageError
from ..legs.calls import Call
from ..legs.compiling import Compiling
from .cards import as_card
from .completing import created, plan_text
from .fake_leg import PlanOptions
from .records import Plan
from .tasks import prepared

# A plan has no limits for findings of these kinds. Instead, their numbers are compared with the baseline.
COUNTED_KINDS = frozenset({"graph-break", "recompile", "cudagraph-skip"})
SECONDS = 600.0


def plan_of_test(target: Any, calls: Sequence[Call], options: Mapping[str, Any], gpu: str) -> Plan:
    """Plan the calls of a test, and remove the findings whose kinds are in ``COUNTED_KINDS``. ``options`` are keyword
    arguments of ``measure_compile`` or ``check_compile``.

    Raises:
        CompileUsageError: If this machine cannot create the plan, or an option is not supported with
            ``--compile-plan``.
    """
    given = dict(options)
    backend, compile = given.get("backend"), given.get("compile")
    is_inductor = backend is None or (isinstance(backend, str) and backend == "inductor")
    if compile is not None or not is_inductor:
        what = "a function passed as compile=" if compile is not None else f"backend {text_of(backend)}"
        raise CompileUsageError(
            f"--compile-plan supports only code that Inductor generates, but this test uses {what}: deselect the test, "
            "or run it without --compile-plan"
        )
    compiling = Compiling(
        "inductor",
        given.get("mode"),
        dict(given["options"]) if given.get("options") is not None else None,
        given.get("dynamic"),
        bool(given.get("fullgraph")),
    )
    planned = PlanOptions(
        compiling, given.get("train", False), given.get("optimizer"), dynamic_dims=given.get("dynamic_dims")
    )
    task = prepared(target, calls, planned, as_card(gpu), Budget())
    plan = created(task, settings.current.timeout or SECONDS)
    plan.findings = [finding for finding in plan.findings if finding.kind not in COUNTED_KINDS]
    plan.budget, plan.rerun = {}, f"{plan.rerun} --compile-plan={gpu.replace(' ', '')}" if plan.rerun else ""
    plan.text = plan_text(plan)
    return plan
