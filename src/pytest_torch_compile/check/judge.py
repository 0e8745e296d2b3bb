"""What was seen, held against the budget: from observations to findings. Neither torch nor pytest."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from .._torch.causes import LIMITS, SWALLOWS, SWITCHED_OFF, caused, first_of
from .._torch.guards import EXPLANATIONS
from .._torch.hints import SURFACE_ERRORS, dynamic_output_hint
from ..findings import Budget, Finding
from ..observation import (
    CompileError,
    CudagraphRuns,
    Deviation,
    EagerFallback,
    FailedGuard,
    GraphBreak,
    Observation,
    Recompile,
)

_OF_CALL = re.compile(r"^call (?P<call>\d+): ")
BREAK_HINTS = {
    "data-dependent branch": "a branch on a tensor's value splits the graph: use torch.where or torch.cond, or decide "
    "on something that is known before the call",
    "scalar from a tensor": "keep the value a tensor (no .item(), .tolist(), float(tensor)), or compute it outside",
    "explicit graph break": "remove the graph_break() call",
    "disabled function": "the function is marked torch.compiler.disable: call it outside the compiled region, or allow "
    "this break with max_graph_breaks or accepted_breaks",
    "call to print or a logger": "remove the call, guard it with torch.compiler.is_compiling(), or move it out",
    "function that dynamo skips": "dynamo does not trace this function: replace it, or call it outside",
}
_LOOK_FOR = (
    "look for torch.compiler.disable, a force_eager stance, TORCH_COMPILE_DISABLE, or a target without tensor ops"
)


def judge(
    seen: Observation,
    budget: Budget,
    *,
    aborted: bool,
    cudagraphs: bool,
    limit: int,
    deviations: Sequence[Deviation] = (),
) -> list[Finding]:
    """The findings of one run. ``aborted`` says that compilation itself raised, so that no graph may be missing.

    ``limit`` is torch's recompile limit; ``cudagraphs`` whether CUDA graphs were asked for; ``deviations`` are the
    settings that differ from torch's defaults, which a finding names as its cause where one made it.
    """
    found = _graph_breaks(seen.graph_breaks, budget)
    found += _recompiles(seen.recompiles, budget)
    found += caused(
        [_fallback(fallback, limit) for fallback in _first_of_each_frame(seen.fallbacks)], deviations, LIMITS
    )
    found += [_swallowed(error, first_of(deviations, SWALLOWS)) for error in seen.errors] if not aborted else []
    from_cache = seen.cache.fx_hits or seen.cache.aot_hits
    if not seen.graphs and not from_cache and not aborted and not seen.errors:
        found += caused([_nothing_compiled(seen)], deviations, SWITCHED_OFF)
    return found + (_cudagraph_skips(seen.cudagraph_skips, seen.cudagraph_runs) if cudagraphs else [])


def _graph_breaks(breaks: Sequence[GraphBreak], budget: Budget) -> list[Finding]:
    counted = [found for found in breaks if found.fingerprint not in budget.accepted_breaks]
    allowed = _number(budget.max_graph_breaks)
    if len(counted) <= allowed:
        return []
    return [
        graph_break_finding(found, f"graph break {i} of {len(counted)}, {allowed} allowed")
        for i, found in enumerate(counted, 1)
    ]


def graph_break_finding(found: GraphBreak, count: str) -> Finding:
    """One graph break, with its line of source, torch's words and the fix; ``count`` says how many are too many."""
    lines = [found.location.source] if found.location.source else []
    if found.location.library is not None:
        lines.append(f"inside {found.location.library}: {found.location.library.source}".rstrip(": "))
    lines += [f"called from {caller.shown()}: {caller.source}".rstrip(": ") for caller in found.callers[::-1]]
    if found.skipped_frame:
        lines.append("torch skipped the whole function, so that all of it runs in eager")
    lines.append(f"torch says: {found.explanation or found.reason}")
    lines.append(f"fingerprint {found.fingerprint}")
    fallback_hint = (
        found.hints[0]
        if found.hints
        else "rewrite the line with what torch.compile can trace, or accept the break by its fingerprint"
    )
    hint = BREAK_HINTS.get(found.category, fallback_hint)
    if found.category == "dynamic output shape":
        hint = dynamic_output_hint(f"{found.reason} {found.explanation}")
    return Finding("graph-break", f"{count}: {found.category}", found.location, "\n".join(lines), hint)


def _number(limit: int | Mapping[str, int]) -> int:
    if isinstance(limit, Mapping):
        raise TypeError("the budget depends on the torch version: judge(budget.on(version))")
    return limit


def _recompiles(recompiles: Sequence[Recompile], budget: Budget) -> list[Finding]:
    allowed = _number(budget.max_recompiles)
    if len(recompiles) <= allowed:
        return []
    lines = [describe_recompile(recompile) for recompile in recompiles]
    causes = Counter(recompile.guards[0].cause for recompile in recompiles if recompile.guards)
    hint = "\n".join(f"{cause}: {EXPLANATIONS[cause]}" for cause, _ in causes.most_common())
    count = f"{len(recompiles)} recompile{'s' if len(recompiles) != 1 else ''}, {allowed} allowed"
    return [Finding("recompile", count, recompiles[0].location, "\n".join(lines), hint)]


def describe_recompile(recompile: Recompile) -> str:
    """One line for one recompile: the call, the function, and the failed guard of every cache entry."""
    shown = [_entry(guard) for guard in recompile.guards[:3]]
    more = len(recompile.guards) - len(shown)
    guards = "; ".join(shown) + (f"; and {more} more" if more else "")
    cause = f" ({recompile.guards[0].cause})" if recompile.guards else ""
    where = f"call {recompile.call}: " if recompile.call else ""
    return f"{where}{recompile.frame}{cause}: {guards}"


def _entry(guard: FailedGuard) -> str:
    """The graph that could not be reused, counted from 1 as people do, and its guard."""
    number = guard.entry.rsplit("/", 1)[-1]
    return f"graph {int(number) + 1} not reused, {guard.text}" if number.isdigit() else guard.text


def _first_of_each_frame(fallbacks: Sequence[EagerFallback]) -> list[EagerFallback]:
    return list({(f.frame, f.location): f for f in reversed(fallbacks)}.values())[::-1]


def _fallback(fallback: EagerFallback, limit: int) -> Finding:
    when = f" at call {fallback.call}" if fallback.call else ""
    cause = fallback.cause or "other"
    return Finding(
        "eager-fallback",
        f"{fallback.frame} hit the recompile limit of {limit}{when}: calls that fit no graph now run in eager",
        fallback.location,
        f"the guard that failed last: {fallback.detail}",
        f"{cause}: {EXPLANATIONS[cause]}. Over {limit} graphs torch falls back whatever the budget",
    )


def _swallowed(error: CompileError, setting: Deviation | None) -> Finding:
    summary = error.message.strip().splitlines() or [error.error]
    by = f"\nswallowed because {setting}" if setting else ""
    return Finding(
        "eager-fallback",
        f"compilation of {error.frame} failed and the error was swallowed: it ran in eager",
        error.location,
        f"{error.error}: {' '.join(summary[:3])}{by}",
        SURFACE_ERRORS,
    )


def _nothing_compiled(seen: Observation) -> Finding:
    message = "0 graphs with an op were compiled, at least 1 expected"
    if seen.not_observable:
        return Finding("nothing-compiled", message, None, "\n".join(seen.not_observable), _LOOK_FOR)
    if seen.compiled_calls == 0:
        why = "no compiled function was called in this block: torch.compile only wraps, the first call compiles"
        return Finding("nothing-compiled", message, None, why, "call what was compiled inside the block")
    if seen.compiled_calls and seen.compiled_before and not seen.frames:
        return _compiled_before(seen, message)
    why = "no graph with an op reached the backend: the target is disabled, skipped, or runs no tensor op of its own"
    return Finding("nothing-compiled", message, None, why, _LOOK_FOR)


def _compiled_before(seen: Observation, message: str) -> Finding:
    calls, names = seen.compiled_calls, [place.shown() for place in seen.compiled_before]
    more = f", and {len(names) - 3} more" if len(names) > 3 else ""
    why = (
        f"compiled functions were called {calls} time{'s' if calls != 1 else ''} in this block, and torch had nothing "
        f"to compile: they ran what was compiled before\ncompiled by then: {', '.join(names[:3])}{more}"
    )
    hint = "open the block before the first call of the compiled code, or call torch.compiler.reset() before the block"
    return Finding("nothing-compiled", f"{message}: what ran was compiled before this block", None, why, hint)


def _cudagraph_skips(reasons: Sequence[str], runs: Sequence[CudagraphRuns]) -> list[Finding]:
    """One finding for what torch skipped and for runs that used no CUDA graph; a first run, which warms up, is none."""
    without = Counter(reason for run in runs for reason in run.without)
    if not reasons and not without:
        return []
    parts = [f"skipped {len(reasons)} time{'s' if len(reasons) != 1 else ''}"] if reasons else []
    if without:
        calls = [str(run.call) for run in runs if run.without and run.call]
        where = f" (call{'s' if len(calls) != 1 else ''} {', '.join(calls)})" if calls else ""
        parts.append(f"not used in {without.total()} run{'s' if without.total() != 1 else ''}{where}")
    lines = [f"{reason} (x{times})" for reason, times in (Counter(reasons) + without).items()]
    lines += [f"runs: {cudagraph_counts(runs)}"] if runs else []
    return [
        Finding(
            "cudagraph-skip",
            f"CUDA graphs were asked for and {' and '.join(parts)}, 0 allowed",
            None,
            "\n".join(lines),
            "avoid CPU tensors, input mutation and dynamic shapes inside the region, or use "
            "'max-autotune-no-cudagraphs'",
        )
    ]


def cudagraph_counts(runs: Sequence[CudagraphRuns]) -> str:
    """``1 warmed up, 1 recorded, 3 replayed, 2 without a CUDA graph``."""
    return (
        f"{sum(run.warmed_up for run in runs)} warmed up, {sum(run.recorded for run in runs)} recorded, "
        f"{sum(run.replayed for run in runs)} replayed, {sum(len(run.without) for run in runs)} without a CUDA graph"
    )


def merged_over_calls(findings: Iterable[Finding]) -> list[Finding]:
    """Findings that say the same of several calls as one: ``calls 1, 2, 5: ...``."""
    groups: dict[Finding, list[str]] = {}
    for finding in findings:
        match = _OF_CALL.match(finding.message)
        same = replace(finding, message=finding.message[match.end() :]) if match else finding
        groups.setdefault(same, []).extend([match["call"]] if match else [])
    return [_of_calls(finding, calls) for finding, calls in groups.items()]


def _of_calls(finding: Finding, calls: Sequence[str]) -> Finding:
    if not calls:
        return finding
    prefix = f"call{'s' if len(calls) > 1 else ''} {', '.join(calls)}: "
    return replace(finding, message=prefix + finding.message)
