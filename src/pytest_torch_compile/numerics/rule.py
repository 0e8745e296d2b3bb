"""The rule for one floating leaf: all its constants, and the limits they give. ``docs/numerics.md`` has the reasons."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import median_high
from typing import Literal

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

# Below this many elements, the call's usual relative error counts where eager was lucky.
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
# The means of fewer channels say little: over the 3 of an image, an honest bf16 run was twice as far off as eager.
FEWEST_CHANNELS = 16
CHANNEL_NOISY = ((4096, 2.0), (1024, 2.5), (0, 4.0))

# Median relative error of eager from which the fp64 run did not compute the same thing.
UNRELATED = {torch.float64: 1e-6, torch.float32: 1e-2}
UNRELATED_OTHER = 0.5

# Of the largest error that eager reaches itself with perturbed rounding; errors that have a sign vary more.
PERTURBED = 1.1
PERTURBED_GRADIENT = 1.5
PERTURBED_GRADIENT_LARGEST = 2.0
PERTURBED_CHANNEL = 1.5
PERTURBED_SCALE = 2.0
# After this many such runs, a leaf that is so many times over its limit is given up: gates move gradients the most.
PATIENCE = 4
HOPELESS, HOPELESS_GRADIENT = 5.0, 1e5
# Of the largest distance between eager and such runs, where there is no reference.
PERTURBED_ALONE = 2.0

# Of the distance between two eager runs, where eager differs from itself.
SPREAD = 4.0
# Two eager runs this far apart, in root mean squares of the leaf, are two draws of something: uninitialised memory.
MEANINGLESS = 0.5

Measure = Literal[
    "error", "largest error", "error in scale", "error of the channels' means", "NaN or infinity", "wrong elements"
]


@dataclass(frozen=True)
class Measured:
    """One of the rule's measures of a leaf: passes if ``error`` is within ``limit``."""

    name: Measure
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
        """From the leaves that were measured against the reference; small ones only where there are no others."""
        usable = [e for e in measured if e.count and e.rms_reference > 0]
        usable = [e for e in usable if e.count >= SMALL] or usable
        if not usable:
            return cls()
        return cls(
            median_high(e.rms_eager / e.rms_reference for e in usable), median_high(e.rms_reference for e in usable)
        )

    def is_unrelated(self, dtype: torch.dtype) -> bool:
        """Whether the reference computed something else, for example with other random numbers."""
        return self.relative > UNRELATED.get(real_dtype(dtype), UNRELATED_OTHER)


def against_reference(errors: Errors, dtype: torch.dtype, level: Level) -> list[Measured]:
    """The measures of a leaf against fp64, each with its limit."""
    scale, step = errors.rms_reference, eps(dtype)
    # A leaf that is zero up to rounding has no scale of its own.
    cancels = scale <= ZERO_EPS * step * level.scale
    # Eager's error, not below what rounding costs anyway.
    own = max(errors.rms_eager, floor_eps(dtype) * step * scale)
    if errors.count < SMALL:
        own = max(own, level.relative * scale)
    if cancels:
        own = max(own, ZERO_OWN_EPS * step * level.scale)
    # What a normal distribution of these errors would reach, where eager was lucky in its worst element.
    own_worst = max(errors.max_eager, own * math.sqrt(2 * math.log(2 * errors.count + 1)))
    visible = NOISY_FROM * (level.scale if cancels else scale)
    noisy = by_count(RMS_NOISY, errors.count)
    measures = [
        Measured("error", errors.rms_compiled, _limit(own, visible, RMS_QUIET, noisy)),
        Measured("largest error", errors.max_compiled, _limit(own_worst, visible, WORST_QUIET, WORST_NOISY)),
    ]
    if errors.count < SYSTEMATIC_FROM or own <= NOISY_FROM * scale:
        return measures
    if scale > 0:
        # Rounding does not average out where one large element among small ones makes the slope.
        noise = SCALE_NOISE * own / scale / math.sqrt(errors.carrying)
        limit = max(SCALE_OWN * abs(errors.slope_eager), noise, SCALE_ROUNDING)
        measures.append(Measured("error in scale", abs(errors.slope_compiled), limit))
    if errors.rows >= CHANNEL_ROWS and errors.channels >= FEWEST_CHANNELS:
        own_channel = max(errors.channel_eager, own / math.sqrt(errors.rows))
        limit = by_count(CHANNEL_NOISY, errors.count) * own_channel
        measures.append(Measured("error of the channels' means", errors.channel_compiled, limit))
    return measures


def widened(measures: Sequence[Measured], perturbed: Sequence[Errors], *, gradient: bool = False) -> list[Measured]:
    """The measures, with limits that let pass what eager runs with perturbed rounding reach too."""
    multiple, largest = (PERTURBED_GRADIENT, PERTURBED_GRADIENT_LARGEST) if gradient else (PERTURBED, PERTURBED)
    reached: dict[str, float] = {
        "error": multiple * max(run.rms_eager for run in perturbed),
        "largest error": largest * max(run.max_eager for run in perturbed),
        "error in scale": PERTURBED_SCALE * max(abs(run.slope_eager) for run in perturbed),
        "error of the channels' means": PERTURBED_CHANNEL * max(run.channel_eager for run in perturbed),
    }
    return [replace(measured, limit=max(measured.limit, reached[measured.name])) for measured in measures]


def widened_alone(perturbed: Sequence[Errors]) -> list[Measured]:
    """The same where there is no reference: compiled's distance from eager, within that of such runs."""
    limit = PERTURBED_ALONE * max(run.rms_eager for run in perturbed)
    largest = PERTURBED_ALONE * max(run.max_eager for run in perturbed)
    distance = perturbed[0]
    return [Measured("error", distance.rms_compiled, limit), Measured("largest error", distance.max_compiled, largest)]


def by_count(table: Sequence[tuple[int, float]], count: int) -> float:
    """The entry for a number of elements."""
    return next(multiple for least, multiple in table if count >= least)


def _limit(own: float, visible: float, quiet: float, noisy: float) -> float:
    """``quiet`` times a small error, ``noisy`` times one that is visible, and no jump in between."""
    return max(noisy * own, min(quiet * own, visible))
