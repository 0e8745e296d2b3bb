"""Compute statistics that Python's ``statistics`` module lacks: trimmed means, their confidence intervals, and
Student's t distribution.

The t distribution is implemented here, because scipy is a hundred times as large as this package.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, stdev

TRIMMED = 0.25


def trimmed_mean(values: Sequence[float]) -> float:
    """Return the mean of the values, excluding the highest 25% and the lowest 25%."""
    drop = int(len(values) * TRIMMED)
    return fmean(sorted(values)[drop : len(values) - drop])


def log_ratios(reference: Sequence[float], measured: Sequence[float]) -> list[float]:
    """Return ``log(measured / reference)`` for each pair of times. The log is positive if ``measured`` is larger."""
    return [math.log(m / r) for r, m in zip(reference, measured, strict=True)]


def half_width(values: Sequence[float]) -> float:
    """Return half the width of the trimmed mean's 95% confidence interval.

    The width is computed from the Winsorized variance (Tukey and McLaughlin).
    """
    count = len(values)
    drop = int(count * TRIMMED)
    kept = count - 2 * drop
    if kept < 3:
        return math.inf
    ordered = sorted(values)
    low, high = ordered[drop], ordered[count - drop - 1]
    spread = stdev(min(max(v, low), high) for v in ordered)
    error = spread / ((1 - 2 * drop / count) * math.sqrt(count))
    return t_quantile(0.975, kept - 1) * error


def t_tail(t: float, freedom: int) -> float:
    """Return the probability that Student's t with ``freedom`` degrees of freedom exceeds ``t``.

    The probability is computed as a finite sum, which exists for integer degrees of freedom (Abramowitz and Stegun,
    26.7.3 and 26.7.4), and is accurate to about 1e-15.
    """
    angle, parity = math.atan2(t, math.sqrt(freedom)), freedom % 2
    term = math.cos(angle) ** parity
    total = term if freedom > 1 else 0.0
    for k in range(parity + 2, freedom - 1, 2):
        term *= math.cos(angle) ** 2 * (k - 1) / k
        total += term
    within = math.sin(angle) * total
    if parity:
        within = (within + angle) * 2 / math.pi
    return max(0.0, (1 - within) / 2)


def t_quantile(probability: float, freedom: int) -> float:
    """Return the quantile of Student's t at ``probability``, by bisection."""
    low, high = -1e4, 1e4
    for _ in range(80):
        middle = (low + high) / 2
        if 1 - t_tail(middle, freedom) < probability:
            low = middle
        else:
            high = middle
    return (low + high) / 2
