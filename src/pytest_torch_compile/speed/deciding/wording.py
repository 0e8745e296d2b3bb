"""Create the text that describes the results of speed tests. This module imports neither torch nor pytest."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean

from ...findings import CompileCheckFailed, Finding
from ...report.safe_text import shell
from ..sample import Run, SpeedSample
from .confirmation import Decision
from .origin import side_of, split_wall
from .stored_runs import StoredTest
from .times import METRICS, Change


def _seconds(value: float) -> str:
    return f"{value * 1e6:.1f} us" if value < 1e-3 else f"{value * 1e3:.2f} ms" if value < 1 else f"{value:.2f} s"


def headline(change: Change) -> str:
    """Return one line with the size and the confidence interval of a change."""
    against = f" relative to eager's {METRICS[change.against][0]}" if change.against in METRICS else ""
    size = f"{abs(100 * math.expm1(change.effect)):.1f}% {'longer' if change.effect > 0 else 'shorter'}"
    low, high = sorted((100 * math.expm1(change.low), 100 * math.expm1(change.high)))
    count = f"{change.compilations} more compilation{'s' if change.compilations > 1 else ''}"
    interval = f"95% confidence interval {low:+.1f} to {high:+.1f}% over {count}"
    return f"{METRICS[change.metric][0]}{against} is {size} than in the baseline ({interval})"


def interval(change: Change) -> str:
    """Return the size and the confidence interval of a change, short enough for a table."""
    low, high = (100 * math.expm1(bound) for bound in (change.low, change.high))
    return f"{METRICS[change.metric][0]} {percent(change.effect)} ({low:+.1f} to {high:+.1f}%)"


def where(decision: Decision, stored: Sequence[Run]) -> str:
    """Return a line that reports whether the kernels, the host or both caused a regression, and how much the kernels
    and the host contributed to a change in wall time. Return an empty string if the contributions are unknown.
    """
    split = split_wall(decision.times, stored, [sample.run() for sample in decision.samples])
    side = side_of(decision.times, split)
    if split is None or side is None:
        return ""
    if all(change.metric != "wall" for change in decision.times.changed("regressed")):
        return f"where: {side} (device time regressed, wall time did not)"
    parts = f"kernels {percent(split.kernels)}, host {percent(split.host)}"
    return f"where: {side} (wall time {percent(split.wall)}: {parts})"


def table(stored: Sequence[Run], samples: Sequence[SpeedSample]) -> str:
    """Return a table of the eager and compiled times and of the speedup, in the baseline and now."""
    lines = [f"{'':22}{'baseline':>12}{'now':>12}{'change':>10}"]
    new = [sample.run() for sample in samples]
    for name in ("wall", "host", "device"):
        for leg in ("eager", "compiled"):
            known = [[getattr(getattr(run, name), leg) for run in runs if getattr(run, name)] for runs in (stored, new)]
            if all(known):
                before, now = map(fmean, known)
                change = percent(math.log(now / before))
                lines.append(f"{f'{leg} {name} time':22}{_seconds(before):>12}{_seconds(now):>12}{change:>10}")
    if stored:
        before, now = (math.exp(-fmean(run.wall.log_ratio for run in runs)) for runs in (stored, new))
        lines.append(f"{'speedup':22}{before:>11.2f}x{now:>11.2f}x{percent(math.log(now / before)):>10}")
    return "\n".join(lines)


def explain(test: str, decision: Decision, stored: StoredTest) -> str:
    """Return the message of a failure: the regressions, the times, the side (kernels or host) that caused the
    regressions, and the command that updates the baseline.
    """
    lines = [str(difference) for difference in decision.worse]
    if any(difference.quantity.name == "graph_breaks" for difference in decision.worse):
        lines += [f"    {place}" for place in decision.samples[0].breaks]
    lines += [headline(change) for change in decision.times.changed("regressed")]
    if decision.worse and any(change.effect > 0 for change in decision.times.undecided):
        lines.append("the times also seem to have changed; run with --compile-perf=track to confirm this")
    parts = [*lines, "", table(stored.runs, decision.samples)] if stored.runs else lines
    if place := where(decision, stored.runs):
        parts += ["", place]
    parts += ["", f"If this is intended, run: pytest {shell(test)} --compile-perf=track --compile-update-baselines"]
    return "\n".join(parts)


def failure(test: str, decision: Decision, stored: StoredTest) -> CompileCheckFailed:
    """Return the exception that fails a test, with one finding for each regression of a count or a time."""
    findings = [
        Finding(
            difference.quantity.kind,
            str(difference),
            subject=difference.quantity.name,
            measured=difference.after,
            limit=difference.before,
        )
        for difference in decision.worse
    ]
    evidence, hint = table(stored.runs, decision.samples), where(decision, stored.runs)
    findings += [
        Finding(METRICS[change.metric][1], headline(change), evidence=evidence, hint=hint)
        for change in decision.times.changed("regressed")
    ]
    return CompileCheckFailed(explain(test, decision, stored), None, findings)


def summary(decision: Decision) -> str:
    """Return the changes or, if nothing changed, the reason for the outcome, short enough for a table."""
    outcome = decision.times.outcome
    words = [str(difference) for difference in decision.differences]
    only = "not confirmed" if decision.unconfirmed else "in one compilation only"
    words += [f"{difference} {only}" for difference in decision.varying]
    if outcome in ("regressed", "improved"):
        changes = decision.times.changed(outcome)
        words += [f"{METRICS[change.metric][0]} {percent(change.effect)}" for change in changes]
    if not words:
        return decision.times.reason
    return ", ".join(filter(None, [*words, decision.unconfirmed]))


def percent(log_ratio: float) -> str:
    """Format a log ratio as a signed percentage."""
    return f"{round(100 * math.expm1(log_ratio), 1) + 0.0:+.1f}%"
