"""Turn what the planning process finds into findings: exceptions, exceeded limits, and kernels that do not fit the
GPU.
"""

from __future__ import annotations

from collections.abc import Sequence

from .._torch import support
from .._torch.error_text import error_summary
from .._torch.user_lines import error_location
from ..budget import Budget
from ..check.counted_limits import Figure, Figures, limit_findings
from ..check.judge import Conditions, judge
from ..check.leg_errors import error_findings
from ..findings import Finding
from ..fresh.worker import raised_by
from ..legs.calls import Call
from ..report.failure_text import count
from .records import Plan, PlannedKernel

_READS_A_VALUE = ("DataDependentOutputException", "DynamicOutputShapeException", "GuardOnDataDependentSymNode")


def error_findings_of_call(error: Exception, number: int) -> list[Finding]:
    """Return the findings for an exception, which has one of three causes: the host needs a value from the GPU, the
    compiler failed, or the code under test raised the exception.
    """
    name, place = type(error).__name__, error_location(error) or raised_by(error).location
    if name in _READS_A_VALUE:
        message = "the host needs a value that the GPU computes, so the plan ends here"
        return [Finding("host-sync", message, place, error_summary(error), calls=(number,))]
    if support.is_compiler_error(error):
        return error_findings(error)
    message = f"the call raises {name}"
    return [Finding("exception", message, place, error_summary(error), calls=(number,))]


def not_compiled(kernel: PlannedKernel, error: str) -> Finding:
    """Return the finding for a kernel that does not compile for the GPU."""
    message = f"kernel {kernel.name} ({', '.join(kernel.fuses)}) does not compile for the GPU"
    return Finding("compile-error", message, kernel.location, error[:2000], subject=kernel.name)


def kernel_findings(plan: Plan) -> list[Finding]:
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


def budget_findings(
    plan: Plan, limits: Budget, calls: Sequence[Call], *, cudagraphs: bool, raised: bool
) -> list[Finding]:
    """Judge a plan against its limits. ``cudagraphs`` is true if CUDA graphs were requested, and ``raised`` is true if
    a call raised an unexpected exception.
    """
    seen = plan.observation
    conditions = Conditions(
        torch_limit=support.recompile_limit(),
        compile_failed=raised,
        cudagraphs=cudagraphs,
        expects_graphs=not all(call.exceptions for call in calls),
    )
    findings = judge(seen, limits, conditions)
    return findings + ([] if raised else limit_findings(limits, seen, Figures(measured=_figures(plan))))


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
