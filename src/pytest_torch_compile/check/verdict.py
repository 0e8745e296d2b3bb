"""Turn the runs of a check into its report: what was observed and compared, and the findings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from .. import advice
from .._torch import support
from .._torch.dynamic import sizes_become_dynamic
from .._torch.trace import error_location
from ..findings import CompileReport, Finding, NumericsReport, Reference
from ..legs.check import Check
from ..numerics import Comparison
from . import acceptance
from .both_legs import Run
from .describe import device_name, rerun_command, target_name
from .exact_limits import limit_findings
from .expected_exceptions import given_up, without_expected
from .judge import judge, merged_over_calls, not_restored
from .leg_errors import error_findings, without_failed_compilations
from .remarks import unused_breaks, unused_tolerances
from .steady import steady_findings, warm_up_only


def report_of(check: Check, run: Run) -> CompileReport:
    """Return the report of a check's runs, without findings."""
    work, compiling, seen = check.work, check.compiling, run.seen
    if remark := support.newer_than_checked():
        seen.not_observable.append(remark)
    if check.faster_backend:
        seen.not_observable.append(f"generated code, because --compile-fast uses backend {check.faster_backend}")
    return CompileReport(
        target=target_name(work.target),
        checked_mode=compiling.checked_mode,
        backend=compiling.name,
        torch=str(torch.__version__),
        device=device_name(work),
        budget=check.budget.limits(),
        calls=run.rows,
        observation=seen,
        numerics=_numerics(run.comparisons),
        remarks=_remarks(check, run),
        rerun=rerun_command(),
        deviations=run.deviations,
    )


def findings_of(check: Check, run: Run) -> list[Finding]:
    """Judge the observations of a check's runs against its budget, and return all findings."""
    work, compiling, budget, seen = check.work, check.compiling, check.budget, run.seen
    judged = judge(
        without_expected(warm_up_only(seen, work.warmup), run.expected),
        budget,
        aborted=run.compile_error is not None,
        cudagraphs=compiling.wants_cudagraphs,
        torch_limit=compiling.more.get("recompile_limit") or support.recompile_limit(),
        deviations=run.deviations,
        expects_graphs=not all(call.exceptions for call in work.calls),
        dynamic=False if compiling.dynamic is None and not sizes_become_dynamic() else compiling.dynamic,
        stopped_at=error_location(run.refused) if run.refused is not None and support.FULLGRAPH_CAPTURES_MORE else None,
    )
    # fullgraph refuses accepted breaks too, which is not an error.
    accepted = seen.graph_breaks and {b.fingerprint for b in seen.graph_breaks} <= set(budget.accepted_breaks)
    error = run.compile_error or (run.refused if not judged and not accepted else None)
    if error is not None:
        known = {finding.kind for finding in judged}
        frame = seen.errors[-1].location if seen.errors else None
        judged += [finding for finding in error_findings(error, frame, run.deviations) if finding.kind not in known]
    judged = acceptance.without_accepted(judged, seen, budget)
    judged += given_up(seen, run.expected, work.calls, budget)
    judged += not_restored([path for one in run.comparisons for path in one.not_compared], run.not_restorable)
    judged += steady_findings(run.late, seen, work.warmup)
    judged += limit_findings(budget, seen, run.figures) if run.compile_error is None else []
    compared = merged_over_calls(finding for comparison in run.comparisons for finding in comparison.findings)
    judged += without_failed_compilations(compared, seen)
    return [replace(finding, hint=advice.for_backend(finding.hint, compiling.name)) for finding in judged]


def _remarks(check: Check, run: Run) -> list[str]:
    """Return the notes on a run. Return no notes if the run is incomplete, because not all values were compared."""
    if run.compile_error is not None or not run.comparisons or any(one.raised for one in run.comparisons):
        return []
    paths = {leaf.path for comparison in run.comparisons for leaf in comparison.leaves}
    paths |= {path for comparison in run.comparisons for path in comparison.ignored}
    unused = [*unused_breaks(check.budget, run.seen), *unused_tolerances(check.tolerances, paths)]
    return [*check.compiling.remarks, *unused]


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
