"""``check_compile``: compare a compiled target with its eager run, and check its graph breaks and recompiles."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from .. import advice, settings
from .._torch import support
from .._torch.compiled import uncompiled
from .._torch.deviations import deviations
from .._torch.dynamic import sizes_become_dynamic
from .._torch.sandbox import sandbox
from .._torch.trace import error_location
from .._torch.warning_filters import calm
from ..budget import Budget, as_budget
from ..diagnose import Remake, diagnosis
from ..events import announce, checking
from ..findings import (
    CompileCheckFailed,
    CompileCheckWarning,
    CompileReport,
    Finding,
    NumericsReport,
    Reference,
)
from ..legs.calls import as_calls
from ..legs.compiling import Compiling
from ..legs.keywords import Keywords, clear_keywords, keyword_options
from ..legs.leg import Loss, OptimizerFactory, Work
from ..legs.targets import DynamicDims
from ..numerics import Comparison, Tolerances
from ..numerics.tolerances import require_tolerances
from ..observation import Observation
from ..report.failure_text import failure_text, not_compared_text
from ..reproduce.reproduction import add_reproduction
from . import acceptance
from .both_legs import Run, compiled_beside, eager_leg
from .describe import device_name, located, rerun_command, target_name
from .exact_limits import limit_findings, measured_on_gpu, require_countable
from .expected_exceptions import given_up, without_expected
from .judge import judge, merged_over_calls, not_restored
from .leg_errors import error_findings, machine_faults_named, without_failed_compilations
from .opcheck import CheckedOps, check_ops
from .remarks import unused_breaks, unused_tolerances
from .requirements import require_usable
from .steady import steady_findings, warm_up_only
from .time_limit import time_limit
from .warm_start import cache_misses


@clear_keywords("calls")
def check_compile(
    target: Callable[..., Any],
    /,
    *args: Any,
    calls: Iterable[Any] | None = None,
    fullgraph: bool | None = None,
    dynamic: bool | None = None,
    backend: str | Callable[..., Any] | None = None,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    recompile_limit: int | None = None,
    isolate_recompiles: bool = False,
    dynamic_shapes: Any = None,
    compile: Callable[[Any], Any] | None = None,
    dynamic_dims: DynamicDims | None = None,
    train: bool | Loss = False,
    optimizer: OptimizerFactory | None = None,
    steps: int = 1,
    max_graph_breaks: int | Mapping[str, int] | None = None,
    max_recompiles: int | Mapping[str, int] | None = None,
    accepted_breaks: Iterable[str] | None = None,
    budget: Budget | None = None,
    tolerances: Tolerances | None = None,
    seed: int = 0,
    warm: bool = False,
    warmup: int | None = None,
    custom_ops: bool = False,
    snapshots: str | None = None,
    diagnose: str | None = None,
    **kwargs: Any,
) -> CompileReport:
    """Compile ``target``, compare its results with eager results, and raise if anything is wrong.

    The eager run and the compiled run both use the original target and inputs, and both start from the same state and
    random seed. The changes that a run makes are undone after the run. The check covers outputs, in-place changes,
    aliasing, gradients, exceptions, graph breaks, recompiles, eager fallback, and whether anything was compiled at all.

    After the check, the model, inputs, random state, grad mode and torch's configuration are restored. Dynamo's cache
    entries for code other than the target are restored too.

    Args:
        target: A module, function, bound method or other callable. If the target is already compiled with
            ``torch.compile``, its uncompiled original is checked, with the options of this call.
        *args: The arguments of a single call, if ``calls`` is not set.
        calls: The call sequence. Each item is a ``call(...)``, a tuple of positional arguments, a dict of keyword
            arguments, or a single argument.
        fullgraph: Passed to ``torch.compile``. Defaults to True, unless graph breaks are allowed, a call is expected to
            raise, or ``compile`` is set.
        dynamic: Passed to ``torch.compile``.
        backend: Passed to ``torch.compile``. Defaults to ``--compile-backend``, or to Inductor.
        mode: Passed to ``torch.compile``.
        options: Passed to ``torch.compile``.
        recompile_limit: Passed to ``torch.compile``. Like ``isolate_recompiles`` and ``dynamic_shapes``, this option
            can be used only if the torch version supports it.
        isolate_recompiles: Passed to ``torch.compile``. If True, torch stores the graphs of this compilation separately
            from the graphs of other compilations of the same code, and counts the recompiles separately.
        dynamic_shapes: Passed to ``torch.compile``: unbacked or shared sizes, in torch's format (``shapes_spec`` on
            torch 2.13).
        compile: A function ``target -> compiled target`` that is called instead of ``torch.compile``. The preceding
            options of ``torch.compile`` are not passed to this function, so the function must set them itself.
        dynamic_dims: Dimensions to mark as dynamic, by argument name or position: ``{"x": 0}``, ``{0: {1: (2, 512)}}``.
            A string in place of the range marks the dimension as unbacked, and marks all dimensions with the same
            string as equal in size: ``{"x": {0: "batch"}}``.
        train: If True, run backward from every output that requires grad, with random gradients. Alternatively, a
            callable that computes the loss from the output.
        optimizer: A function that creates an optimizer from the parameters. Parameters and buffers are compared after
            the optimizer steps.
        steps: The number of optimizer steps in each call.
        max_graph_breaks: The number of allowed graph breaks (default 0). Alternatively, a dict of limits by torch
            version, ``{"<2.8": 2, ">=2.8": 0}``, or by the package whose code caused the graph break,
            ``{"mypackage": 0, "*": 3}``.
        max_recompiles: The number of allowed recompiles (default 0). Alternatively, a dict of limits by torch version.
        accepted_breaks: Fingerprints of graph breaks that do not count toward ``max_graph_breaks``.
        budget: Limits on counted quantities, ``Budget(max_kernels=4, max_syncs=0)``. If ``max_graph_breaks``,
            ``max_recompiles`` or ``accepted_breaks`` is set, even to 0, the option overrides the corresponding limit in
            ``budget``.
        tolerances: How close compiled results must be to eager results. The default is the rule in
            ``docs/numerics.md``, or bitwise equality with ``options={"numerics": "strict"}``.
        seed: The random seed at the start of each run.
        warm: If True, every graph must come from the compile cache; a graph that must be compiled is a ``cache-miss``
            finding.
        warmup: The number of warm-up calls at the start, in which compilation is allowed within the budget. Later calls
            must not compile anything.
        custom_ops: If True, run ``torch.library.opcheck`` on each ``torch.library`` op that the eager run calls, with
            the inputs that the op receives. A failed opcheck test is a ``custom-op`` finding. Gradients are tested only
            with ``train=True``.
        snapshots: Where to keep copies of the caller's tensors: ``"device"`` or ``"host"``. By default, the copies are
            kept on the host if the device does not have enough memory for both the copies and the float64 run, or if
            the check includes training and the copies exceed 1 GiB. If the copies of CPU tensors exceed 1 GiB in
            training, they are kept in a temporary file.
        diagnose: How thoroughly to diagnose a failure: ``off``, ``auto`` or ``full``. Defaults to
            ``--compile-diagnose``.
        **kwargs: Keyword arguments of the single call. A keyword that is both an option of this function and an
            argument of the target is rejected; use ``calls=[call(x, mode="bicubic")]``.

    Returns:
        The report, which contains all observations.

    Raises:
        CompileCheckFailed: If there are findings. The exception has ``.report`` and ``.findings``.
        CompileUsageError: If the check was called incorrectly, or the target raises an exception in eager.
    """
    __tracebackhide__ = True
    support.require_supported_torch()
    own = as_budget(budget, max_graph_breaks, max_recompiles, accepted_breaks).on(support.torch_version())
    budget = acceptance.widened(own)
    sequence = as_calls(args, kwargs, calls)
    if fullgraph is None:
        # With fullgraph, torch refuses to trace a function that raises an exception.
        allows_breaks = any(budget.breaks_by_package.values()) or bool(budget.accepted_breaks)
        allows_breaks = allows_breaks or any(one.exceptions for one in sequence)
        fullgraph = compile is None and not allows_breaks
    # Only Inductor has a compile cache.
    usual = settings.current.backend if warm else settings.current.check_backend
    grown = {"recompile_limit": recompile_limit, "isolate_recompiles": isolate_recompiles}
    compiling = Compiling(
        backend or usual, mode, options, dynamic, fullgraph, compile, {**grown, "dynamic_shapes": dynamic_shapes}
    )
    work = Work(
        uncompiled(target),
        sequence,
        optimizer is not None if train is False else train,
        optimizer,
        steps,
        seed,
        dynamic_dims,
        warmup,
        snapshots,
    )
    require_usable(work)
    require_countable(budget, work, compiling)
    require_tolerances("tolerances", tolerances)
    tolerances = tolerances or (Tolerances(rtol=0, atol=0) if compiling.is_strict else Tolerances())
    ops = CheckedOps()
    began = time.monotonic()
    report = _examined_in_time(work, compiling, budget, tolerances, ops if custom_ops else None)
    if backend is None and compile is None and usual != settings.current.backend:
        report.observation.not_observable.append(f"generated code, because --compile-fast uses backend {usual}")
    if not any(finding.kind == "timeout" for finding in report.findings):
        report.findings += cache_misses(report.observation.cache) if warm else []
        acceptance.note(report, own)
        remake = Remake(work, compiling, budget, tolerances, _examine, time.monotonic() - began)
        with time_limit(settings.current.timeout):
            report.diagnosis = diagnosis(report, remake, diagnose)
            if settings.current.repro and (report.findings or ops.findings):
                add_reproduction(report, remake, Path(settings.current.repro))
    report.findings, report.remarks = report.findings + ops.findings, report.remarks + ops.remarks
    report.text = failure_text(report)
    announce(report)
    if not_compared := report.numerics.not_compared:
        warnings.warn(CompileCheckWarning(not_compared_text(report.target, not_compared)), stacklevel=2)
    if report.findings:
        raise CompileCheckFailed(report.text, report, report.findings)
    return report


KEYWORDS = Keywords("check_compile", keyword_options(check_compile), "calls")


def _examined_in_time(
    work: Work, compiling: Compiling, budget: Budget, tolerances: Tolerances, ops: CheckedOps | None
) -> CompileReport:
    """Return the check's report or, after a timeout, a report that shows the line that hung. Unless ``ops`` is None,
    check the custom ops too, and store the results in ``ops``.
    """
    report = None
    with time_limit(settings.current.timeout) as limit, machine_faults_named(), checking(target_name(work.target)):
        if ops is not None:
            check_ops(work, ops)
        with ops.explaining() if ops is not None else nullcontext():
            report = _examine(work, compiling, budget, tolerances)
    if report is None:
        report = _report(work, compiling, budget, Run(Observation()))
        report.findings = limit.findings
    return report


def _examine(work: Work, compiling: Compiling, budget: Budget, tolerances: Tolerances) -> CompileReport:
    """Run the calls in eager and in compiled code, and return the report with its findings."""
    settings_changed = deviations()
    with calm(), sandbox() as box:
        eager = eager_leg(work, box)
        run = compiled_beside(eager, work, compiling, budget, tolerances, box)
        if run.compile_error is not None and compiling.can_relax:
            # fullgraph stops at the first break, so a second run without fullgraph lists all breaks.
            first, run = run, compiled_beside(eager, work, compiling.relaxed(), budget, tolerances, box)
            run.refused = first.compile_error
        if run.compile_error is None:
            run.figures.measured = measured_on_gpu(budget, work, compiling)
    run.deviations = settings_changed
    report = _report(work, compiling, budget, run)
    report.remarks += _remarks(run, compiling, budget, tolerances)
    return report


def _report(work: Work, compiling: Compiling, budget: Budget, run: Run) -> CompileReport:
    located(run.seen, work.target, work.calls)
    report = CompileReport(
        target=target_name(work.target),
        checked_mode=compiling.checked_mode,
        backend=compiling.name,
        torch=str(torch.__version__),
        device=device_name(work),
        budget=budget.limits(),
        calls=run.rows,
        observation=run.seen,
        numerics=_numerics(run.comparisons),
        rerun=rerun_command(),
        deviations=run.deviations,
    )
    if remark := support.newer_than_checked():
        run.seen.not_observable.append(remark)
    report.findings = _findings(work, run, budget, compiling)
    return report


def _findings(work: Work, run: Run, budget: Budget, compiling: Compiling) -> list[Finding]:
    judged = judge(
        without_expected(warm_up_only(run.seen, work.warmup), run.expected),
        budget,
        aborted=run.compile_error is not None,
        cudagraphs=compiling.wants_cudagraphs,
        limit=compiling.more.get("recompile_limit") or support.recompile_limit(),
        deviations=run.deviations,
        expects_graphs=not all(call.exceptions for call in work.calls),
        dynamic=False if compiling.dynamic is None and not sizes_become_dynamic() else compiling.dynamic,
        stopped_at=error_location(run.refused) if run.refused is not None and support.FULLGRAPH_CAPTURES_MORE else None,
    )
    accepted = run.seen.graph_breaks and {b.fingerprint for b in run.seen.graph_breaks} <= set(budget.accepted_breaks)
    error = run.compile_error or (run.refused if not judged and not accepted else None)
    known = {finding.kind for finding in judged}
    if error is not None:
        frame = run.seen.errors[-1].location if run.seen.errors else None
        judged += [finding for finding in error_findings(error, frame, run.deviations) if finding.kind not in known]
    judged += given_up(run.seen, run.expected, work.calls, budget)
    judged += not_restored([path for one in run.comparisons for path in one.not_compared], run.not_restorable)
    judged += steady_findings(run.late, run.seen, work.warmup)
    judged += limit_findings(budget, run.seen, run.figures) if run.compile_error is None else []
    compared = merged_over_calls(finding for comparison in run.comparisons for finding in comparison.findings)
    judged += without_failed_compilations(compared, run.seen)
    return [replace(finding, hint=advice.for_backend(finding.hint, compiling.name)) for finding in judged]


def _remarks(run: Run, compiling: Compiling, budget: Budget, tolerances: Tolerances) -> list[str]:
    """Return the notes on a run. Return no notes if the run is incomplete, because not all values were compared."""
    if run.compile_error is not None or any(comparison.raised for comparison in run.comparisons):
        return []
    paths = {leaf.path for comparison in run.comparisons for leaf in comparison.leaves}
    paths |= {path for comparison in run.comparisons for path in comparison.ignored}
    return [*compiling.remarks, *unused_breaks(budget, run.seen), *unused_tolerances(tolerances, paths)]


def _numerics(comparisons: Sequence[Comparison]) -> NumericsReport:
    leaves = [leaf for comparison in comparisons for leaf in comparison.leaves]
    worst = max(leaves, key=lambda leaf: leaf.ratio, default=None)
    references = {c.reference for c in comparisons} - {Reference.NOT_NEEDED}
    return NumericsReport(
        leaves=len(leaves),
        worst_ratio=worst.ratio if worst else 0.0,
        worst_leaf=worst.path if worst else "",
        reference=", ".join(sorted(r.value for r in references)) or Reference.NOT_NEEDED.value,
        nondeterministic=any(comparison.nondeterministic for comparison in comparisons),
        not_compared=tuple(dict.fromkeys(path for comparison in comparisons for path in comparison.not_compared)),
        ill_conditioned=sum(leaf.ok and leaf.perturbed_runs > 0 for leaf in leaves),
    )
