"""The statistics of the speed gate. Plain Python: neither torch nor pytest."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, median, stdev


def quantile(values: Sequence[float], fraction: float) -> float:
    """The value below which ``fraction`` of ``values`` lie, interpolated between neighbours."""
    ordered = sorted(values)
    if not ordered:
        raise ValueError("no values")
    position = fraction * (len(ordered) - 1)
    low = math.floor(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


def trimmed_mean(values: Sequence[float], cut: float = 0.25) -> float:
    """The mean of what is left after ``cut`` of the values is dropped at each end."""
    ordered = sorted(values)
    drop = int(len(ordered) * cut)
    return fmean(ordered[drop : len(ordered) - drop])


def log_ratios(reference: Sequence[float], measured: Sequence[float]) -> list[float]:
    """``log(measured / reference)`` of each pair; above zero the measured leg is slower."""
    return [math.log(m / r) for r, m in zip(reference, measured, strict=True)]


def half_width(values: Sequence[float], cut: float = 0.25) -> float:
    """Half the 95 % interval of the trimmed mean, from the Winsorized variance (Tukey and McLaughlin)."""
    count = len(values)
    drop = int(count * cut)
    kept = count - 2 * drop
    if kept < 3:
        return math.inf
    ordered = sorted(values)
    low, high = ordered[drop], ordered[count - drop - 1]
    spread = stdev(min(max(v, low), high) for v in ordered)
    error = spread / ((1 - 2 * drop / count) * math.sqrt(count))
    return t_quantile(0.975, kept - 1) * error


def t_tail(t: float, freedom: float) -> float:
    """The probability that Student's t with ``freedom`` degrees of freedom is over ``t``."""
    if math.isinf(freedom):
        return 0.5 * math.erfc(t / math.sqrt(2))
    tail = 0.5 * _incomplete_beta(freedom / (freedom + t * t), freedom / 2, 0.5)
    return tail if t >= 0 else 1 - tail


def t_quantile(probability: float, freedom: float) -> float:
    """The t below which ``probability`` lies, by bisection."""
    low, high = -1e4, 1e4
    for _ in range(80):
        middle = (low + high) / 2
        if 1 - t_tail(middle, freedom) < probability:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _incomplete_beta(x: float, a: float, b: float) -> float:
    """The regularized incomplete beta function, by its continued fraction (Lentz)."""
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    if x > (a + 1) / (a + b + 2):
        return 1 - _incomplete_beta(1 - x, b, a)
    log_front = a * math.log(x) + b * math.log1p(-x) + math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    return math.exp(log_front) / a * _beta_fraction(x, a, b)


def _beta_fraction(x: float, a: float, b: float) -> float:
    tiny = 1e-300
    c, d = 1.0, 1 / (_away_from_zero(1 - (a + b) * x / (a + 1), tiny))
    result = d
    for step in range(1, 300):
        even = step * (b - step) * x / ((a + 2 * step - 1) * (a + 2 * step))
        odd = -(a + step) * (a + b + step) * x / ((a + 2 * step) * (a + 2 * step + 1))
        for term in (even, odd):
            d = 1 / _away_from_zero(1 + term * d, tiny)
            c = _away_from_zero(1 + term / c, tiny)
            result *= c * d
        if abs(c * d - 1) < 1e-14:
            break
    return result


def _away_from_zero(value: float, tiny: float) -> float:
    return value if abs(value) > tiny else tiny


__all__ = ["fmean", "median", "stdev"]
