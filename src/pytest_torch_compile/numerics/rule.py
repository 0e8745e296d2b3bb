"""The rule that decides whether one floating-point tensor is correct, with its constants and limits.
``docs/numerics.md`` explains the rule.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from statistics import median_high

import torch

from .measure import Errors, Measured, real_dtype
from .tolerances import Tolerance

# Relative differences up to these values (in multiples of eps for float32) pass without an fp64 run, because the order
# of additions alone can explain them. In a 16-bit dtype, every difference requires an fp64 run.
NEAR_EPS = 4.0
NEAR_FLOAT64 = 1e-9

# Tolerances used if there is no reference, relative to the element and to the tensor's root mean square.
ALONE = {torch.float64: 1e-7, torch.float32: 1e-4, torch.float16: 5e-3, torch.bfloat16: 2e-2}
ALONE_OTHER = 0.25

# Limits on errors against fp64, as multiples of eager's error, if the errors are large. The multiple for the root mean
# square depends on the number of elements, because an estimate from few elements is poor.
RMS_NOISY = ((4096, 1.2), (1024, 1.4), (64, 1.8), (8, 2.5), (0, 4.0))
WORST_NOISY = 4.0
# Errors smaller than this fraction of the tensor's root mean square are smaller than the rounding errors of a 16-bit
# dtype. For these small errors, the QUIET multiples apply, which are larger.
NOISY_FROM = 3e-4
RMS_QUIET = 8.0
WORST_QUIET = 12.0

# The root mean square of the rounding error when a value is stored in its dtype, in multiples of eps.
STORE_RMS_EPS = 0.25
# The multiple that is used instead for float32. It is larger, because eager may sum in double precision where compiled
# code sums in float32, for example in batch statistics on a CPU.
FLOAT32_RMS_EPS = 2.0

# Numbers below the smallest normal number have an absolute rounding error. Limits assume an error in eager of at least
# this many multiples of the smallest subnormal number. This matters for float16: gradients of a loss that is not scaled
# can be so small that eager happens to round them to zero.
SUBNORMAL_OWN = 2.0

# In a tensor with fewer elements than this, eager's relative error may be small by chance. Therefore, the limit is
# based on at least the median relative error of the tensor's section (such as the outputs or the gradients).
SMALL = 64

# A tensor counts as zero up to rounding if its root mean square is at most ``ZERO_EPS * eps`` times the median root
# mean square in its section. An example is a gradient whose terms cancel. The limits for this tensor assume an error in
# eager of at least ``ZERO_OWN_EPS * eps`` times this median.
ZERO_EPS = 8.0
ZERO_OWN_EPS = 2.0

# Limits on systematic errors: the error in scale and the errors of the channel means. These errors are judged only in
# tensors with at least ``SYSTEMATIC_FROM`` elements.
SYSTEMATIC_FROM = 64
SCALE_NOISE = 8.0
SCALE_OWN = 3.0
SCALE_ROUNDING = 6e-3
CHANNEL_ROWS = 8
# With fewer channels than this, the channel means are not judged, because their errors vary too much: with 3 channels,
# the error of a correct bf16 run was twice eager's error.
FEWEST_CHANNELS = 16
CHANNEL_NOISY = ((4096, 2.0), (1024, 2.5), (0, 4.0))

# If eager's median relative error is larger than this, the fp64 run did not compute the same function.
UNRELATED = {torch.float64: 1e-6, torch.float32: 1e-2}
UNRELATED_OTHER = 0.5

# If the error of an output that passes, relative to the root mean square of the reference, is larger than this, the
# report mentions it: the code amplifies rounding errors, so that a defect of the same size would pass too.
MENTIONED = {torch.float64: 1e-2, torch.float32: 1e-2}
MENTIONED_OTHER = 0.1

# Limits as multiples of the largest error in eager runs with perturbed rounding (``RUNS`` in ``legs/extra_legs.py`` is
# the number of runs). The multiples are larger for signed errors, which vary more.
PERTURBED = 1.1
PERTURBED_GRADIENT = 1.5
PERTURBED_GRADIENT_LARGEST = 2.0
PERTURBED_CHANNEL = 1.5
PERTURBED_SCALE = 2.0
# After ``PATIENCE`` runs with perturbed rounding, a tensor that exceeds its limit by the factor ``HOPELESS`` counts as
# failed. The factor is larger for gradients, which are most affected by gates such as ReLU.
PATIENCE = 4
HOPELESS, HOPELESS_GRADIENT = 5.0, 1e5
# A float16 number larger than this fraction of the largest one may be infinite in another run.
CLOSE_TO_OVERFLOW = 0.5
# Limit as a multiple of the largest difference between eager and a run with perturbed rounding; used if there is no
# reference.
PERTURBED_ALONE = 2.0

# Limit as a multiple of the difference between two eager runs; used if these runs differ.
SPREAD = 4.0
# If the difference between two eager runs, relative to the tensor's root mean square, is larger than this, the tensor
# is not compared (its values may be uninitialized memory, for example).
MEANINGLESS = 0.5


def eps(dtype: torch.dtype) -> float:
    """Return the machine epsilon of a dtype."""
    return float(torch.finfo(real_dtype(dtype)).eps)


def floor_eps(dtype: torch.dtype) -> float:
    """Return the smallest eager error on which a limit can be based, in multiples of the dtype's epsilon. If eager is
    more accurate, the limit is still based on this error.
    """
    return FLOAT32_RMS_EPS if real_dtype(dtype) is torch.float32 else STORE_RMS_EPS


def near(dtype: torch.dtype, scale: float) -> Tolerance:
    """Return the tolerance within which a compiled result passes without an fp64 run. ``scale`` is the root mean square
    of the eager result.
    """
    dtype = real_dtype(dtype)
    if dtype is torch.float64:
        return Tolerance(NEAR_FLOAT64, NEAR_FLOAT64 * scale)
    relative = NEAR_EPS * eps(dtype) if dtype is torch.float32 else 0.0
    return Tolerance(relative, relative * scale)


def alone(dtype: torch.dtype, scale: float) -> Tolerance:
    """Return the tolerance that applies if there is no usable reference. ``scale`` is the root mean square of the eager
    result.
    """
    relative = ALONE.get(real_dtype(dtype), ALONE_OTHER)
    return Tolerance(relative, relative * scale)


@dataclass(frozen=True)
class Level:
    """Typical values for the tensors in one section of a call record, such as the outputs or the gradients.

    ``relative`` is the median of eager's relative errors, and ``scale`` is the median of the root mean squares.
    """

    relative: float = 0.0
    scale: float = 0.0

    @classmethod
    def of(cls, measured: Collection[Errors]) -> Level:
        """Compute the medians over the tensors that were measured against the reference. Tensors with fewer than
        ``SMALL`` elements are used only if there are no larger tensors.
        """
        usable = [e for e in measured if e.count and e.rms_reference > 0]
        usable = [e for e in usable if e.count >= SMALL] or usable
        if not usable:  # the reference is zero everywhere, but eager may not be
            return cls(1.0 if any(e.count and e.rms_eager > 0 for e in measured) else 0.0)
        return cls(
            median_high(e.rms_eager / e.rms_reference for e in usable), median_high(e.rms_reference for e in usable)
        )

    def is_unrelated(self, dtype: torch.dtype) -> bool:
        """Return whether the reference cannot be compared with eager, for example because its random numbers differ."""
        return self.relative > UNRELATED.get(real_dtype(dtype), UNRELATED_OTHER)


def mentioned(errors: Errors, dtype: torch.dtype) -> float:
    """Return the relative error of the compiled run if the report mentions an error of this size, else 0."""
    relative = errors.rms_compiled / errors.rms_reference if errors.rms_reference else 0.0
    return relative if relative > MENTIONED.get(real_dtype(dtype), MENTIONED_OTHER) else 0.0


def against_reference(errors: Errors, dtype: torch.dtype, level: Level) -> list[Measured]:
    """Return a tensor's errors against fp64, each with its limit."""
    scale, step = errors.rms_reference, eps(dtype)
    # A tensor that is zero up to rounding has no meaningful scale.
    cancels = scale <= ZERO_EPS * step * level.scale
    # Eager's error, but at least the rounding error of the dtype.
    smallest = step * float(torch.finfo(real_dtype(dtype)).tiny)
    own = max(errors.rms_eager, floor_eps(dtype) * step * scale, SUBNORMAL_OWN * smallest)
    if errors.count < SMALL:
        own = max(own, level.relative * scale)
    if cancels:
        own = max(own, ZERO_OWN_EPS * step * level.scale)
    # Eager's largest error, but at least the expected maximum of ``count`` normally distributed errors.
    own_worst = max(errors.max_eager, own * math.sqrt(2 * math.log(2 * errors.count + 1)))
    visible = NOISY_FROM * (level.scale if cancels else scale)
    noisy = by_count(RMS_NOISY, errors.count)
    measures = [
        Measured("error", errors.rms_compiled, _limit(own, visible, RMS_QUIET, noisy)),
        Measured("largest error", errors.max_compiled, _limit(own_worst, visible, WORST_QUIET, WORST_NOISY)),
    ]
    if errors.count < SYSTEMATIC_FROM or own <= NOISY_FROM * scale:
        return measures
    if scale > 0 and not cancels:
        # Rounding does not average out if a single large element determines the slope.
        noise = SCALE_NOISE * own / scale / math.sqrt(errors.carrying)
        limit = max(SCALE_OWN * abs(errors.slope_eager), noise, SCALE_ROUNDING)
        measures.append(Measured("error in scale", abs(errors.slope_compiled), limit))
    if errors.rows >= CHANNEL_ROWS and errors.channels >= FEWEST_CHANNELS:
        own_channel = max(errors.channel_eager, own / math.sqrt(errors.rows))
        limit = by_count(CHANNEL_NOISY, errors.count) * own_channel
        measures.append(Measured("error of the channel means", errors.channel_compiled, limit))
    return measures


def widened(measures: Sequence[Measured], perturbed: Sequence[Errors], *, gradient: bool = False) -> list[Measured]:
    """Return the measured errors, with limits widened according to eager runs with perturbed rounding."""
    multiple, largest = (PERTURBED_GRADIENT, PERTURBED_GRADIENT_LARGEST) if gradient else (PERTURBED, PERTURBED)
    reached: dict[str, float] = {
        "error": multiple * max(run.rms_eager for run in perturbed),
        "largest error": largest * max(run.max_eager for run in perturbed),
        "error in scale": PERTURBED_SCALE * max(abs(run.slope_eager) for run in perturbed),
        "error of the channel means": PERTURBED_CHANNEL * max(run.channel_eager for run in perturbed),
    }
    return [replace(measured, limit=max(measured.limit, reached[measured.name])) for measured in measures]


def widened_alone(perturbed: Sequence[Errors]) -> list[Measured]:
    """Return the errors and limits for a tensor without an fp64 reference. The errors are differences from the first
    eager run. The limits are multiples of the largest differences between the first eager run and eager runs with
    perturbed rounding.
    """
    limit = PERTURBED_ALONE * max(run.rms_eager for run in perturbed)
    largest = PERTURBED_ALONE * max(run.max_eager for run in perturbed)
    distance = perturbed[0]
    return [Measured("error", distance.rms_compiled, limit), Measured("largest error", distance.max_compiled, largest)]


def by_count(table: Sequence[tuple[int, float]], count: int) -> float:
    """Return the multiple that ``table`` contains for a tensor with ``count`` elements."""
    return next(multiple for least, multiple in table if count >= least)


def _limit(own: float, visible: float, quiet: float, noisy: float) -> float:
    """Return the limit on the compiled run's error, based on eager's error ``own``. The limit is ``quiet * own``, but
    at most ``visible``; if ``noisy * own`` is greater, the limit is ``noisy * own``.
    """
    return max(noisy * own, min(quiet * own, visible))
