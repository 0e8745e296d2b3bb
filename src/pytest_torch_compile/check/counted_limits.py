"""Count the quantities that a budget limits, and create findings for those that exceed their limits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field

import torch

from .. import advice
from .._torch.generated_kernels import counting_generated
from .._torch.syncs import noting_syncs
from ..budget import Budget
from ..findings import CompileUsageError, Finding, FindingKind
from ..legs.compiling import Compiling
from ..legs.work import Work
from ..observation import Location, Observation
from ..report.failure_text import count
from ..speed.measuring import memory
from .describe import device_name
from .gpu_counts import gpu_counts


@dataclass(frozen=True)
class Limited:
    """A quantity that a budget limits: the kind of finding if it exceeds its limit, and the unit in messages. A
    quantity ``on_gpu`` can be measured only on a GPU. Quantities ``per_call`` are counted in each call, and the largest
    count is judged.
    """

    kind: FindingKind
    unit: str
    per_call: bool = False
    on_gpu: bool = False


# The budget's limits on graph breaks and recompiles are judged in ``judge.py``.
LIMITED = {
    "max_graphs": Limited("structure", "graph"),
    "max_guards": Limited("structure", "guard"),
    "max_kernels": Limited("structure", "kernel", per_call=True),
    "max_cudagraphs": Limited("structure", "recorded CUDA graph"),
    "max_memory": Limited("memory", "byte", per_call=True, on_gpu=True),
    "max_memory_ratio": Limited("memory", "times eager's memory", per_call=True, on_gpu=True),
    "max_syncs": Limited("host-sync", "GPU synchronization", per_call=True, on_gpu=True),
}


@dataclass(frozen=True)
class Figure:
    """The value counted for one limit, with details; ``value`` is None if the quantity could not be counted."""

    value: float | None
    evidence: Sequence[str] = ()
    location: Location | None = None


@dataclass
class Figures:
    """The quantities that were counted while the code ran. ``generated`` contains the number of kernels that Inductor
    generated for each call, and ``measured`` contains the quantities that were measured on a GPU or predicted by a
    plan, keyed by limit.
    """

    generated: list[int] = field(default_factory=list)
    measured: dict[str, Figure] = field(default_factory=dict)


def require_countable(budget: Budget, work: Work | None = None, compiling: Compiling | None = None) -> None:
    """Reject limits on quantities that cannot be counted on this machine, because these limits could never be exceeded.

    ``work`` is None in ``compile_guard``, which cannot know in advance which code will run.

    Raises:
        CompileUsageError: If a limited quantity cannot be counted; the message shows what is missing.
    """
    limits = budget.limits()
    if work is None and "max_memory_ratio" in limits:
        raise CompileUsageError(
            "max_memory_ratio can be used only with check_compile, because compile_guard does not run the code "
            "eagerly; use max_memory"
        )
    for name in (name for name, quantity in LIMITED.items() if quantity.on_gpu and name in limits):
        if work is not None and all(call.exceptions for call in work.calls):
            raise CompileUsageError(
                f"{name} is measured in calls that return, but every call is expected to raise an exception: remove "
                "the limit, or add a call that returns"
            )
        if not (torch.cuda.is_available() if work is None else _on_gpu(work)):
            raise CompileUsageError(f"{name} cannot be measured on a CPU: use a CUDA device, or remove the limit")
    other_backend = compiling is not None and compiling.is_torchs and not compiling.has_backend("inductor")
    if "max_kernels" in limits and compiling is not None and other_backend and work and not _on_gpu(work):
        raise CompileUsageError(
            f"max_kernels counts the kernels that Inductor generates, but the backend is {compiling.name}: remove the "
            "limit, or use backend='inductor'"
        )


def _on_gpu(work: Work) -> bool:
    return device_name(work.target, work.calls[0]).startswith("cuda")


def counting_kernels(budget: Budget, work: Work | None, figures: Figures) -> AbstractContextManager[None]:
    """Count the kernels that Inductor generates, if max_kernels is set and the target is not on a GPU."""
    if budget.max_kernels is None or (work is not None and _on_gpu(work)):
        return nullcontext()
    return counting_generated(figures.generated.append)


def measured_on_gpu(budget: Budget, work: Work, compiling: Compiling) -> dict[str, Figure]:
    """Warm up each call, then count its kernels and GPU synchronizations, and measure its GPU memory."""
    limits = budget.limits()
    returning = [call for call in work.calls if not call.exceptions]
    measured = any((quantity.per_call or quantity.on_gpu) and name in limits for name, quantity in LIMITED.items())
    if not (measured and returning and _on_gpu(work)):
        return {}
    calls = [gpu_counts(work, call, compiling) for call in returning]
    figures = {
        "max_kernels": _most([one.kernels for one in calls], "kernels"),
        "max_memory": _most([one.memory for one in calls], "bytes"),
        "max_syncs": _waits([one.sync_lines for one in calls], [one.syncs for one in calls]),
    }
    if "max_memory_ratio" in limits:
        eager = [gpu_counts(work, call, None).memory for call in returning]
        pairs = list(zip([one.memory for one in calls], eager, strict=True))
        lines = [f"call {number}: {own:,} bytes, eager {other:,}" for number, (own, other) in enumerate(pairs, 1)]
        # The eager run may need no memory of its own.
        figures["max_memory_ratio"] = Figure(max(own / max(1, other) for own, other in pairs), lines)
    return figures


def _most(values: Sequence[int], unit: str) -> Figure:
    return Figure(max(values), [f"call {number}: {value:,} {unit}" for number, value in enumerate(values, 1)])


def _waits(lines: Sequence[Sequence[Location | None]], totals: Sequence[int]) -> Figure:
    total = max(totals)
    known = [line for line in lines[totals.index(total)] if line]
    evidence = [f"{line.shown()}: {line.source}" for line in known]
    if total > len(known):
        evidence.append(f"{count(total - len(known), 'synchronization')} at unknown lines")
    return Figure(total, evidence, known[0] if known else None)


@contextmanager
def measuring_body(budget: Budget, figures: Figures) -> Iterator[None]:
    """Count the limited quantities inside the ``with`` block of ``compile_guard``."""
    lines: list[Location | None] = []
    syncs = noting_syncs(lines.append) if budget.max_syncs is not None else nullcontext()
    before = 0
    if budget.max_memory is not None:
        memory.free_leftovers()
        torch.cuda.reset_peak_memory_stats()
        before = memory.requested("current")
    with syncs, counting_kernels(budget, None, figures):
        yield
    if budget.max_memory is not None:
        torch.cuda.synchronize()
        used = memory.requested("peak") - before
        figures.measured["max_memory"] = Figure(used, [f"{used:,} bytes more than before the block"])
    figures.measured["max_syncs"] = _waits([lines], [len(lines)])


def limit_findings(budget: Budget, seen: Observation, figures: Figures) -> list[Finding]:
    """Return a finding for each limit that is exceeded, or whose quantity could not be counted."""
    limits = {name: limit for name, limit in budget.limits().items() if name in LIMITED}
    if not limits:
        return []
    known = _seen(seen) | figures.measured
    if "max_kernels" not in known:
        if not seen.compile_seconds.inductor or not figures.generated:
            kernels = Figure(None, ["no graph went through Inductor, so no kernels were generated"])
        elif not any(graph.call for graph in seen.graphs):  # a compile_guard block has no numbered calls
            kernels = Figure(sum(figures.generated), ["generated by Inductor in the block"])
        else:
            kernels = _most(figures.generated, "kernels generated")
        known["max_kernels"] = kernels
    not_counted = Figure(None, ["it was not counted"])
    findings = [_limit_finding(name, limit, known.get(name, not_counted)) for name, limit in limits.items()]
    return [finding for finding in findings if finding is not None]


def _limit_finding(name: str, limit: float, figure: Figure) -> Finding | None:
    quantity = LIMITED[name]
    if figure.value is None:
        message = f"{name}={limit} cannot be checked: {figure.evidence[0]}"
        return Finding("not-observable", message, hint=advice.LEAVE_LIMIT_OUT, subject=name)
    if figure.value <= limit:
        return None
    number = (
        f"{figure.value:.3g} {quantity.unit}" if name == "max_memory_ratio" else count(int(figure.value), quantity.unit)
    )
    per = " in one call" if any(line.startswith("call ") for line in figure.evidence) and quantity.per_call else ""
    message = f"{number}{per}, {limit:,} allowed"
    evidence = "\n".join(figure.evidence)
    hint = advice.LIMIT_EXCEEDED[quantity.kind]
    return Finding(
        quantity.kind, message, figure.location, evidence, hint, subject=name, measured=figure.value, limit=limit
    )


def _seen(seen: Observation) -> dict[str, Figure]:
    ops = [f"{_where(g.call)}{g.frame}, {count(len(g.ops), 'op')}" for g in seen.graphs]
    guards = [graph.guards for graph in seen.graphs]
    unknown = Figure(None, ["torch did not report the number of guards for at least one graph"])
    each = [f"{_where(g.call)}{g.frame}, {count(g.guards or 0, 'guard')}" for g in seen.graphs]
    recorded = [f"{_where(run.call)}{run.recorded} recorded" for run in seen.cudagraph_runs if run.recorded]
    return {
        "max_graphs": Figure(len(seen.graphs), ops),
        "max_guards": unknown if None in guards else Figure(sum(number or 0 for number in guards), each),
        "max_cudagraphs": Figure(sum(run.recorded for run in seen.cudagraph_runs), recorded),
    }


def _where(call: int) -> str:
    return f"call {call}: " if call else ""
