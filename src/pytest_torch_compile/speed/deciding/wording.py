"""What a verdict says to a person. Plain text: neither torch nor pytest."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean

from ..sample import Figures, name_in
from .origin import side_of, split_wall
from .scatter import METRICS
from .verdict import MetricChange, Verdict


def _seconds(value: float) -> str:
    return f"{value * 1e6:.1f} us" if value < 1e-3 else f"{value * 1e3:.2f} ms" if value < 1 else f"{value:.2f} s"


def _bytes(value: float) -> str:
    return f"{value / 2**20:.1f} MiB"


ROWS = (
    ("wall", "wall time", _seconds),
    ("host", "host time", _seconds),
    ("device", "device time", _seconds),
    ("memory", "peak memory", _bytes),
    ("kernels", "kernels", "{:.0f}".format),
    ("python-calls", "Python calls", "{:.0f}".format),
)


def headline(change: MetricChange) -> str:
    """One line: what changed, by how much, and what would have been allowed."""
    metric = METRICS[change.metric]
    larger = "higher" if metric.kind != "slowdown" else "slower"
    smaller = "lower" if metric.kind != "slowdown" else "faster"
    against = "" if metric.kind == "compile-time" or not change.control else " against eager"
    size = f"{abs(change.percent):.1f} % {larger if change.effect > 0 else smaller}"
    # What does more work has to be rare only (see counts.py), so its p may be over the level of the suite.
    allowed = f"allowed {100 * math.expm1(change.floor):.1f} %{' where more work is counted' if change.note else ''}"
    p = f"p = {change.p_value:.1g}" if change.p_value > 1e-12 else "p < 1e-12"
    return f"{metric.title}{against} is {size} than its baseline ({allowed}, {p}, confirmed in fresh processes)"


def where(verdict: Verdict, stored: Sequence[Figures], new: Sequence[Figures]) -> str:
    """Whether a regression came from the kernels or the host, and how one of wall time splits into the two."""
    split = split_wall(stored, new)
    side = side_of(verdict, split)
    if split is None or side is None:
        return ""
    if all(change.metric != "wall" for change in verdict.changed("regressed")):
        return f"where: {side} (wall time did not regress)"
    parts = f"kernels {percent(split.kernels)}, host {percent(split.host)}"
    return f"where: {side} (of {percent(split.wall)} wall time, {parts})"


def table(stored: Sequence[Figures], new: Sequence[Figures]) -> str:
    """Both legs of every quantity, before and now, so that a faster eager shows as what it is."""
    lines = [f"{'':22}{'baseline':>12}{'now':>12}{'change':>10}"]
    for quantity, title, show in ROWS:
        name = name_in(new[0], quantity)
        known = [[run[name] for run in runs if name in run] for runs in (stored, new)]
        if all(known):
            for leg, index in (("eager", 0), ("compiled", 1)):
                before, now = (fmean(pair[index] for pair in pairs) for pairs in known)
                change = percent(math.log(now / before))
                lines.append(f"{leg + ' ' + title:22}{show(before):>12}{show(now):>12}{change:>10}")
    before, now = (math.exp(-fmean(run["wall"][2] for run in runs)) for runs in (stored, new))
    lines.append(f"{'speedup':22}{before:>11.2f}x{now:>11.2f}x{percent(math.log(now / before)):>10}")
    return "\n".join(lines)


def explain(test: str, verdict: Verdict, stored: Sequence[Figures], new: Sequence[Figures]) -> str:
    """The whole text of a regression: what, both legs, where, and what to do."""
    what = [line for change in verdict.changed("regressed") for line in (headline(change), change.note) if line]
    parts = [*what, "", table(stored, new)]
    if place := where(verdict, stored, new):
        parts += ["", place]
    return "\n".join([*parts, "", f"If this is meant: pytest '{test}' --compile-perf=track --compile-update-baselines"])


def summary(verdict: Verdict) -> str:
    """A few words for a table: the changes over their floors, or the reason."""
    if verdict.outcome in ("regressed", "improved"):
        return ", ".join(f"{METRICS[c.metric].title} {percent(c.effect)}" for c in verdict.changed(verdict.outcome))
    return verdict.reason


def percent(log_ratio: float) -> str:
    """A log ratio as a signed percentage."""
    return f"{round(100 * math.expm1(log_ratio), 1) + 0.0:+.1f} %"
