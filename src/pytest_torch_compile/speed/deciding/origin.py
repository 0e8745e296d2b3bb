"""Where a change of wall time comes from: the kernels, the host, or both. Plain data: neither torch nor pytest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from ..sample import Figures
from .scatter import control_of, mean_shift
from .verdict import Verdict

Side = Literal["kernels", "host", "kernels and host"]
# A side that made so much of a change is named alone.
MOST = 0.7


@dataclass(frozen=True)
class Split:
    """A change of wall time, as log ratios: the part that came from kernels and the part that came from the host."""

    wall: float
    kernels: float
    host: float

    @property
    def side(self) -> Side:
        """Which of the two made most of it."""
        if self.kernels >= MOST * self.wall:
            return "kernels"
        return "host" if self.host >= MOST * self.wall else "kernels and host"


def side_of(verdict: Verdict, split: Split | None) -> Side | None:
    """Where a regression comes from. Slower kernels that hide behind the host are a regression all the same."""
    slower = {change.metric for change in verdict.changed("regressed")}
    if "wall" not in slower:
        return "kernels" if "device" in slower else None
    if split is None:
        return "kernels and host" if "device" in slower else None
    return "kernels and host" if "device" in slower and split.side == "host" else split.side


def split_wall(stored: Sequence[Figures], new: Sequence[Figures]) -> Split | None:
    """How a change of wall time splits into kernels and host; None without device time.

    Kernels count for what their time takes of the wall time. Where the host hands out work slower than the device
    does it, the device waits, and slower kernels are hidden.
    """
    if not all("device" in run and "host" in run for run in (*stored, *new)):
        return None
    wall, device = (mean_shift(metric, control_of(metric, stored), stored, new) for metric in ("wall", "device"))
    seconds = {metric: fmean(run[metric][1] for run in new) for metric in ("wall", "device", "host")}
    launch_bound = seconds["host"] > 0.9 * seconds["wall"] and seconds["device"] < 0.9 * seconds["wall"]
    kernels = 0.0 if launch_bound else device * min(1.0, seconds["device"] / seconds["wall"])
    return Split(wall, kernels, wall - kernels)
