"""Eager legs with other rounding: how far rounding alone carries a model's results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import torch

from ._torch.shaking import Shaking
from .legs import LazyLeg, Leg, Work
from .numerics import CallRecord

RUNS = 8


class ShakenLeg(Leg):
    """Eager, with every op's rounding disturbed by its own random stream; the model's random numbers stay the same."""

    def __init__(self, work: Work, seed: int) -> None:
        super().__init__(work)
        self._shaking = Shaking(seed)

    def run(self, index: int) -> CallRecord:
        """Carry out call ``index`` and record what it did."""
        with self._shaking:
            return super().run(index)

    def _cotangents(self, outputs: Sequence[torch.Tensor], index: int) -> list[torch.Tensor]:
        with self._shaking.paused():
            return super()._cotangents(outputs, index)


class ShakenLegs:
    """Several of them, each run only as far as somebody asks."""

    def __init__(self, work: Work) -> None:
        self._legs = [LazyLeg(partial(ShakenLeg, work, seed)) for seed in range(1, RUNS + 1)]

    def records(self, index: int) -> Iterator[CallRecord]:
        """What the legs did on call ``index``, one after the other; those that cannot run are left out."""
        for leg in self._legs:
            record = leg.record(index)
            if record is not None:
                yield record
