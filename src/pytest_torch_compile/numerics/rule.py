"""The rule for one floating leaf: its constants, and the limits they give. ``docs/numerics.md`` has the reasons."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
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

# Compiled's error against fp64, in multiples of eager's own, by number of elements: few say little about eager's error.
RMS_NOISY = ((4096, 1.2), (1024, 1.4), (64, 1.8), (8, 2.5), (0, 4.0))
WORST_NOISY = 4.0
# Errors below this part of the leaf's scale cannot be seen in a half type: there the multiple may be larger.
NOISY_FROM = 3e-4
RMS_QUIET = 8.0
WORST_QUIET = 12.0

# Storing a value in its dtype costs this many eps (root mean square).
STORE_RMS_EPS = 0.25
# Eager may sum in double where a compiled reduction sums in fp32: batch statistics on the CPU.
REDUCE_RMS_EPS = 2.0

# Below this many elements, the call's usual relative error stands in where eager was lucky.
SMALL = 64

# A leaf this far below the usual scale of its kind is zero up to rounding: a gradient that cancels exactly.
ZERO_EPS = 8.0
ZERO_OWN_EPS = 2.0

# Errors that point the same way: in scale, and in the means of the channels.
SYSTEMATIC_FROM = 64
SCALE_NOISE = 8.0
SCALE_OWN = 3.0
SCALE_ROUNDING = 6e-3
CHANNEL_ROWS = 8
CHANNEL_NOISY = ((4096, 2.0), (1024, 2.5), (0, 4.0))

# Median relative error of eager from which the fp64 run did not compute the same thing.
UNRELATED = {torch.float64: 1e-6, torch.float32: 1e-2}
UNRELATED_OTHER = 0.5

# Of the largest error that eager reaches itself when its rounding is disturbed; errors that have a sign vary more.
SHAKEN = 1.1
SHAKEN_GRADIENT = 1.5
SHAKEN_GRADIENT_LARGEST = 2.0
SHAKEN_CHANNEL = 1.5
SHAKEN_SCALE = 2.0
# After this many such runs, a leaf that is so many times over its limit is given up: gates move gradients the most.
PATIENCE = 4
HOPELESS, HOPELESS_GRADIENT = 5.0, 1e5
# Of the largest distance from eager that it reaches then, where there is no reference.
SHAKEN_ALONE = 2.0

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


def floor_eps(dtype: torch.dtype) -> float:
    """The error, in eps of the dtype, that no leaf is blamed for however exact eager was."""
    return REDUCE_RMS_EPS if real_dtype(dtype) is torch.float32 else STORE_RMS_EPS


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
    own = _own_error(found, dtype, level)
    # What a normal distribution of these errors would reach, where eager was lucky in its worst element.
    own_worst = max(found.max_eager, own * math.sqrt(2 * math.log(2 * found.count + 1)))
    noisy = by_count(RMS_NOISY, found.count)
    visible = NOISY_FROM * (level.scale if _cancels(found, dtype, level) else found.rms_reference)
    measures = [
        Measured("error", found.rms_compiled, _limit(own, visible, RMS_QUIET, noisy)),
        Measured("largest error", found.max_compiled, _limit(own_worst, visible, WORST_QUIET, WORST_NOISY)),
    ]
    if found.count >= SYSTEMATIC_FROM and own > NOISY_FROM * found.rms_reference:
        measures += _systematic(found, own)
    return measures


def widened(measures: Sequence[Measured], shaken: Sequence[Errors], *, gradient: bool = False) -> list[Measured]:
    """The measures, with limits that let pass what runs of eager with other rounding reach too."""
    multiple, largest = (SHAKEN_GRADIENT, SHAKEN_GRADIENT_LARGEST) if gradient else (SHAKEN, SHAKEN)
    reached = {
        "error": multiple * max(run.rms_eager for run in shaken),
        "largest error": largest * max(run.max_eager for run in shaken),
        "error in scale": SHAKEN_SCALE * max(abs(run.slope_eager) for run in shaken),
        "error of the channels' means": SHAKEN_CHANNEL * max(run.channel_eager for run in shaken),
    }
    return [Measured(m.name, m.error, max(m.limit, reached[m.name])) for m in measures]


def widened_alone(shaken: Sequence[Errors]) -> list[Measured]:
    """The same where there is no reference: compiled's distance from eager, within that of such runs."""
    limit = SHAKEN_ALONE * max(run.rms_eager for run in shaken)
    largest = SHAKEN_ALONE * max(run.max_eager for run in shaken)
    found = shaken[0]
    return [Measured("error", found.rms_compiled, limit), Measured("largest error", found.max_compiled, largest)]


def _own_error(found: Errors, dtype: torch.dtype, level: Level) -> float:
    """Eager's error, not below what rounding costs anyway."""
    own = max(found.rms_eager, floor_eps(dtype) * eps(dtype) * found.rms_reference)
    if found.count < SMALL:
        own = max(own, level.relative * found.rms_reference)
    return max(own, ZERO_OWN_EPS * eps(dtype) * level.scale) if _cancels(found, dtype, level) else own


def _cancels(found: Errors, dtype: torch.dtype, level: Level) -> bool:
    """Whether a leaf is zero up to rounding, so that it has no scale of its own."""
    return found.rms_reference <= ZERO_EPS * eps(dtype) * level.scale


def _systematic(found: Errors, own: float) -> list[Measured]:
    measures = []
    if found.rms_reference > 0:
        # Rounding does not average out where one large element among small ones makes the slope.
        noise = SCALE_NOISE * own / found.rms_reference / math.sqrt(found.carrying)
        limit = max(SCALE_OWN * abs(found.slope_eager), noise, SCALE_ROUNDING)
        measures.append(Measured("error in scale", abs(found.slope_compiled), limit))
    if found.rows >= CHANNEL_ROWS:
        own_channel = max(found.channel_eager, own / math.sqrt(found.rows))
        limit = by_count(CHANNEL_NOISY, found.count) * own_channel
        measures.append(Measured("error of the channels' means", found.channel_compiled, limit))
    return measures


def by_count(table: Sequence[tuple[int, float]], count: int) -> float:
    """The entry for a number of elements."""
    return next(multiple for least, multiple in table if count >= least)


def _limit(own: float, visible: float, quiet: float, noisy: float) -> float:
    """``quiet`` times a small error, ``noisy`` times one that is visible, and no jump in between."""
    return max(noisy * own, min(quiet * own, visible))


def _median(values: Iterable[float]) -> float:
    ordered = sorted(values)
    return ordered[len(ordered) // 2] if ordered else 0.0
