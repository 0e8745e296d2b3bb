"""What the stored runs of a test establish: where it lies, and how processes scatter. Neither torch nor pytest."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median, stdev
from typing import Literal

from ..sample import Figures

PRIOR_FREEDOM = 4
FLOOR_SPREADS = 2.0
CLEARLY_STEADIER = 1.5
# With five to nine stored runs, this catches 99 to 100 % of 2 % slower kernels where ten would catch 90 to 92 %, and no
# more is red without cause (replayed, one H200).
ENOUGH_TO_CHOOSE = 5
HOST_BOUND = 0.9


@dataclass(frozen=True)
class Metric:
    """A gated quantity: the smallest floor it may have, and the spread assumed while few runs are stored.

    ``controls`` are what the compiled leg may be compared with: a quantity of the eager leg, or nothing. The first is
    the rule; for device time another is taken where the stored runs are clearly steadier against it.
    """

    title: str
    floor: float
    spread: float
    controls: tuple[str, ...]
    kind: Literal["slowdown", "memory", "compile-time"] = "slowdown"


# Bytes do not depend on how fast a machine is, and eager's hold what libraries take on first use. Times do:
# a compiled leg that the host holds up scatters with eager's wall time; one that waits for its kernels does not, and
# is compared with eager's device time. Device time is compared with nothing where eager's own kernels are unsteady.
METRICS: Mapping[str, Metric] = {
    "device": Metric("device time", 0.01, 0.003, ("device", "")),
    "wall": Metric("wall time", 0.02, 0.008, ("wall", "device")),
    "memory": Metric("peak memory", 0.02, 0.001, ("",), "memory"),
    "start": Metric("cold start", 0.25, 0.08, ("start",), "compile-time"),
    "warm-start": Metric("warm start", 0.25, 0.08, ("warm-start",), "compile-time"),
}


@dataclass(frozen=True)
class Reference:
    """One metric over the stored runs: the mean log ratio to ``control``, its spread over processes, and the floor."""

    metric: str
    control: str
    mean: float
    spread: float
    freedom: int
    runs: int
    floor: float


def log_ratio(run: Figures, metric: str, control: str) -> float:
    """The compiled leg of a metric against a quantity of the eager leg, or against nothing (``""``)."""
    if control == metric:
        return run[metric][2]
    compiled = math.log(run[metric][1])
    return compiled - math.log(run[control][0]) if control else compiled


def mean_shift(metric: str, control: str, stored: Sequence[Figures], new: Sequence[Figures]) -> float:
    """By how much the mean log ratio of the new runs lies over that of the stored ones."""
    after, before = (fmean(log_ratio(run, metric, control) for run in runs) for runs in (new, stored))
    return after - before


def control_of(metric: str, stored: Sequence[Figures]) -> str:
    """What to compare a metric with, from the stored runs."""
    if metric == "wall":
        return "wall" if host_bound(stored) else "device"
    first, *others = METRICS[metric].controls
    if len(stored) < ENOUGH_TO_CHOOSE:
        return first

    def spread(control: str) -> float:
        return stdev(log_ratio(run, metric, control) for run in stored)

    best = min(others, key=spread, default=first)
    return best if spread(first) > CLEARLY_STEADIER * spread(best) else first


def host_bound(stored: Sequence[Figures]) -> bool:
    """Whether the host takes about all of the compiled leg's wall time, or nothing is known of host and device."""
    if not stored or not all("host" in run and "device" in run for run in stored):
        return True
    return fmean(run["host"][1] / run["wall"][1] for run in stored) > HOST_BOUND


def reference(metric: str, stored: Sequence[Figures], prior: float | None = None) -> Reference:
    """What the stored runs, one for each process, establish.

    Few runs estimate a spread badly, so it is drawn towards ``prior`` as if that came from four more runs. The floor
    is two spreads, and never under the metric's own.
    """
    prior = METRICS[metric].spread if prior is None else prior
    control = control_of(metric, stored)
    values = [log_ratio(run, metric, control) for run in stored]
    squares = sum((value - fmean(values)) ** 2 for value in values)
    freedom = len(values) - 1 + PRIOR_FREEDOM
    spread = math.sqrt((squares + PRIOR_FREEDOM * prior**2) / freedom)
    floor = max(METRICS[metric].floor, FLOOR_SPREADS * spread)
    return Reference(metric, control, fmean(values), spread, freedom, len(values), floor)


def prior_spread(metric: str, histories: Iterable[Sequence[Figures]]) -> float:
    """The typical spread of a metric over a suite's tests, or the metric's own when they are few.

    Never zero: a figure that has been the same so far, such as memory, may still move a little.
    """
    own = METRICS[metric].spread
    spreads = []
    for runs in histories:
        if len(runs) >= 4 and all(metric in run for run in runs):
            control = control_of(metric, runs)
            spreads.append(stdev(log_ratio(run, metric, control) for run in runs))
    return max(median(spreads), own / 4) if len(spreads) >= 4 else own


def priors_of(histories: Sequence[Sequence[Figures]]) -> dict[str, float]:
    """The typical spread of every metric over a suite's tests; of wall time, by what it is compared with."""
    priors = {metric: prior_spread(metric, histories) for metric in METRICS}
    for control in METRICS["wall"].controls:
        alike = [runs for runs in histories if control_of("wall", runs) == control]
        known = [runs for runs in alike if len(runs) >= 4]
        priors[f"wall/{control}"] = prior_spread("wall", alike) if len(known) >= 4 else priors["wall"]
    return priors


def prior_for(metric: str, stored: Sequence[Figures], priors: Mapping[str, float]) -> float | None:
    """The prior that fits what a test is compared with."""
    return priors.get(f"{metric}/{control_of(metric, stored)}", priors.get(metric))
