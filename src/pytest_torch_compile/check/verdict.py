"""Judge what was observed in the runs of a check, or in a ``compile_guard`` block, and return the findings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .. import advice
from .._torch import support
from .._torch.user_lines import error_location
from ..budget import Budget
from ..findings import Finding, merged_over_calls
from ..legs.check_record import Check
from . import acceptance
from .both_legs import ComparedRun
from .counted_limits import limit_findings
from .expected_exceptions import given_up
from .judge import Conditions, judge
from .leg_errors import error_findings, with_stage, without_failed_compilations
from .steady import steady_findings
from .watching import Watched


def findings_of(check: Check, run: ComparedRun) -> list[Finding]:
    """Judge the observations of a check's runs against its budget, and return all findings."""
    work, compiling, budget, seen, counted = check.work, check.compiling, check.budget, run.seen, run.counted
    refused = run.refused if support.FULLGRAPH_CAPTURES_MORE else None
    conditions = Conditions(
        torch_limit=compiling.more.get("recompile_limit") or support.recompile_limit(),
        compile_failed=run.compile_error is not None,
        cudagraphs=compiling.wants_cudagraphs,
        deviations=run.deviations,
        expects_graphs=not all(call.exceptions for call in work.calls),
        warm=check.warm,
        dynamic=compiling.dynamic is True,
        stopped_at=error_location(refused) if refused is not None else None,
        stances=tuple(run.stances.values()),
    )
    judged = judge(counted, budget, conditions)
    # fullgraph refuses accepted breaks too, which is not an error.
    breaks = {b.fingerprint for b in seen.graph_breaks}
    all_accepted = bool(breaks) and breaks <= set(budget.accepted_breaks)
    error = run.compile_error or (run.refused if not judged and not all_accepted else None)
    if error is not None:
        # The trace describes the same failure more precisely, with its location.
        known = {finding.kind for finding in judged}
        frame = seen.errors[-1].location if seen.errors else None
        judged += [finding for finding in error_findings(error, frame, run.deviations) if finding.kind not in known]
    if (raised := error or run.raised) is not None:
        judged = [with_stage(finding, raised) for finding in judged]
    judged = acceptance.without_accepted(judged, seen, budget)
    judged += given_up(seen, run.expected, work.calls, budget)
    judged += _not_restored([path for one in run.comparisons for path in one.not_compared], run.not_restorable)
    judged += steady_findings(run.late, seen, work.warmup)
    judged += limit_findings(budget, seen, run.figures) if run.compile_error is None else []
    compared = merged_over_calls(finding for comparison in run.comparisons for finding in comparison.findings)
    # A compilation that failed in a call that is expected to raise has no separate finding.
    judged += without_failed_compilations(compared, counted)
    return [replace(finding, hint=advice.for_backend(finding.hint, compiling.name)) for finding in judged]


def _not_restored(paths: Sequence[str], objects: Sequence[str]) -> list[Finding]:
    """Return the finding for results that differ between eager runs because some of the target's objects cannot be
    restored.
    """
    if not (paths and objects):
        return []
    changing = ", ".join(dict.fromkeys(paths))
    message = f"{changing} could not be compared, because two eager runs produce different results"
    detail = f"the state of these objects cannot be restored between runs: {', '.join(objects)}"
    return [Finding("not-observable", message, None, detail, advice.RECREATE)]


def findings_of_block(block: Watched, budget: Budget, *, cudagraphs: bool) -> list[Finding]:
    """Judge the observations of a ``compile_guard`` block against its budget, and return all findings."""
    seen = block.seen
    judged = judge(
        seen.during_warm_up(block.warmup),
        budget,
        Conditions(
            torch_limit=support.recompile_limit(),
            cudagraphs=cudagraphs,
            deviations=block.deviations,
            expects_graphs=block.warmup is None or not seen.compiled_before,
            stances=tuple(block.stances.values()),
        ),
    )
    judged = acceptance.without_accepted(judged, seen, budget)
    return judged + limit_findings(budget, seen, block.figures) + steady_findings(block.late, seen, block.warmup)
