"""``compile_guard``: check code that calls torch.compile itself (generate(), pipelines, trainers) against a budget."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext

import torch

from .. import settings
from .._torch import canary, support
from .._torch.compiled_before import counting_calls, functions_with_graphs
from .._torch.deviations import deviations
from .._torch.late_compilations import LateCompilations
from ..budget import Budget, as_budget
from ..events import checking, guard_opens
from ..findings import CompileReport, CompileUsageError
from ..observation import Observation
from ..reproduce.reproduction import GUARDED
from . import acceptance
from .conclude import conclude
from .describe import rerun_command
from .exact_limits import Figures, limit_findings, measuring_body, require_countable
from .judge import judge
from .leg_errors import machine_faults_named
from .remarks import unused_breaks
from .steady import steady_findings, warm_up_only
from .time_limit import time_limit


@contextmanager
def compile_guard(
    *,
    max_graph_breaks: int | Mapping[str, int] | None = None,
    max_recompiles: int | Mapping[str, int] | None = None,
    accepted_breaks: Iterable[str] | None = None,
    budget: Budget | None = None,
    cudagraphs: bool = False,
    steady: bool = False,
    name: str = "the guarded region",
) -> Iterator[Observation]:
    """Observe all compilations inside the ``with`` block, in any thread, and check them against the budget when the
    block ends.

    In ``with compile_guard() as seen:``, ``seen`` is an ``Observation`` that is updated while the block runs. The
    observation contains ``seen.graph_breaks[0].location``, ``seen.recompiles[0].guard``, ``seen.graphs`` and more.

    Code that was compiled before the block is reused and not observed. If nothing is compiled inside the block, the
    check reports a finding, which states whether all code had already been compiled. A graph from the compile cache
    counts as compiled. Under pytest, the plugin discards code that earlier tests compiled. If the block raises, the
    exception propagates and nothing is checked.

    Args:
        max_graph_breaks: the number of allowed distinct graph breaks, as in ``check_compile``.
        max_recompiles: the number of allowed recompiles.
        accepted_breaks: fingerprints of graph breaks that do not count toward ``max_graph_breaks``.
        budget: limits on counted quantities, ``Budget(max_graphs=2, max_syncs=0)``. If ``max_graph_breaks``,
            ``max_recompiles`` or ``accepted_breaks`` is set, even to 0, the option overrides the corresponding limit in
            ``budget``.
        cudagraphs: if True, a skipped CUDA graph is a finding.
        steady: set to True if all code was warmed up before the block. In this case, nothing may be compiled, no kernel
            may be autotuned and no CUDA graph may be recorded inside the block. With ``steady=True``, a block in which
            nothing is compiled passes the check, provided that some code was compiled before the block.
        name: the name of the region in messages.

    Raises:
        CompileCheckFailed: When the ``with`` block ends, if there are findings.
        CompileUsageError: If a limit is negative, the accepted fingerprints are not a collection of strings, or
            ``steady`` is set and recompiles are allowed.
    """
    support.require_supported_torch()
    own = as_budget(budget, max_graph_breaks, max_recompiles, accepted_breaks).on(support.torch_version())
    if steady and own.max_recompiles:
        raise CompileUsageError(
            f"steady=True does not allow any compilation: remove max_recompiles={own.max_recompiles}"
        )
    budget = acceptance.widened(own)
    require_countable(budget)
    guard_opens()
    differing, before = deviations(), functions_with_graphs()
    calls: list[None] = []
    with machine_faults_named():
        opened = canary.observer()
    opened.seen.compiled_before = before
    ended = False
    late, figures = LateCompilations(), Figures()
    with time_limit(settings.current.timeout) as limit, checking(name):
        with counting_calls(lambda: calls.append(None)) as observed, opened as observer:
            with late if steady else nullcontext(), measuring_body(budget, figures):
                yield observer.seen
        ended = True
    opened.seen.compiled_calls = len(calls) if observed else None
    report = _report(opened.seen, budget, name)
    report.deviations = differing
    report.findings = limit.findings
    if ended:
        # The events of a block have no call number (0). With steady=True, they all come after the warm-up.
        during_warm_up = warm_up_only(opened.seen, -1 if steady else None)
        report.findings = judge(
            during_warm_up,
            budget,
            aborted=False,
            cudagraphs=cudagraphs,
            torch_limit=support.recompile_limit(),
            deviations=differing,
            expects_graphs=not (steady and before),
        )
        report.findings = acceptance.without_accepted(report.findings, opened.seen, own)
        report.findings += limit_findings(budget, opened.seen, figures)
        report.findings += steady_findings(late.seen, opened.seen, 0 if steady else None)
        acceptance.note(during_warm_up, own)
    if settings.current.repro and report.findings:
        report.diagnosis.append(GUARDED)
    conclude(report)


def _report(seen: Observation, budget: Budget, name: str) -> CompileReport:
    return CompileReport(
        target=name,
        checked_mode="the code's own",
        backend="the code's own",
        torch=str(torch.__version__),
        device="any device",
        budget=budget.limits(),
        observation=seen,
        remarks=list(unused_breaks(budget, seen)),
        rerun=rerun_command(),
    )
