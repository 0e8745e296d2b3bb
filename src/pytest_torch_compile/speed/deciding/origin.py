"""Where a change of wall time comes from: the kernels, the host, or both. Plain data: neither torch nor pytest."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from ..sample import Run
from .constants import MOST
from .times import Verdict, host_bound

Side = Literal["kernels", "host", "kernels and host"]


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


def split_wall(verdict: Verdict, stored: Sequence[Run], new: Sequence[Run]) -> Split | None:
    """How a change of wall time splits into kernels and host; None without device time.

    Kernels count for what their time takes of the wall time. Where the host hands out work slower than the device
    does it, the device waits, and slower kernels are hidden.
    """
    effects = {change.metric: change.effect for change in verdict.changes}
    if "wall" not in effects or not all(run.device and run.host for run in (*stored, *new)):
        return None
    share = fmean(math.log(run.device.compiled / run.wall.compiled) for run in new if run.device)
    hidden = host_bound(new) and math.exp(share) < 0.9
    kernels = 0.0 if hidden else effects.get("device", 0.0) * min(1.0, math.exp(share))
    return Split(effects["wall"], kernels, effects["wall"] - kernels)
