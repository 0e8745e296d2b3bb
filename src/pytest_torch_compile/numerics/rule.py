"""The rule for one floating leaf: its constants, and the limits they give. ``docs/numerics.md`` has the reasons."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch

from .measure import Errors, real_dtype
from .tolerances import Tolerance

# Passed without asking fp64: so close that only the order of additions can differ. Half types always ask.
NEAR_EPS = 4.0
NEAR_FLOAT64 = 1e-9

# No reference could run: relative to the element and to the leaf's own root mean square.
ALONE = {torch.float64: 1e-7, torch.float32: 1e-4, torch.float16: 5e-3, torch.bfloat16: 2e-2}
ALONE_OTHER = 0.25

# Compiled's error against fp64, in multiples of eager's own.
RMS_QUIET = 10.0
RMS_NOISY = 2.0
WORST_QUIET = 12.0
WORST_NOISY = 4.0
NOISY_FROM = 3e-4

# Storing a value in its dtype costs this many eps (root mean square) and this many at most.
STORE_RMS_EPS = 0.25
STORE_MAX_EPS = 0.5
FLOOR_EPS = 4.0

# Few elements say little about eager's error: the call's usual relative error stands in.
SMALL = 64
SMALL_FACTOR = 3.0

# Errors that all point the same way.
SYSTEMATIC_FROM = 256
SYSTEMATIC_OWN = 3.0
SYSTEMATIC_NOISE = 12.0

# Median relative error of eager from which the fp64 run did not compute the same thing.
UNRELATED = {torch.float64: 1e-6, torch.float32: 1e-2}
UNRELATED_OTHER = 0.5

SPREAD = 4.0
# Two eager runs this far apart, in root mean squares of the leaf, are two draws of something: uninitialised memory.
MEANINGLESS = 0.5


@dataclass(frozen=True)
class Measured:
    """One of the rule's measures of a leaf: passes if ``error`` is within ``limit``."""

    name: str
    error: float
    limit: float

    @property
    def ratio(self) -> float:
        """Measured error over limit; infinite where nothing is allowed."""
        if self.error == 0:
            return 0.0
        return self.error / self.limit if self.limit > 0 else math.inf


def eps(dtype: torch.dtype) -> float:
    """The distance from 1 to the next number."""
    return float(torch.finfo(real_dtype(dtype)).eps)


def near(dtype: torch.dtype, scale: float) -> Tolerance:
    """The tolerance that needs no reference."""
    dtype = real_dtype(dtype)
    if dtype is torch.float64:
        return Tolerance(NEAR_FLOAT64, NEAR_FLOAT64 * scale)
    relative = NEAR_EPS * eps(dtype) if dtype is torch.float32 else 0.0
    return Tolerance(relative, relative * scale)


def alone(dtype: torch.dtype, scale: float) -> Tolerance:
    """The tolerance where there is no usable reference."""
    relative = ALONE.get(real_dtype(dtype), ALONE_OTHER)
    return Tolerance(relative, relative * scale)


@dataclass(frozen=True)
class Level:
    """How wrong eager usually is in this call: the median of its relative errors, per kind of leaf."""

    relative: float = 0.0
    scale: float = 0.0

    @classmethod
    def of(cls, measured: Iterable[Errors]) -> Level:
        """From the leaves that were measured against the reference."""
        usable = [e for e in measured if e.count and e.rms_reference > 0]
        large = [e for e in usable if e.count >= SMALL] or usable
        if not large:
            return cls()
        return cls(
            _median(e.rms_eager / e.rms_reference for e in large),
            _median(e.rms_reference for e in large),
        )

    def is_unrelated(self, dtype: torch.dtype) -> bool:
        """Whether the reference computed something else, for example with other random numbers."""
        return self.relative > UNRELATED.get(real_dtype(dtype), UNRELATED_OTHER)


def against_reference(found: Errors, dtype: torch.dtype, level: Level) -> list[Measured]:
    """The measures of a leaf against fp64, each with its limit."""
    step = eps(dtype)
    own = max(found.rms_eager, STORE_RMS_EPS * step * found.rms_reference)
    if found.count < SMALL:
        own = max(own, SMALL_FACTOR * level.relative * found.rms_reference)
    rms_limit = _multiple(own, found, RMS_QUIET, RMS_NOISY)
    # What a normal distribution of these errors would reach, where eager was lucky in its worst element.
    usual_worst = own * math.sqrt(2 * math.log(2 * found.count + 1))
    own_worst = max(found.max_eager, usual_worst)
    worst_limit = _multiple(own_worst, found, WORST_QUIET, WORST_NOISY)
    measures = [
        Measured("error", found.rms_compiled, rms_limit),
        Measured("largest error", found.max_compiled, worst_limit),
    ]
    if found.count >= SYSTEMATIC_FROM and found.rms_reference > 0 and own > NOISY_FROM * found.rms_reference:
        noise = SYSTEMATIC_NOISE * own / found.rms_reference / math.sqrt(found.count)
        limit = SYSTEMATIC_OWN * abs(found.slope_eager) + noise
        measures.append(Measured("error in scale", abs(found.slope_compiled), limit))
        noise = SYSTEMATIC_NOISE * own / math.sqrt(found.count)
        limit = SYSTEMATIC_OWN * abs(found.mean_eager) + noise
        measures.append(Measured("error of the mean", abs(found.mean_compiled), limit))
    return measures


def _multiple(own: float, found: Errors, quiet: float, noisy: float) -> float:
    """``quiet`` times a small error, ``noisy`` times one that is visible, and no jump in between."""
    visible = NOISY_FROM * found.rms_reference
    return min(quiet * own, max(noisy * own, visible))


def _median(values: Iterable[float]) -> float:
    ordered = sorted(values)
    return ordered[len(ordered) // 2] if ordered else 0.0
