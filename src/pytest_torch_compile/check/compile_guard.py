"""``compile_guard``: check code that calls torch.compile itself (generate(), pipelines, trainers) against a budget."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from .. import settings
from .._torch import support
from ..budget import Budget, as_budget
from ..events import checking, guard_opens
from ..findings import CompileCheckFailed, CompileUsageError
from ..observation import Observation
from ..reproduce.reproduction import GUARDED
from . import acceptance
from .conclude import conclude
from .counted_limits import require_countable
from .reporting import report_of_block
from .time_limit import chosen_time_limit
from .verdict import findings_of_block
from .watching import opened_block, watching_block


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

    Code that was compiled before the block is reused and not observed. A call that matches no graph of a function that
    has already reached the recompile limit runs eagerly, and so does a call under a ``TorchDispatchMode``: both are
    reported as ``eager-fallback``. If nothing is compiled inside the block, the check reports a finding, which states
    whether all code had already been compiled; only a block with ``steady=True`` may reuse all of its code. A graph
    from the compile cache counts as compiled. Under pytest, the plugin discards code that earlier tests compiled. If
    the block raises, the exception propagates and nothing is checked.

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
    declared = as_budget(budget, max_graph_breaks, max_recompiles, accepted_breaks).on(support.torch_version())
    if steady and declared.max_recompiles:
        raise CompileUsageError(
            f"steady=True does not allow any compilation: remove max_recompiles={declared.max_recompiles}"
        )
    budget = acceptance.with_accepted(declared)
    require_countable(budget)
    guard_opens()
    block, ended = opened_block(steady=steady), False
    with chosen_time_limit() as limit, checking(name):
        with watching_block(block, budget):
            yield block.seen
        ended = True
    report = report_of_block(name, block, budget)
    # A block that the time limit has ended is incomplete, so its counts are not judged.
    if ended:
        acceptance.note(block.seen.during_warm_up(block.warmup), declared)
        report.findings = findings_of_block(block, budget, cudagraphs=cudagraphs)
    else:
        report.findings = limit.findings
    if settings.current.repro and report.findings:
        report.diagnosis.append(GUARDED)
    try:
        conclude(report)
    except CompileCheckFailed as failed:
        raise failed from None  # without the exception with which the time limit ended the block
