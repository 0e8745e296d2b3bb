"""Additional eager runs of a call, with which a comparison judges values that differ."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from .record import CallRecord


@dataclass(frozen=True)
class ExtraRuns:
    """Additional eager runs of one call. A comparison starts each run only if it needs the run.

    ``float64`` returns the record of the run in float64, and ``repeat`` returns the record of a second eager run. Both
    return None if their run failed. ``perturbed`` yields the records of runs with perturbed rounding, and
    ``strongly_perturbed`` those of runs with larger perturbations.
    """

    float64: Callable[[], CallRecord | None]
    repeat: Callable[[], CallRecord | None]
    perturbed: Callable[[], Iterable[CallRecord]] = tuple
    strongly_perturbed: Callable[[], Iterable[CallRecord]] = tuple
