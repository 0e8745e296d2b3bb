"""Turn observations into findings by comparing them with the budget. Imports neither torch nor pytest."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from .. import advice
from .._torch.breaks import CAPTURED_BY_FULLGRAPH, OTHER
from .._torch.causes import LIMITS, STANCE, SWALLOWS, SWITCHED_OFF, caused, first_of
from ..budget import Budget
from ..findings import Finding
from ..observation import (
    CompileError,
    CudagraphRuns,
    Deviation,
    EagerFallback,
    GraphBreak,
    Location,
    Observation,
    Recompile,
)
from ..report.failure_text import count, cudagraphs, numbered
from .break_findings import captured_by_fullgraph, explanation, graph_break_finding
from .guard_advice import for_guard
from .warm_start import cache_misses

# The stances under which torch runs calls eagerly, or replaces the backend, without an event that can be observed.
_SILENT = re.compile("eager|force_backend")


@dataclass(frozen=True)
class Conditions:
    """The conditions of a run, which determine the observations that are findings.

    ``torch_limit`` is torch's recompile limit. ``compile_failed`` is true if compilation raised an exception. In this
    case, no findings are created for compile errors or a missing graph. ``cudagraphs`` is true if CUDA graphs were
    requested. ``deviations`` are settings that differ from torch's defaults; if a deviation caused a finding, the
    finding mentions the deviation. If ``expects_graphs`` is false, it is not a finding that nothing was compiled:
    everything may have been compiled before the run, or every call is expected to raise an exception. If ``warm`` is
    true, every graph must come from the compile cache. ``dynamic`` tells whether all sizes are dynamic from the start.

    ``stopped_at`` is set if a first run with ``fullgraph=True`` failed, and the observations are from a second run
    without ``fullgraph=True``: it is the line at which the first run failed. It is None if this torch version captures
    the same ops with and without ``fullgraph=True``. ``stances`` are the stances of torch, other than the default,
    under which compiled functions were called.
    """

    torch_limit: int
    compile_failed: bool = False
    cudagraphs: bool = False
    deviations: Sequence[Deviation] = ()
    expects_graphs: bool = True
    warm: bool = False
    dynamic: bool = False
    stopped_at: Location | None = None
    stances: Sequence[Deviation] = ()


def judge(seen: Observation, budget: Budget, run: Conditions) -> list[Finding]:
    """Return the findings of one run."""
    findings = _graph_breaks(seen.graph_breaks, budget, run.stopped_at) + not_observable(seen.undecided)
    if len(seen.recompiles) > budget.recompiles:
        findings.append(_recompiles(seen, budget.recompiles, run.dynamic))
    # A later entry of a dictionary replaces an earlier one, so in reverse order the first fallback remains.
    first_of_each_frame = {(f.frame, f.location): f for f in reversed(seen.fallbacks)}
    for fallback in reversed(first_of_each_frame.values()):
        if fallback.why == "dispatch-mode":
            findings.append(_ran_under_mode(fallback))
        else:
            findings += caused([_fallback(fallback, fallback.limit or run.torch_limit)], run.deviations, LIMITS)
    if not run.compile_failed:
        setting = first_of(run.deviations, SWALLOWS)
        findings += [_compile_error(error, setting) for error in seen.errors]
        from_cache = seen.cache.fx_hits or seen.cache.aot_hits
        if run.expects_graphs and not (seen.graphs or from_cache or seen.errors or seen.undecided or seen.fallbacks):
            findings += caused([_nothing_compiled(seen)], run.deviations, SWITCHED_OFF)
        elif silent := [one for one in run.stances if _SILENT.search(one.value)]:
            findings += caused([_ran_silently()], silent, (STANCE,))
    findings += cache_misses(seen.cache) if run.warm else []
    return findings + (_cudagraph_skips(seen.cudagraph_skips, seen.cudagraph_runs) if run.cudagraphs else [])


def _ran_silently() -> Finding:
    message = "torch does not report whether calls ran eagerly or with another backend under its stance"
    detail = "with the stance 'fail_on_recompile', torch raises an exception where it would otherwise run eagerly"
    return Finding("not-observable", message, None, detail)


def not_observable(undecided: Sequence[str]) -> list[Finding]:
    """Return a finding if torch did not provide information that the check needs to pass."""
    if not undecided:
        return []
    message = "this check cannot pass, because torch did not provide information that the check needs"
    return [Finding("not-observable", message, None, "\n".join(undecided), advice.OTHER_TORCH)]


def _graph_breaks(breaks: Sequence[GraphBreak], budget: Budget, stopped_at: Location | None) -> list[Finding]:
    limits, findings = budget.breaks_by_package, list[Finding]()
    for name, counted in budget.exceeded(breaks).items():
        allowed, total = limits[name], len(counted)
        owner = f" in {name}" if name != "*" else " in other code" if len(limits) > 1 else ""
        for number, one in enumerate(counted, 1):
            finding = graph_break_finding(one, f"graph break {number} of {total}{owner}, {allowed} allowed", breaks)
            if stopped_at is not None and one.category in CAPTURED_BY_FULLGRAPH:
                finding = captured_by_fullgraph(finding, stopped_at, breaks)
            findings.append(replace(finding, measured=total, limit=allowed))
    return findings


def _recompiles(seen: Observation, allowed: int, dynamic: bool) -> Finding:
    recompiles = seen.recompiles
    causes = Counter(recompile.guards[0].cause for recompile in recompiles if recompile.guards)
    if _constant_sizes(recompiles, dynamic) or "constant-size" in causes:
        causes = Counter({"constant-size" if cause == "size" else cause: n for cause, n in causes.items()})
    resumed = [(one.location, one.after_break) for one in recompiles if one.after_break and one.location]
    broken = list(dict.fromkeys(replace(location, line=line).shown() for location, line in resumed))
    skipped = list(dict.fromkeys(one.skipped for one in seen.graph_breaks if one.skipped))
    hints = [advice.after_breaks(broken)] if broken else []
    hints += [advice.after_skipped(skipped)] if skipped else []
    hints += [for_guard(cause) for cause, _ in causes.most_common()]
    return Finding(
        "recompile",
        f"{count(len(recompiles), 'recompile')}, {allowed} allowed",
        recompiles[0].location,
        "\n".join(_described(recompile) for recompile in recompiles),
        "\n".join(hints),
        subject=recompiles[0].frame,
        measured=len(recompiles),
        limit=allowed,
    )


def _constant_sizes(recompiles: Sequence[Recompile], dynamic: bool) -> bool:
    """Return whether the code requires constant sizes, in which case marking dimensions as dynamic does not help.

    torch makes a dimension dynamic when its size first causes a recompile or, with dynamic=True, from the start. If the
    size of a dynamic dimension causes a recompile, the code requires a constant size.
    """
    dynamic_later = [one for one in recompiles if one.guards and not one.static_sizes]
    failed = [(one.frame, one.guards[0]) for one in dynamic_later if one.guards[0].cause == "size"]
    # With isolate_recompiles=True, a change of size causes a recompile in each compiled object, which counts once here.
    of_size = {(frame, guard.names, guard.text) for frame, guard in failed}
    changed = Counter((frame, names, text.partition(" expected ")[0]) for frame, names, text in of_size)
    return max(changed.values(), default=0) > (0 if dynamic else 1)


def _described(recompile: Recompile) -> str:
    """Return one line about a recompile: the call, the function, and the failed guards of up to three cache entries."""
    guards = []
    for guard in recompile.guards[:3]:
        # Graphs are counted from 1, so dynamo's entry ``0/1`` is the second graph.
        number = guard.entry.rsplit("/", 1)[-1]
        guards.append(f"graph {int(number) + 1} was not reused: {guard.text}" if number.isdigit() else guard.text)
    if len(recompile.guards) > 3:
        guards.append(f"and {len(recompile.guards) - 3} more")
    cause = f" ({recompile.guards[0].cause})" if recompile.guards else ""
    call = f"call {recompile.call}: " if recompile.call else ""
    after = f" after the graph break at line {recompile.after_break}" if recompile.after_break else ""
    return f"{call}{recompile.frame}{after}{cause}: {'; '.join(guards)}"


def _fallback(fallback: EagerFallback, limit: int) -> Finding:
    if fallback.why == "earlier-limit":
        hit = f"{fallback.frame} hit the recompile limit earlier"
        message = f"{hit}, and ran eagerly in this block, because a call matched no graph"
        detail, hint = "torch does not report which guards failed", advice.OBSERVE_WARM_UP
    else:
        hit = f"{fallback.frame} hit the recompile limit of {limit}"
        message = f"{hit}: from now on, calls that match no graph run eagerly"
        detail, hint = f"last failed guard: {fallback.detail}", for_guard(fallback.cause or "other")
        hint += f". Above {limit} graphs, torch falls back to eager regardless of the budget"
    calls = (fallback.call,) if fallback.call else ()
    return Finding("eager-fallback", message, fallback.location, detail, hint, calls=calls, subject=fallback.frame)


def _ran_under_mode(fallback: EagerFallback) -> Finding:
    message = f"{fallback.frame} ran eagerly, because it was called under {fallback.detail}"
    detail = "torch does not compile calls under a TorchDispatchMode"
    return Finding("eager-fallback", message, fallback.location, detail, advice.LEAVE_MODE, subject=fallback.frame)


def _compile_error(error: CompileError, setting: Deviation | None) -> Finding:
    """Return the finding for an error of the compiler. ``setting`` is the setting because of which torch swallows such
    errors.
    """
    text = " ".join((error.message.strip().splitlines() or [error.error])[:3])
    if not error.swallowed:
        evidence = text if text.startswith(error.error) else f"{error.error}: {text}"
        message = f"the compilation of {error.frame} raised {error.error}"
        return Finding("compile-error", message, error.location, evidence, advice.FIND_STAGE, subject=error.frame)
    by = f"\nthe error was swallowed because {setting}" if setting else ""
    return Finding(
        "eager-fallback",
        f"the compilation of {error.frame} failed, but the error was swallowed and the function ran eagerly",
        error.location,
        f"{error.error}: {text}{by}",
        advice.SURFACE_ERRORS,
        subject=error.frame,
    )


def _nothing_compiled(seen: Observation) -> Finding:
    message = "no graph that contains an op was compiled, but at least 1 is expected"
    hint = advice.LOOK_FOR_SWITCHES
    if seen.compiled_calls == 0:
        why = (
            "no compiled function was called in this block: torch.compile only wraps a function, and compiles it when "
            "it is first called"
        )
        hint = advice.CALL_INSIDE
    elif seen.compiled_calls and seen.compiled_before and not seen.frames:
        message += ": everything was compiled before this block"
        names = [place.shown() for place in seen.compiled_before]
        more = f", and {len(names) - 3} more" if len(names) > 3 else ""
        why = (
            f"compiled functions were called {count(seen.compiled_calls, 'time')} in this block, but nothing was "
            "compiled, because they reused code that was compiled earlier\nalready compiled: "
            f"{', '.join(names[:3])}{more}"
        )
        hint = advice.OPEN_EARLIER
    elif seen.graph_breaks:
        places = list(dict.fromkeys(f"{one.location.shown()} ({one.category})" for one in seen.graph_breaks))
        skipped = " and of ".join(dict.fromkeys(one.skipped for one in seen.graph_breaks if one.skipped))
        left = f"so all of {skipped} runs eagerly" if skipped else "and no tensor op is left to compile"
        why = f"torch breaks the graph at {', '.join(places[:3])}, {left}"
        if (first := seen.graph_breaks[0]).category == OTHER:
            why += f"\ntorch says: {explanation(first)}"
        hint = advice.REMOVE_BREAKS
    else:
        why = (
            "no graph that contains an op reached the backend: torch.compile is disabled for the code or skips it, "
            "or the code runs no tensor ops"
        )
    return Finding("nothing-compiled", message, None, why, hint)


def _cudagraph_skips(reasons: Sequence[str], runs: Sequence[CudagraphRuns]) -> list[Finding]:
    """Return one finding for skipped CUDA graphs and for runs without a CUDA graph; warm-up runs are not counted."""
    without = Counter(reason for run in runs for reason in run.without)
    if not reasons and not without:
        return []
    parts = [f"skipped {count(len(reasons), 'time')}"] if reasons else []
    if without:
        calls = [run.call for run in runs if run.without and run.call]
        where = f" ({numbered('call', calls)})" if calls else ""
        parts.append(f"not used in {count(without.total(), 'run')}{where}")
    lines = [f"{reason} (x{times})" for reason, times in (Counter(reasons) + without).items()]
    lines += [f"runs: {cudagraphs([asdict(run) for run in runs])} a CUDA graph"] if runs else []
    message = f"CUDA graphs were requested, but {' and '.join(parts)}; 0 allowed"
    total = len(reasons) + without.total()
    return [Finding("cudagraph-skip", message, None, "\n".join(lines), advice.CUDAGRAPHS, measured=total, limit=0)]
