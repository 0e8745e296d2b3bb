"""compile_guard: check a region that compiles inside itself (generate(), pipelines, trainers) against a budget."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

from .. import settings
from .._torch import canary, support
from .._torch.compiled_before import counting_calls, functions_with_graphs
from .._torch.deviations import deviations
from ..events import announce, checking, guard_opens
from ..findings import Budget, CompileCheckFailed, CompileReport
from ..observation import Observation
from ..report.failure_text import failure_text
from . import acceptance
from .describe import rerun_command
from .judge import judge
from .leg_errors import machine_faults_named
from .remarks import unused_breaks
from .time_limit import time_limit


@contextmanager
def compile_guard(
    *,
    max_graph_breaks: int | Mapping[str, int] = 0,
    max_recompiles: int | Mapping[str, int] = 0,
    accepted_breaks: Iterable[str] = (),
    cudagraphs: bool = False,
    name: str = "the guarded region",
) -> Iterator[Observation]:
    """Observe everything that compiles in the body, in any thread, and hold it to the budget when the body ends.

    The yielded ``Observation`` fills while the body runs: ``seen.graph_breaks[0].location``,
    ``seen.recompiles[0].guard``, ``seen.graphs``. Code that was compiled before the body is reused and not seen; a body
    in which nothing compiles is a finding, which says so where all that ran had been compiled before. A graph from the
    compile cache counts as compiled. Under pytest, what earlier tests compiled is forgotten before the test. If the
    body raises, its exception passes and nothing is judged.

    Args:
        max_graph_breaks: how many distinct graph breaks are allowed, as for ``check_compile``.
        max_recompiles: how many recompiles are allowed.
        accepted_breaks: fingerprints of graph breaks that do not count.
        cudagraphs: True makes a skipped CUDA graph a finding.
        name: what the region is called in messages.

    Raises:
        CompileCheckFailed: when the body ends, if something was found that the budget does not allow.
        ValueError: a negative budget, or fingerprints that are not a collection of strings.
    """
    support.require_supported_torch()
    own = Budget(max_graph_breaks, max_recompiles, accepted_breaks).on(support.torch_version())
    budget = acceptance.widened(own)
    guard_opens()
    differing, before = deviations(), functions_with_graphs()
    calls: list[None] = []
    with machine_faults_named():
        opened = canary.observer()
    opened.seen.compiled_before = before
    ended = False
    with time_limit(settings.current.timeout) as limit, checking(name):
        with counting_calls(lambda: calls.append(None)) as observed, opened as observer:
            yield observer.seen
        ended = True
    opened.seen.compiled_calls = len(calls) if observed else None
    report = _report(opened.seen, budget, name)
    report.deviations = differing
    report.findings = limit.findings
    if ended:
        report.findings = judge(
            opened.seen,
            budget,
            aborted=False,
            cudagraphs=cudagraphs,
            limit=support.recompile_limit(),
            deviations=differing,
        )
        acceptance.note(report, own)
    report.text = failure_text(report)
    announce(report)
    if report.findings:
        raise CompileCheckFailed(report.text, report, report.findings)


def _report(seen: Observation, budget: Budget, name: str) -> CompileReport:
    limits: dict[str, Any] = {"max_graph_breaks": budget.max_graph_breaks, "max_recompiles": budget.max_recompiles}
    return CompileReport(
        target=name,
        checked_mode="the code's own",
        backend="the code's own",
        torch=str(torch.__version__),
        device="any device",
        budget=limits,
        observation=seen,
        remarks=list(unused_breaks(budget, seen)),
        rerun=rerun_command(),
    )
