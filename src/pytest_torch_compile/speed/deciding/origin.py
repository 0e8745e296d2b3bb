"""Attribute a change in wall time to the kernels, the host, or both. This module imports neither torch nor pytest."""

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
    """A change in wall time, and the kernels' and the host's contributions to the change, all as log ratios."""

    wall: float
    kernels: float
    host: float

    @property
    def side(self) -> Side:
        """The side that caused most of the change: the kernels, the host, or both if neither side alone caused most of
        it.
        """
        if self.kernels >= MOST * self.wall:
            return "kernels"
        return "host" if self.host >= MOST * self.wall else "kernels and host"


def side_of(verdict: Verdict, split: Split | None) -> Side | None:
    """Return the side (kernels, host or both) that caused a regression in device or wall time. Return None if there is
    no such regression, or if the side is unknown. Slower kernels are a regression even if the host time hides the
    slowdown.
    """
    slower = {change.metric for change in verdict.changed("regressed")}
    if "wall" not in slower:
        return "kernels" if "device" in slower else None
    if split is None:
        return "kernels and host" if "device" in slower else None
    return "kernels and host" if "device" in slower and split.side == "host" else split.side


def split_wall(verdict: Verdict, stored: Sequence[Run], new: Sequence[Run]) -> Split | None:
    """Split a change in wall time between kernels and host. Return None if a device time or a host time is missing.

    The change in device time is weighted by the fraction of the wall time that the kernels take. If the host enqueues
    work more slowly than the device processes it, the device waits for the host, and the wait hides slower kernels. In
    this case, the whole change is attributed to the host.
    """
    effects = {change.metric: change.effect for change in verdict.changes}
    if "wall" not in effects or not all(run.device and run.host for run in (*stored, *new)):
        return None
    share = fmean(math.log(run.device.compiled / run.wall.compiled) for run in new if run.device)
    hidden = host_bound(new) and math.exp(share) < 0.9
    kernels = 0.0 if hidden else effects.get("device", 0.0) * min(1.0, math.exp(share))
    return Split(effects["wall"], kernels, effects["wall"] - kernels)
